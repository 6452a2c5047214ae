package tabletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tidemill/tidemill/state/table"
)

func concurrentCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"loses no update of many writers of one record", "two owners of a lease are the effect twice", func(t *testing.T, w *world[Raw]) {
			const writers, times = 8, 10
			stores := []table.Store[Record, Raw]{w.Store, w.another(t)}
			var g sync.WaitGroup
			for i := range writers {
				g.Go(func() {
					for range times {
						if err := stores[i%2].Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return add(tx, "a", 1) }); err != nil {
							t.Error(err)
						}
					}
				})
			}
			g.Wait()
			if r := w.get(t, "a"); r == nil || r.Tries != writers*times {
				t.Errorf("the record is %+v, want Tries %d", r, writers*times)
			}
		}},
		{"makes a record once", "of many that find nothing, one makes it", func(t *testing.T, w *world[Raw]) {
			for round := range 5 {
				var mu sync.Mutex // guards made
				made := 0
				var g sync.WaitGroup
				for range 8 {
					g.Go(func() {
						mine := false
						if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							found, err := tx.Get([]string{fmt.Sprint(round)})
							if mine = len(found) == 0; err != nil || !mine {
								return err
							}
							return tx.Put([]*Record{{Key: fmt.Sprint(round), State: 1}})
						}); err != nil {
							t.Error(err)
						}
						if mine {
							mu.Lock()
							made++
							mu.Unlock()
						}
					})
				}
				g.Wait()
				if made != 1 {
					t.Errorf("round %d: %d made it", round, made)
				}
			}
			w.counted(t, map[string]int{"/1": 5})
		}},
		{"moves between records without a loss", "a transaction that changes several is whole, in whatever order it reads them", func(t *testing.T, w *world[Raw]) {
			const accounts, each = 4, 100
			for i := range accounts {
				w.put(t, &Record{Key: fmt.Sprint(i), Tries: each})
			}
			var g sync.WaitGroup
			for i := range 3 {
				g.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), 1))
					for range 8 {
						from, to := fmt.Sprint(rnd.IntN(accounts)), fmt.Sprint(rnd.IntN(accounts))
						if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							if err := add(tx, from, -1); err != nil {
								return err
							}
							return add(tx, to, 1)
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			g.Wait()
			sum := 0
			for _, r := range w.page(t, query{Most: 9}) {
				sum += r.Tries
			}
			if sum != accounts*each {
				t.Errorf("the sum is %d, want %d", sum, accounts*each)
			}
		}},
		{"shows each moment whole", "a reader must not see a message in two places, or in none", func(t *testing.T, w *world[Raw]) {
			both := []string{"a", "b"}
			w.put(t, &Record{Key: "a"}, &Record{Key: "b"})
			var writing, reading sync.WaitGroup
			done := make(chan struct{})
			for range 2 {
				writing.Go(func() {
					for range 60 {
						if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							found, err := tx.Get(both)
							if err != nil {
								return err
							}
							found["a"].Tries++
							found["b"].Tries++
							return tx.Put([]*Record{found["a"], found["b"]})
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			reading.Go(func() {
				stop := false
				for round := 0; !stop; round++ {
					select {
					case <-done:
						stop = true
					default:
					}
					var seen []int
					if err := w.View(t.Context(), func(tx table.Reader[Record]) error {
						seen = nil
						for _, key := range both {
							found, err := tx.Get([]string{key}, "tries")
							if err != nil {
								return err
							}
							seen = append(seen, found[key].Tries)
						}
						if round%2 == 0 {
							return nil
						}
						page, err := tx.Page(query{By: "tries", Most: 2})
						for _, r := range page {
							seen = append(seen, r.Tries)
						}
						return err
					}); err != nil || len(slices.Compact(seen)) != 1 {
						t.Errorf("a view shows different numbers, or %v", err)
						return
					}
				}
			})
			writing.Wait()
			close(done)
			reading.Wait()
			if r := w.get(t, "b"); r.Tries != 120 {
				t.Errorf("the record is %+v, want Tries 120", r)
			}
		}},
		{"fails by what was so at one moment", "a rule that says no must not have seen halves of two changes", func(t *testing.T, w *world[Raw]) {
			both := []string{"a", "b"}
			w.put(t, &Record{Key: "a"}, &Record{Key: "b"})
			var g sync.WaitGroup
			g.Go(func() {
				for i := range 200 {
					w.put(t, &Record{Key: "a", Tries: i}, &Record{Key: "b", Tries: i})
				}
			})
			g.Go(func() {
				for range 200 {
					if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
						var seen []int
						for _, key := range both {
							found, err := tx.Get([]string{key}, "tries")
							if err != nil {
								return err
							}
							seen = append(seen, found[key].Tries)
						}
						if seen[0] != seen[1] {
							return errWrong
						}
						return nil
					}); err != nil {
						t.Errorf("Update: %v", err)
						return
					}
				}
			})
			g.Wait()
		}},
		{"shows nothing that is not committed", "what is undone was never there", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", Tries: 1})
			var g sync.WaitGroup
			for range 4 {
				g.Go(func() {
					for range 10 {
						_ = w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							if err := tx.Put([]*Record{{Key: "a", Tries: 666}, {Key: "b"}}); err != nil {
								return err
							}
							return errWrong
						})
					}
				})
				g.Go(func() {
					for range 20 {
						if r := w.get(t, "a"); r == nil || r.Tries != 1 {
							t.Errorf("the record is %+v", r)
						}
						if got := keys(w.page(t, query{Most: 9})); got != "a" {
							t.Errorf("there are %s", got)
						}
					}
				})
			}
			g.Wait()
		}},
		{"gives each record of a page to one of many", "workers take the oldest that is ready", func(t *testing.T, w *world[Raw]) {
			const n = 30
			for i := range n {
				w.put(t, &Record{Key: fmt.Sprintf("k%02d", i), State: 1, At: day(i % 7)})
			}
			var mu sync.Mutex // guards taken
			taken := map[string]int{}
			var g sync.WaitGroup
			for range 4 {
				g.Go(func() {
					for {
						var mine []*Record
						if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) (err error) {
							mine, err = tx.Page(query{By: "state", Where: where("state", "=", uint8(1)), Most: 3})
							for _, r := range mine {
								r.State = 2
							}
							if err != nil {
								return err
							}
							return tx.Put(mine, "state")
						}); err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, r := range mine {
							taken[r.Key]++
						}
						mu.Unlock()
						if len(mine) == 0 {
							return
						}
					}
				})
			}
			g.Wait()
			for key, times := range taken {
				if times != 1 {
					t.Errorf("%s was taken %d times", key, times)
				}
			}
			if len(taken) != n {
				t.Errorf("%d were taken, want %d", len(taken), n)
			}
			w.counted(t, map[string]int{"/2": n})
		}},
		{"is linearizable", "each record behaves as if one transaction came after the other", func(t *testing.T, w *world[Raw]) {
			for seed := range uint64(10) {
				linearizable(t, []table.Store[Record, Raw]{w.Store, w.another(t)}, seed)
			}
		}},
	}
}

