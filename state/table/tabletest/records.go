package tabletest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/table"
)

// full is a record with a value in each field.
func full(key string) *Record {
	return &Record{Key: key, Group: "g\x00\xff", State: 255, At: day(1), Until: day(2), No: math.MaxInt64, Tries: -7, Flag: true,
		Body: []byte("body\x00\xfe"), Call: math.MaxUint64}
}

func same(t testing.TB, got, want *Record) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the record is %+v, want %+v", got, want)
	}
}

func recordCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"keeps each field as it was put", "a role builds on every bit of its record", func(t *testing.T, w *world[Raw]) {
			for _, key := range []string{"plain", "\x00", "\xff\xfe", strings.Repeat("k", table.MaxKey), "a'b\"c?$1{x}:*"} {
				w.put(t, full(key))
				same(t, w.get(t, key), full(key))
			}
			w.put(t, &Record{Key: "zero"})
			same(t, w.get(t, "zero"), &Record{Key: "zero"})
		}},
		{"keeps times in whole milliseconds, and no empty bytes", "what is read is the same on every backend", func(t *testing.T, w *world[Raw]) {
			berlin := time.FixedZone("", 3600)
			w.put(t, &Record{Key: "a", At: day(5).Add(999_999).In(berlin), Until: time.UnixMilli(0), Body: []byte{}, unlisted: "x"},
				&Record{Key: "b", At: day(0).AddDate(-100, 0, 0)})
			same(t, w.get(t, "a"), &Record{Key: "a", At: day(5)})
			same(t, w.get(t, "b"), &Record{Key: "b", At: day(0).AddDate(-100, 0, 0)})
		}},
		{"keeps the smallest and the largest values, and compares with any", "a listing begins at the beginning of time", func(t *testing.T, w *world[Raw]) {
			const year = 1e9 * time.Millisecond
			early, late := time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
			w.put(t, &Record{Key: "a", At: time.UnixMilli(math.MinInt64), Tries: math.MinInt64}, &Record{Key: "b", At: day(0)},
				&Record{Key: "c", At: time.UnixMilli(math.MaxInt64), Tries: math.MaxInt64}, &Record{Key: "d", At: late.Add(year), Tries: math.MaxInt64 - 1})
			same(t, w.get(t, "a"), &Record{Key: "a", At: early, Tries: math.MinInt64})
			same(t, w.get(t, "c"), &Record{Key: "c", At: late, Tries: math.MaxInt64})
			if got := keys(w.page(t, query{By: "tries", Most: 9})); got != "a b d c" {
				t.Errorf("by number: %s", got)
			}
			for _, at := range []time.Time{time.UnixMilli(math.MinInt64), early.Add(-year), early} {
				if got := keys(w.page(t, query{By: "at", After: &Record{At: at}, Most: 9})); got != "a b c d" {
					t.Errorf("after %v: %s", at, got)
				}
				if got := keys(w.page(t, query{By: "at", Where: where("at", ">=", at), Most: 9})); got != "a b c d" {
					t.Errorf("from %v: %s", at, got)
				}
			}
			for _, at := range []time.Time{time.UnixMilli(math.MaxInt64), late.Add(year), late} {
				if got := keys(w.page(t, query{By: "at", After: &Record{Key: "z", At: at}, Back: true, Most: 9})); got != "d c b a" {
					t.Errorf("before %v: %s", at, got)
				}
				if got := keys(w.page(t, query{By: "at", Where: where("at", "<=", at), Most: 9})); got != "a b c d" {
					t.Errorf("up to %v: %s", at, got)
				}
			}
		}},
		{"replaces a record as a whole", "a field of an older record in a new one is a mixture that nobody wrote", func(t *testing.T, w *world[Raw]) {
			w.put(t, full("a"))
			w.put(t, &Record{Key: "a", Tries: 1})
			same(t, w.get(t, "a"), &Record{Key: "a", Tries: 1})
		}},
		{"writes only the named fields, of records that exist", "an end writes four fields of twenty, and must not bring back what was deleted", func(t *testing.T, w *world[Raw]) {
			w.put(t, full("a"))
			if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				return tx.Put([]*Record{{Key: "a", Tries: 3, State: 9}, {Key: "none", Tries: 4}}, "tries", "body")
			}); err != nil {
				t.Fatal(err)
			}
			want := full("a")
			want.Tries, want.Body = 3, nil
			same(t, w.get(t, "a"), want)
			same(t, w.get(t, "none"), nil)
		}},
		{"reads only the named fields", "a large payload is not read for a flag", func(t *testing.T, w *world[Raw]) {
			w.put(t, full("a"))
			want := &Record{Key: "a", Tries: -7, Flag: true}
			same(t, w.get(t, "a", "flag", "tries"), want)
			for _, r := range w.page(t, table.Query[Record]{By: "at", Most: 1, Only: []string{"tries", "flag"}}) {
				same(t, r, want)
			}
			same(t, w.get(t, "a", "key"), &Record{Key: "a"})
		}},
		{"finds what exists among many keys", "a batch has hundreds of keys, some twice", func(t *testing.T, w *world[Raw]) {
			var rows []*Record
			var asked []string
			for i := range 700 {
				k := strings.Repeat("k", i%3+1) + string(rune('a'+i%26)) + time.Duration(i).String()
				if asked = append(asked, k, k); i%2 == 0 {
					rows = append(rows, &Record{Key: k, Tries: i})
				}
			}
			w.put(t, rows...)
			if err := w.View(t.Context(), func(tx table.Reader[Record]) error {
				none, err := tx.Get(nil)
				found, err2 := tx.Get(asked)
				if none == nil || len(none) != 0 || len(found) != len(rows) {
					t.Errorf("found %d and %d records, want 0 and %d", len(none), len(found), len(rows))
				}
				for _, r := range rows {
					if g := found[r.Key]; g == nil || g.Tries != r.Tries {
						t.Errorf("%q is %+v", r.Key, g)
					}
				}
				return errors.Join(err, err2)
			}); err != nil {
				t.Fatal(err)
			}
		}},
		{"takes the last of a key that is given twice", "a batch of events changes one record several times", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", Tries: 1}, &Record{Key: "b"}, &Record{Key: "a", Tries: 2})
			same(t, w.get(t, "a"), &Record{Key: "a", Tries: 2})
			if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				return errors.Join(tx.Put([]*Record{{Key: "b", Tries: 3}, {Key: "b", Tries: 4}}, "tries"), tx.Delete([]string{"a", "a", "none"}), tx.Put(nil), tx.Delete(nil))
			}); err != nil {
				t.Fatal(err)
			}
			same(t, w.get(t, "b"), &Record{Key: "b", Tries: 4})
			same(t, w.get(t, "a"), nil)
		}},
		{"keeps nothing of what it is given, and gives nothing that it keeps", "a caller goes on with its record", func(t *testing.T, w *world[Raw]) {
			mine := full("a")
			w.put(t, mine)
			mine.Body[0], mine.Tries = 'X', 99
			same(t, w.get(t, "a"), full("a"))
			got := w.get(t, "a")
			got.Body[0], got.Tries = 'X', 99
			w.page(t, table.Query[Record]{Most: 1})[0].Body[0] = 'X'
			same(t, w.get(t, "a"), full("a"))
		}},
		{"refuses records that it cannot keep", "half of a key is another key", func(t *testing.T, w *world[Raw]) {
			long := strings.Repeat("x", table.MaxKey+1)
			for name, r := range map[string]*Record{"no key": {}, "a long key": {Key: long}, "a long string in an order": {Key: "a", Group: long},
				"long bytes in an order": {Key: "a", Body: []byte(long)}, "a large number in an order": {Key: "a", No: math.MaxInt64 + 1}, "nil": nil} {
				err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return tx.Put([]*Record{{Key: "other"}, r}) })
				if tidemill.KindOf(err) != tidemill.Validation {
					t.Errorf("%s: %v, want an error of validation", name, err)
				}
			}
			if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { return tx.Put([]*Record{{Key: "a"}}, "color") }); err == nil {
				t.Error("Put of a field that does not exist: no error")
			}
			if err := w.View(t.Context(), func(tx table.Reader[Record]) error { _, err := tx.Get([]string{"a"}, "color"); return err }); err == nil {
				t.Error("Get of a field that does not exist: no error")
			}
			same(t, w.get(t, "other"), nil)
		}},
		{"does nothing for a context that has ended", "a caller that left must not change anything", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", Until: day(1), State: 1})
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, swept := w.Sweep(ended, day(9), 9)
			_, counted := w.Count(ended, 1)
			_, counts := w.Counts(ended)
			for name, err := range map[string]error{
				"Update": w.Update(ended, func(table.Tx[Record], Raw) error { t.Error("do was called"); return nil }),
				"View":   w.View(ended, func(table.Reader[Record]) error { t.Error("do was called"); return nil }),
				"Sweep":  swept, "Count": counted, "Counts": counts,
			} {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v, want the end of the context", name, err)
				}
			}
			same(t, w.get(t, "a"), &Record{Key: "a", Until: day(1), State: 1})
		}},
	}
}
