package tabletest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

// older is the spec of the program before: it has no field call, and fewer orders.
func older(name string) table.Spec[Record] {
	s := Spec(name)
	s.Fields, s.Orders = s.Fields[:9], s.Orders[:4]
	return s
}

// newer has an order by the new field too.
func newer(name string) table.Spec[Record] {
	s := Spec(name)
	s.Orders = append(s.Orders, table.Order{Name: "call", By: []string{"call", "state"}})
	return s
}

// addedOrders are those of newer that older does not have.
var addedOrders = map[string]func(a, b *Record) int{
	"tries": orders["tries"], "body": orders["body"],
	"call": func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.State, b.State), cmp.Compare(a.Key, b.Key))
	},
}

func (w *world[Raw]) opened(t testing.TB, spec table.Spec[Record]) *world[Raw] {
	t.Helper()
	s, err := w.Harness.Open(t.Context(), spec)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return &world[Raw]{Harness: w.Harness, Store: s, name: w.name}
}

// inOrder holds that each order has all records, as they are.
func (w *world[Raw]) inOrder(t testing.TB) {
	t.Helper()
	all := w.page(t, query{Most: 9999})
	for by, order := range addedOrders {
		want := slices.SortedFunc(slices.Values(all), order)
		if got := w.page(t, query{By: by, Most: 9999}); !slices.EqualFunc(got, want, equal) {
			t.Errorf("by %s there are %d records %.200s, want %d %.200s", by, len(got), keys(got), len(want), keys(want))
		}
	}
}

func growCases[Raw any]() []testcase[Raw] {
	const many = 1100 // more than a backend does at once
	fill := func(t testing.TB, old *world[Raw]) {
		t.Helper()
		var rows []*Record
		for i := range many {
			rows = append(rows, &Record{Key: fmt.Sprintf("k%04d", i), State: uint8(i % 3), Tries: i*7%11 - 5, Body: []byte(fmt.Sprint(i % 13))[:i%2]})
		}
		old.put(t, rows...)
	}
	return []testcase[Raw]{
		{"gains fields and orders while it has data", "a new version starts on what the one before has written", func(t *testing.T, w *world[Raw]) {
			w.name = newName()
			old := w.opened(t, older(w.name))
			fill(t, old)
			counts, err := old.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			now := w.opened(t, newer(w.name))
			now.inOrder(t)
			now.counted(t, counts)
			if got := now.get(t, "k0005"); got == nil || got.Call != 0 || got.Tries != 35%11-5 {
				t.Errorf("a record is %+v", got)
			}
			now.put(t, &Record{Key: "k0005", Call: math.MaxInt64, Tries: 2}, &Record{Key: "new", Call: 5})
			same(t, w.opened(t, newer(w.name)).get(t, "k0005"), &Record{Key: "k0005", Call: math.MaxInt64, Tries: 2})
		}},
		{"is kept whole by the program before", "while instances are replaced one by one, both versions work", func(t *testing.T, w *world[Raw]) {
			w.name = newName()
			before := w.opened(t, older(w.name))
			before.put(t, &Record{Key: "a", State: 1}, &Record{Key: "b", State: 1}, &Record{Key: "c", State: 1}, &Record{Key: "d", State: 1})
			now := w.opened(t, newer(w.name))
			for i, old := range []*world[Raw]{before, w.opened(t, older(w.name))} { // one that was there, and one that comes
				call := uint64(7 + i)
				now.put(t, &Record{Key: "a", Call: call}, &Record{Key: "b", Call: call}, &Record{Key: "c", Call: call}, &Record{Key: "d", Call: call})
				old.put(t, &Record{Key: "a", State: 2, Tries: 3 + i, Body: []byte("x")})
				if err := old.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
					return tx.Put([]*Record{{Key: "b", Tries: -1 - i}, {Key: "z"}}, "tries")
				}); err != nil {
					t.Fatal(err)
				}
				old.remove(t, "c")
				if err := old.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
					if err := tx.Delete([]string{"d"}); err != nil {
						return err
					}
					return tx.Put([]*Record{{Key: "d", Tries: 1}, {Key: "e", Tries: 4}})
				}); err != nil {
					t.Fatal(err)
				}
				same(t, now.get(t, "a"), &Record{Key: "a", State: 2, Tries: 3 + i, Body: []byte("x"), Call: call})
				same(t, now.get(t, "b"), &Record{Key: "b", Tries: -1 - i, Call: call})
				same(t, now.get(t, "c"), nil)
				same(t, now.get(t, "d"), &Record{Key: "d", Tries: 1})
				same(t, now.get(t, "e"), &Record{Key: "e", Tries: 4})
				now.inOrder(t)
				now.counted(t, map[string]int{"/2": 1})
				same(t, old.get(t, "a"), &Record{Key: "a", State: 2, Tries: 3 + i, Body: []byte("x")})
				if n, err := old.Sweep(t.Context(), day(0), 9); n != 0 || err != nil {
					t.Errorf("Sweep: %d, %v", n, err)
				}
			}
		}},
		{"gains them once while others work", "all instances of a new version start at the same time, and the old ones go on", func(t *testing.T, w *world[Raw]) {
			w.name = newName()
			old := w.opened(t, older(w.name))
			fill(t, old)
			var working, opening sync.WaitGroup
			done := make(chan struct{})
			for i := range 2 {
				working.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-done:
							return
						default:
						}
						key := fmt.Sprintf("k%04d", (n*37+i*500)%many)
						if err := old.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							if n%5 == 4 {
								return tx.Delete([]string{key})
							}
							return add(tx, key, n+1)
						}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for i := range 4 {
				opening.Go(func() {
					now, err := w.Harness.Open(t.Context(), newer(w.name))
					if err != nil {
						t.Error(err)
						return
					}
					for n := range 10 {
						if err := now.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							return tx.Put([]*Record{{Key: fmt.Sprintf("k%04d", n*100+i), Call: uint64(n)}}, "call")
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			opening.Wait()
			close(done)
			working.Wait()
			w.opened(t, newer(w.name)).inOrder(t)
		}},
		{"refuses all other changes of its spec", "a field read as another is a wrong answer, not an error", func(t *testing.T, w *world[Raw]) {
			for name, change := range map[string]func(s *table.Spec[Record]){
				"another key":             func(s *table.Spec[Record]) { s.Fields[0].Name = "id" },
				"a field gone":            func(s *table.Spec[Record]) { s.Fields = slices.Delete(s.Fields, 7, 8); s.Orders = s.Orders[:3] },
				"a field between":         func(s *table.Spec[Record]) { s.Fields[8], s.Fields[9] = s.Fields[9], s.Fields[8] },
				"a field of another type": func(s *table.Spec[Record]) { s.Fields[9].At = func(r *Record) any { return new(time.Time) } },
				"another order":           func(s *table.Spec[Record]) { s.Orders[0].By = []string{"no"} },
				"another counter":         func(s *table.Spec[Record]) { s.Count.From = []string{"group"} },
				"no expiry":               func(s *table.Spec[Record]) { s.Expires = "" },
				"a field and an order less, and one more": func(s *table.Spec[Record]) {
					s.Fields, s.Orders = s.Fields[:9], append(s.Orders, table.Order{Name: "no", By: []string{"no"}})
				},
			} {
				s := Spec(w.name)
				change(&s)
				if _, err := w.Harness.Open(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another spec") {
					t.Errorf("%s: the error is %v", name, err)
				}
			}
			w.put(t, full("a")) // it goes on
			if s := w.another(t); s == nil {
				t.Error("the table was not opened again")
			}
		}},
	}
}