// add adds to Tries of a record, which it makes where it does not exist.
func add(tx table.Tx[Record], key string, n int) error {
	found, err := tx.Get([]string{key})
	if err != nil {
		return err
	}
	r := found[key]
	if r == nil {
		r = &Record{Key: key}
	}
	r.Tries += n
	return tx.Put([]*Record{r})
}

// operation is one transaction of a history on one record.
type operation struct {
	does  string // read, page, append, set, delete, fail
	value string
}

// linearizable runs transactions of several clients on one record, and checks whether their
// answers fit an order of them in which each took effect between its beginning and its end.
func linearizable[Raw any](t *testing.T, stores []table.Store[Record, Raw], seed uint64) {
	t.Helper()
	key, began := fmt.Sprint("key ", seed), time.Now()
	var mu sync.Mutex // guards history
	var history []porcupine.Operation
	var g sync.WaitGroup
	for client := range 4 {
		g.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := range 10 {
				in := operation{value: fmt.Sprint(client, ".", i)}
				in.does = []string{"read", "page", "append", "append", "append", "set", "delete", "fail"}[rnd.IntN(8)]
				at := time.Since(began)
				out, err := operate(t, stores[client%len(stores)], key, in)
				if err != nil {
					t.Error(err)
					return
				}
				done := time.Since(began)
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(at), Output: out, Return: int64(done)})
				mu.Unlock()
			}
		})
	}
	g.Wait()
	switch porcupine.CheckOperationsTimeout(register, history, 10*time.Second) {
	case porcupine.Illegal:
		for _, o := range history {
			t.Logf("client %d [%d,%d] %+v -> %q", o.ClientId, o.Call, o.Return, o.Input, o.Output)
		}
		t.Errorf("history %d is not linearizable", seed)
	case porcupine.Unknown:
		t.Errorf("history %d could not be checked in time", seed)
	}
}

// operate does one transaction, and returns the value that it found; "-": no record.
func operate[Raw any](t *testing.T, s table.Store[Record, Raw], key string, op operation) (found string, err error) {
	get := func(tx table.Reader[Record]) error {
		rows, err := tx.Get([]string{key}, "group")
		if found = "-"; rows[key] != nil {
			found = rows[key].Group
		}
		return err
	}
	switch op.does {
	case "read":
		return found, s.View(t.Context(), get)
	case "page":
		err = s.View(t.Context(), func(tx table.Reader[Record]) error {
			rows, err := tx.Page(query{Where: where("key", "=", key), Most: 1})
			if found = "-"; len(rows) > 0 {
				found = rows[0].Group
			}
			return err
		})
		return found, err
	}
	err = s.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
		if err := get(tx); err != nil {
			return err
		}
		switch op.does {
		case "append":
			return tx.Put([]*Record{{Key: key, Group: strings.TrimPrefix(found, "-") + op.value + " "}})
		case "set":
			return tx.Put([]*Record{{Key: key, Group: op.value}}, "group")
		case "delete":
			return tx.Delete([]string{key})
		}
		if err := tx.Put([]*Record{{Key: key, Group: "undone"}}); err != nil {
			return err
		}
		return errWrong
	})
	if op.does == "fail" && err == errWrong {
		err = nil
	}
	return found, err
}

// register is the model of one record: its group, or "-".
var register = porcupine.Model{
	Init: func() any { return "-" },
	Step: func(s, in, out any) (bool, any) {
		is, op := s.(string), in.(operation)
		fits := out.(string) == is
		switch {
		case op.does == "append":
			is = strings.TrimPrefix(is, "-") + op.value + " "
		case op.does == "set" && is != "-":
			is = op.value
		case op.does == "delete":
			is = "-"
		}
		return fits, is
	},
}
