package tabletest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/state/table"
)

// togetherCases are about two tables in one transaction.
func togetherCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"changes two tables in one transaction", "a message leaves its queue for the dead letters, and is never in both", func(t *testing.T, w *world[Raw]) {
			other := open(t, w.Harness)
			move := func(key string, fails error) error {
				return w.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
					to := w.In(other.Store, raw)
					if err := errors.Join(tx.Delete([]string{key}), to.Put([]*Record{{Key: key, State: 2}})); err != nil {
						return err
					}
					found, err := to.Get([]string{key})
					if err == nil && found[key] == nil {
						err = errors.New("the other table does not show its change")
					}
					if err == nil {
						err = fails
					}
					return err
				})
			}
			w.put(t, &Record{Key: "a", State: 1}, &Record{Key: "b", State: 1})
			if err := move("a", nil); err != nil {
				t.Fatal(err)
			}
			if err := move("b", errWrong); !errors.Is(err, errWrong) {
				t.Fatal(err)
			}
			if here, there := keys(w.page(t, query{Most: 9})), keys(other.page(t, query{Most: 9})); here != "b" || there != "a" {
				t.Errorf("here are %q and there %q, want b and a", here, there)
			}
			w.counted(t, map[string]int{"/1": 1})
			other.counted(t, map[string]int{"/2": 1})
		}},
		{"moves between two tables without a loss", "what is in two tables is changed as one, by many at once", func(t *testing.T, w *world[Raw]) {
			other := open(t, w.Harness)
			w.put(t, &Record{Key: "a", Tries: 100})
			other.put(t, &Record{Key: "a", Tries: 100})
			move := func(here, there table.Tx[Record], n int) error {
				return errors.Join(add(here, "a", n), add(there, "a", -n))
			}
			var g sync.WaitGroup
			for range 2 {
				g.Go(func() {
					for range 15 {
						if err := w.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error { return move(tx, w.In(other.Store, raw), 2) }); err != nil {
							t.Error(err)
						}
					}
				})
				g.Go(func() {
					for range 15 {
						if err := other.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error { return move(w.In(w.Store, raw), tx, -1) }); err != nil {
							t.Error(err)
						}
					}
				})
			}
			g.Wait()
			if here, there := w.get(t, "a").Tries, other.get(t, "a").Tries; here != 130 || there != 70 {
				t.Errorf("here are %d and there %d, want 130 and 70", here, there)
			}
		}},
		{"decides by a record of another table that is still so at the commit", "two that each saw the other free must not both begin", func(t *testing.T, w *world[Raw]) {
			other := open(t, w.Harness)
			for round := range 6 {
				key := fmt.Sprint(round)
				w.put(t, &Record{Key: key})
				other.put(t, &Record{Key: key})
				var g sync.WaitGroup
				begin := func(mine, theirs *world[Raw]) func() {
					return func() {
						if err := mine.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
							found, err := w.In(theirs.Store, raw).Get([]string{key}, "flag")
							if err != nil || found[key].Flag {
								return err
							}
							return tx.Put([]*Record{{Key: key, Flag: true}}, "flag")
						}); err != nil {
							t.Error(err)
						}
					}
				}
				g.Go(begin(w, other))
				g.Go(begin(other, w))
				g.Wait()
				if here, there := w.get(t, key).Flag, other.get(t, key).Flag; here == there {
					t.Errorf("round %d: here began %v and there %v, want one", round, here, there)
				}
			}
		}},
		{"is one table, however often it is opened in a transaction", "two roles that share a table see and change the same", func(t *testing.T, w *world[Raw]) {
			if err := w.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
				again := w.In(w.Store, raw)
				if _, err := tx.Get([]string{"a", "b"}); err != nil {
					return err
				}
				return errors.Join(again.Put([]*Record{{Key: "a", State: 1}}), tx.Put([]*Record{{Key: "a", State: 2}}), tx.Put([]*Record{{Key: "b", State: 2}}), again.Delete([]string{"b"}))
			}); err != nil {
				t.Fatal(err)
			}
			same(t, w.get(t, "a"), &Record{Key: "a", State: 2})
			same(t, w.get(t, "b"), nil)
			w.counted(t, map[string]int{"/2": 1})
		}},
		{"refuses a table that cannot take part", "half of a change in a place without the transaction is there when it fails", func(t *testing.T, w *world[Raw]) {
			if w.Apart == nil {
				t.Skip("every table can")
			}
			apart, err := w.Apart(t.Context(), Spec(newName()))
			if err != nil {
				t.Fatal(err)
			}
			for name, verb := range map[string]func(table.Tx[Record]) error{
				"Get":    func(tx table.Tx[Record]) error { _, err := tx.Get([]string{"a"}); return err },
				"Page":   func(tx table.Tx[Record]) error { _, err := tx.Page(query{Most: 1}); return err },
				"Put":    func(tx table.Tx[Record]) error { return tx.Put([]*Record{{Key: "a"}}) },
				"Delete": func(tx table.Tx[Record]) error { return tx.Delete([]string{"a"}) },
				"Next":   func(tx table.Tx[Record]) error { _, err := tx.Next(1); return err },
			} {
				var answer error
				err := w.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
					err := tx.Put([]*Record{{Key: "a"}})
					answer = verb(w.In(apart, raw))
					return err // that of the verb is overlooked
				})
				if answer == nil || !strings.Contains(answer.Error(), "of the transaction") && !strings.Contains(answer.Error(), "than the transaction") || !errors.Is(err, answer) {
					t.Errorf("%s: the error is %v, and that of the transaction %v", name, answer, err)
				}
			}
			if n, err := apart.Count(t.Context(), 9); n != 0 || err != nil {
				t.Errorf("there are %d records in the other table, %v", n, err)
			}
			same(t, w.get(t, "a"), nil)
		}},
	}
}
