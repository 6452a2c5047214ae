package tabletest

import (
	"errors"
	"testing"

	"github.com/tidemill/tidemill/state/table"
)

var errWrong = errors.New("wrong")

func updateCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"changes nothing where do fails", "half of a decision is no decision", func(t *testing.T, w *world[Raw]) {
			w.put(t, full("a"), full("b"))
			err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				_, err := tx.Next(3)
				return errors.Join(err, tx.Put([]*Record{{Key: "a"}, {Key: "c"}}), tx.Put([]*Record{{Key: "b", Tries: 1}}, "tries"), tx.Delete([]string{"b"}), errWrong)
			})
			if !errors.Is(err, errWrong) {
				t.Errorf("Update: %v, want do's error", err)
			}
			same(t, w.get(t, "a"), full("a"))
			same(t, w.get(t, "b"), full("b"))
			if got := keys(w.page(t, query{By: "at", Most: 9})); got != "a b" {
				t.Errorf("left are %s, want a b", got)
			}
			if err := w.View(t.Context(), func(table.Reader[Record]) error { return errWrong }); !errors.Is(err, errWrong) {
				t.Errorf("View: %v, want do's error", err)
			}
			w.put(t, &Record{Key: "a"}) // it goes on
			same(t, w.get(t, "a"), &Record{Key: "a"})
		}},
		{"changes nothing where a verb has failed", "half of a batch is no batch", func(t *testing.T, w *world[Raw]) {
			err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return tx.Put([]*Record{{Key: "a"}, {}}) })
			if err == nil {
				t.Error("no error")
			}
			same(t, w.get(t, "a"), nil)
		}},
	}
}

// effectCases are about other tables of the database in the same transaction.
func effectCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"commits effects of the database with its own", "an order is written and its entry ended, or neither", func(t *testing.T, w *world[Raw]) {
			do := func(name string, fails error) error {
				return w.Update(t.Context(), func(tx table.Tx[Record], raw Raw) error {
					return errors.Join(w.Effect(raw, name), tx.Put([]*Record{{Key: name}}), fails)
				})
			}
			if err := do(w.name+" kept", nil); err != nil {
				t.Fatal(err)
			}
			if err := do(w.name+" undone", errWrong); !errors.Is(err, errWrong) {
				t.Fatal(err)
			}
			found := map[string]bool{}
			for _, e := range w.Effects(t) {
				found[e] = true
			}
			if !found[w.name+" kept"] || found[w.name+" undone"] || w.get(t, w.name+" kept") == nil || w.get(t, w.name+" undone") != nil {
				t.Errorf("the effects are %v", found)
			}
		}},
	}
}

// durableCases are about what a crash leaves.
func durableCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"has after a crash what was committed", "acknowledged is kept", func(t *testing.T, w *world[Raw]) {
			w.put(t, full("a"), &Record{Key: "b", State: 1, At: day(0)})
			w.remove(t, "b")
			w.put(t, &Record{Key: "c", State: 2, At: day(2)})
			var before, after uint64
			next := func(into *uint64) {
				t.Helper()
				if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) (err error) { *into, err = tx.Next(7); return err }); err != nil {
					t.Fatal(err)
				}
			}
			next(&before)
			w.Crash(t)
			w.Store = w.another(t)
			same(t, w.get(t, "a"), full("a"))
			if got := keys(w.page(t, query{By: "at", Most: 9})); got != "a c" {
				t.Errorf("left are %s, want a c", got)
			}
			w.counted(t, map[string]int{"g\x00\xff/255": 1, "/2": 1})
			if next(&after); after < before+7 {
				t.Errorf("number %d after %d", after, before)
			}
		}},
	}
}
