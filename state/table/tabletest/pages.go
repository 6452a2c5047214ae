package tabletest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
)

type query = table.Query[Record]

func where(field, op string, v any) []table.Cond {
	return []table.Cond{{Field: field, Op: op, Value: v}}
}

// walk reads all pages of a query, of so many records each.
func (w *world[Raw]) walk(t testing.TB, q query, most int) (all []*Record) {
	t.Helper()
	q.Most = most
	for {
		page := w.page(t, q)
		all = append(all, page...)
		if len(page) < most {
			return all
		}
		if len(all) > 10_000 {
			t.Fatal("pages have no end")
		}
		q.After = page[len(page)-1]
	}
}

func pageCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"goes by key, in both directions, as bytes", "a listing is the same on every backend and in every locale", func(t *testing.T, w *world[Raw]) {
			in := []string{"\x00", "A", "B", "a", "a\x00", "aa", "b", "é", "\xff"}
			for _, i := range []int{4, 1, 8, 0, 3, 7, 2, 6, 5} {
				w.put(t, &Record{Key: in[i]})
			}
			back := slices.Clone(in)
			slices.Reverse(back)
			for most := 1; most < 11; most++ {
				if got := keys(w.walk(t, query{}, most)); got != joined(in) {
					t.Errorf("pages of %d: %q, want %q", most, got, joined(in))
				}
				if got := keys(w.walk(t, query{Back: true}, most)); got != joined(back) {
					t.Errorf("pages of %d backwards: %q, want %q", most, got, joined(back))
				}
				var all []*Record
				err := w.View(t.Context(), func(tx table.Reader[Record]) (err error) {
					all, err = table.All(tx, query{Most: most})
					return err
				})
				if got := keys(all); err != nil || got != joined(in) {
					t.Errorf("All in pages of %d: %q, %v; want %q", most, got, err, joined(in))
				}
			}
		}},
		{"goes by each order, equal values by key", "records of one millisecond are neither skipped nor shown twice", func(t *testing.T, w *world[Raw]) {
			var rows []*Record
			for i := range 24 {
				rows = append(rows, &Record{Key: fmt.Sprintf("k%02d", i*7%24), Group: []string{"", "g", "gg"}[i%3], State: uint8(i % 4), At: day(i % 5),
					No: uint64(i % 2), Tries: i%3 - 1, Flag: i%4 < 2, Body: []byte{byte(i % 2), 0xff}[:i%3]})
			}
			w.put(t, rows...)
			for by, less := range orders {
				want := slices.Clone(rows)
				slices.SortFunc(want, less)
				for _, back := range []bool{false, true} {
					for _, most := range []int{1, 5, 24, 100} {
						if got := keys(w.walk(t, query{By: by, Back: back}, most)); got != keys(want) {
							t.Errorf("by %s, backwards %v, pages of %d: %s, want %s", by, back, most, got, keys(want))
						}
					}
					slices.Reverse(want)
				}
			}
		}},
		{"goes on after a position, whatever comes and goes", "an operator pages through a table that is at work", func(t *testing.T, w *world[Raw]) {
			for i := range 10 {
				w.put(t, &Record{Key: fmt.Sprint("k", i), At: day(i / 2)})
			}
			page := w.page(t, query{By: "at", Most: 4})
			w.remove(t, "k3", "k6") // the last that was shown, and one to come
			w.put(t, &Record{Key: "k1x", At: day(0)}, &Record{Key: "k3x", At: day(1)})
			if got := keys(w.walk(t, query{By: "at", After: page[3]}, 3)); got != "k3x k4 k5 k7 k8 k9" {
				t.Errorf("after k3: %s", got)
			}
			if got := keys(w.walk(t, query{By: "at", After: page[3], Back: true}, 3)); got != "k2 k1x k1 k0" {
				t.Errorf("before k3: %s", got)
			}
			// The position needs no more than what the order has.
			if got := keys(w.page(t, query{By: "at", After: &Record{Key: "k8", At: day(4)}, Most: 9})); got != "k9" {
				t.Errorf("after the position of k8: %s", got)
			}
		}},
		{"keeps conditions, on the order's fields and on others", "an operator looks for a few of many", func(t *testing.T, w *world[Raw]) {
			for i := range 10 {
				w.put(t, &Record{Key: fmt.Sprint("k", i), Group: []string{"a", "b"}[i%2], State: uint8(i % 3), At: day(i), Until: day(-i), No: uint64(i), Tries: -i,
					Flag: i > 4, Body: []byte{byte(i)}, Call: math.MaxUint64 - uint64(i)})
			}
			for _, c := range []struct {
				by    string
				where []table.Cond
				want  string
			}{
				{"", where("key", "=", "k3"), "k3"},
				{"", where("key", ">=", "k8"), "k8 k9"},
				{"", where("key", "<", "k2"), "k0 k1"},
				{"", where("group", "=", "b"), "k1 k3 k5 k7 k9"},
				{"", where("flag", "=", true), "k5 k6 k7 k8 k9"},
				{"", where("body", ">", []byte{7}), "k8 k9"},
				{"", where("call", "=", uint64(math.MaxUint64-3)), "k3"},
				{"", where("tries", "<=", -8), "k8 k9"},
				{"", where("until", ">", day(-2)), "k0 k1"},
				{"at", where("at", "=", day(4)), "k4"},
				{"at", where("at", "<", day(2).Add(time.Microsecond)), "k0 k1"},
				{"at", append(where("at", ">", day(2)), where("at", "<=", day(5))...), "k3 k4 k5"},
				{"at", append(where("at", ">=", day(2)), where("flag", "=", false)...), "k2 k3 k4"},
				{"at", append(where("at", ">=", day(2)), where("at", ">", day(7))...), "k8 k9"},
				{"at", append(where("at", "=", day(2)), where("at", "=", day(3))...), ""},
				{"state", where("state", "=", uint8(1)), "k1 k4 k7"},
				{"state", append(where("state", "=", uint8(1)), where("at", ">", day(1))...), "k4 k7"},
				{"state", append(where("state", ">=", uint8(1)), where("at", "<", day(5))...), "k1 k4 k2"},
				{"group", append(where("group", "=", "a"), append(where("flag", "=", true), where("no", "<=", uint64(6))...)...), "k6"},
				{"group", append(where("flag", "=", true), where("no", ">", uint64(6))...), "k8 k7 k9"},
				{"group", append(where("group", "=", "a"), append(where("flag", "=", true), where("no", "<", uint64(math.MaxUint64))...)...), "k6 k8"},
				{"group", append(where("group", "=", "a"), append(where("flag", "=", true), where("no", ">=", uint64(1<<63))...)...), ""},
				{"", where("no", "<=", uint64(1<<63)), "k0 k1 k2 k3 k4 k5 k6 k7 k8 k9"},
				{"", where("no", ">", uint64(1<<63)), ""},
				{"", where("no", "=", uint64(1<<63)), ""},
				{"tries", append(where("key", "=", "k3"), where("tries", "=", -3)...), "k3"},
			} {
				want := w.walk(t, query{By: c.by, Where: c.where}, 100)
				if keys(want) != c.want {
					t.Errorf("by %q where %v: %q, want %q", c.by, c.where, keys(want), c.want)
				}
				for most := 1; most < 4; most++ {
					if got := keys(w.walk(t, query{By: c.by, Where: c.where}, most)); got != c.want {
						t.Errorf("by %q where %v, pages of %d: %q, want %q", c.by, c.where, most, got, c.want)
					}
					got := w.walk(t, query{By: c.by, Where: c.where, Back: true}, most)
					slices.Reverse(got)
					if keys(got) != c.want {
						t.Errorf("by %q where %v, pages of %d backwards: reverse of %q, want %q", c.by, c.where, most, keys(got), c.want)
					}
				}
				if n, err := w.Count(t.Context(), 100, c.where...); err != nil || n != len(want) {
					t.Errorf("Count where %v: %d, %v; want %d", c.where, n, err, len(want))
				}
			}
		}},
		{"keeps conditions where a position meets their bound", "the next page of one millisecond must not begin before it", func(t *testing.T, w *world[Raw]) {
			for i := range 6 {
				w.put(t, &Record{Key: fmt.Sprint("k", i), At: day(i / 2), State: 1})
			}
			at := func(ms int, key string) *Record { return &Record{Key: key, At: day(ms), State: 1} }
			for _, c := range []struct {
				op         string
				after      *Record
				want, back string
			}{
				{">", at(1, "k2"), "k4 k5", ""},
				{">=", at(1, "k2"), "k3 k4 k5", ""},
				{"<", at(1, "k3"), "", "k1 k0"},
				{"<=", at(1, "k3"), "", "k2 k1 k0"},
				{">", at(0, "k0"), "k4 k5", ""},
				{">=", at(2, "k4"), "k5", "k3 k2"},
				{"<", at(2, "k5"), "", "k1 k0"},
				{"<=", at(0, "k1"), "k2 k3", "k0"},
				{"=", at(1, "k2"), "k3", ""},
				{"=", at(0, "k9"), "k2 k3", ""},
				{"=", at(2, "k0"), "", "k3 k2"},
			} {
				for _, by := range []string{"at", "state"} {
					conds := where("at", c.op, day(1))
					if by == "state" {
						conds = append(conds, where("state", "=", uint8(1))...)
					}
					got, back := w.page(t, query{By: by, Where: conds, After: c.after, Most: 9}), w.page(t, query{By: by, Where: conds, After: c.after, Most: 9, Back: true})
					if keys(got) != c.want || keys(back) != c.back {
						t.Errorf("by %s where at %s 1 after %s: %q and back %q, want %q and %q", by, c.op, c.after.Key, keys(got), keys(back), c.want, c.back)
					}
				}
			}
			if got := keys(w.page(t, query{Where: where("key", "=", "k1"), After: at(0, "k1"), Most: 9})); got != "" {
				t.Errorf("after the only record that fits: %s", got)
			}
		}},
		{"counts up to a bound", "a console shows 1000+, and does not read a million for it", func(t *testing.T, w *world[Raw]) {
			for i := range 6 {
				w.put(t, &Record{Key: fmt.Sprint(i), State: uint8(i % 2)})
			}
			for most, want := range map[int]int{1: 1, 5: 5, 6: 6, 7: 6} {
				if n, err := w.Count(t.Context(), most); err != nil || n != want {
					t.Errorf("Count up to %d: %d, %v; want %d", most, n, err, want)
				}
			}
			if n, err := w.Count(t.Context(), 2, where("state", "=", uint8(1))...); err != nil || n != 2 {
				t.Errorf("Count up to 2 of a state: %d, %v", n, err)
			}
		}},
		{"shows what the transaction has changed", "rules go by their own changes", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", At: day(1)}, &Record{Key: "b", At: day(2)})
			if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				if err := tx.Put([]*Record{{Key: "c", At: day(0)}, {Key: "a", At: day(3)}}); err != nil {
					return err
				}
				if err := tx.Put([]*Record{{Key: "a", Tries: 5}}, "tries"); err != nil {
					return err
				}
				page, err := tx.Page(query{By: "at", Most: 9})
				if err != nil {
					return err
				}
				if keys(page) != "c b a" || page[2].Tries != 5 {
					t.Errorf("%s, want c b a", keys(page))
				}
				if err := tx.Delete([]string{"b"}); err != nil {
					return err
				}
				found, err := tx.Get([]string{"a", "b", "c"})
				if len(found) != 2 || found["b"] != nil {
					t.Errorf("found %v, want a and c", found)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := keys(w.page(t, query{By: "at", Most: 9})); got != "c a" {
				t.Errorf("after it: %s", got)
			}
		}},
		{"refuses queries that it cannot answer", "an answer to another question looks like an answer", func(t *testing.T, w *world[Raw]) {
			for name, q := range map[string]query{
				"no number":                {},
				"a negative number":        {Most: -1},
				"an unknown order":         {By: "color", Most: 1},
				"an unknown field":         {Most: 1, Where: where("color", "=", "x")},
				"an unknown field to read": {Most: 1, Only: []string{"color"}},
				"an unknown operator":      {Most: 1, Where: where("tries", "!=", 1)},
				"a value of another type":  {Most: 1, Where: where("tries", "=", "1")},
				"no value":                 {Most: 1, Where: where("tries", "=", nil)},
				"a range of a bool":        {Most: 1, Where: where("flag", "<", true)},
				"a range of large numbers": {Most: 1, Where: where("call", "<", uint64(1))},
				"a position of no record":  {Most: 1, By: "group", After: &Record{Key: "k", No: math.MaxInt64 + 1}},
			} {
				err := w.View(t.Context(), func(tx table.Reader[Record]) error { _, err := tx.Page(q); return err })
				if tidemill.KindOf(err) != tidemill.Validation {
					t.Errorf("%s: %v, want an error of validation", name, err)
				}
			}
			if _, err := w.Count(t.Context(), 0); err == nil {
				t.Error("Count up to 0: no error")
			}
			if _, err := w.Count(t.Context(), 1, where("color", "=", "x")...); err == nil {
				t.Error("Count by an unknown field: no error")
			}
		}},
	}
}
