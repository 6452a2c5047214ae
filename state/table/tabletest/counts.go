package tabletest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/table"
)

func (w *world[Raw]) counted(t testing.TB, want map[string]int) {
	t.Helper()
	if got, err := w.Counts(t.Context()); err != nil || !maps.Equal(got, want) {
		t.Errorf("the counts are %v, %v; want %v", got, err, want)
	}
}

func countCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"counts records by their names", "the books of a queue are read each second, and must not read the queue", func(t *testing.T, w *world[Raw]) {
			w.counted(t, map[string]int{})
			w.put(t, &Record{Key: "a", Group: "g", State: 1}, &Record{Key: "b", Group: "g", State: 1}, &Record{Key: "c", Group: "h\x00", State: 2}, &Record{Key: "d"})
			w.counted(t, map[string]int{"g/1": 2, "h\x00/2": 1})
			w.put(t, &Record{Key: "a", Group: "g", State: 2}, &Record{Key: "d", State: 3})
			w.counted(t, map[string]int{"g/1": 1, "g/2": 1, "h\x00/2": 1, "/3": 1})
			w.remove(t, "b", "c", "b", "none")
			w.counted(t, map[string]int{"g/2": 1, "/3": 1})
		}},
		{"counts what a transaction leaves, not what it does", "a record changes twice in one batch", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", State: 1})
			if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				return errors.Join(
					tx.Put([]*Record{{Key: "a", State: 2}, {Key: "b", State: 9}, {Key: "b", State: 1}}),
					tx.Put([]*Record{{Key: "a", State: 3, Group: "x"}, {Key: "none", State: 3}}, "state"),
					tx.Put([]*Record{{Key: "b", Tries: 3}}, "tries"),
					tx.Delete([]string{"b"}), tx.Put([]*Record{{Key: "b", State: 4}}))
			}); err != nil {
				t.Fatal(err)
			}
			w.counted(t, map[string]int{"/3": 1, "/4": 1})
		}},
		{"counts nothing of a transaction that failed", "books that drift are never right again", func(t *testing.T, w *world[Raw]) {
			w.put(t, &Record{Key: "a", State: 1})
			_ = w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
				return errors.Join(tx.Put([]*Record{{Key: "a", State: 2}, {Key: "b", State: 1}}), errWrong)
			})
			w.counted(t, map[string]int{"/1": 1})
		}},
		{"counts right with many writers", "two deltas of one counter must not be one", func(t *testing.T, w *world[Raw]) {
			var g sync.WaitGroup
			for i := range 6 {
				g.Go(func() {
					for j := range 10 {
						if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							return tx.Put([]*Record{{Key: fmt.Sprint(i, "-", j), State: 1}, {Key: fmt.Sprint("shared", j%3), State: uint8(i + 1)}})
						}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			g.Wait()
			want := map[string]int{"/1": 60}
			for i := range 3 {
				want[fmt.Sprint("/", w.get(t, fmt.Sprint("shared", i)).State)]++
			}
			w.counted(t, want)
		}},
	}
}

func sweepCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"sweeps what has expired, the oldest first, in bounded steps", "old records go, without blocking the table", func(t *testing.T, w *world[Raw]) {
			for i := range 6 {
				w.put(t, &Record{Key: fmt.Sprint("k", i), Until: day(5 - i), State: 1})
			}
			w.put(t, &Record{Key: "never", State: 1}, &Record{Key: "before 1970", Until: time.UnixMilli(-5).UTC(), State: 1})
			sweep := func(now time.Time, most, want int, left string) {
				t.Helper()
				if n, err := w.Sweep(t.Context(), now, most); err != nil || n != want {
					t.Errorf("Sweep at %v: %d, %v; want %d", now, n, err, want)
				}
				if got := keys(w.page(t, query{Most: 99})); got != left {
					t.Errorf("left are %s, want %s", got, left)
				}
				w.counted(t, map[string]int{"/1": len(strings.Fields(strings.ReplaceAll(left, " 1970", "")))})
			}
			sweep(day(-1), 9, 0, "before 1970 k0 k1 k2 k3 k4 k5 never")
			sweep(day(3), 2, 2, "before 1970 k0 k1 k2 k3 never")
			sweep(day(3).Add(time.Microsecond), 9, 2, "before 1970 k0 k1 never")
			sweep(day(3), 9, 0, "before 1970 k0 k1 never")
			sweep(day(9), 9, 2, "before 1970 never")
		}},
		{"refuses a sweep of nothing, and of records that do not expire", "a setting of 0 must not look like success", func(t *testing.T, w *world[Raw]) {
			if _, err := w.Sweep(t.Context(), day(0), 0); err == nil {
				t.Error("Sweep of 0 records: no error")
			}
			spec := Spec(newName())
			spec.Expires, spec.Count = "", table.Counter[Record]{}
			s, err := w.Harness.Open(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Sweep(t.Context(), day(0), 1); err == nil {
				t.Error("Sweep of records that do not expire: no error")
			}
			if counts, err := s.Counts(t.Context()); err != nil || len(counts) > 0 {
				t.Errorf("the counts of a table that counts nothing are %v, %v", counts, err)
			}
		}},
	}
}

func nextCases[Raw any]() []testcase[Raw] {
	return []testcase[Raw]{
		{"takes numbers that grow, and that nobody had", "a fencing token is refused by an older one that is larger", func(t *testing.T, w *world[Raw]) {
			stores := []table.Store[Record, Raw]{w.Store, w.another(t)}
			last := uint64(0)
			for i, n := range []int{1, 1, 5, 1, table.MaxNext, 2, 3} {
				var got uint64
				if err := stores[i%2].Update(t.Context(), func(tx table.Tx[Record], _ Raw) (err error) { got, err = tx.Next(n); return err }); err != nil {
					t.Fatal(err)
				}
				if got < last+uint64(n) {
					t.Errorf("after %d, the last of %d is %d", last, n, got)
				}
				last = got
			}
			for _, n := range []int{0, -1, table.MaxNext + 1} {
				if err := w.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error { _, err := tx.Next(n); return err }); err == nil {
					t.Errorf("%d numbers: no error", n)
				}
			}
		}},
		{"takes numbers that grow with the changes of a record", "a later owner has the larger token", func(t *testing.T, w *world[Raw]) {
			stores := []table.Store[Record, Raw]{w.Store, w.another(t)}
			var mu sync.Mutex // guards had
			had := map[uint64]bool{}
			var g sync.WaitGroup
			for i := range 6 {
				g.Go(func() {
					for range 10 {
						var no uint64
						if err := stores[i%2].Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
							found, err := tx.Get([]string{"a"})
							if err != nil {
								return err
							}
							if no, err = tx.Next(2); err != nil {
								return err
							}
							if r := found["a"]; r != nil && r.No >= no {
								return fmt.Errorf("number %d after %d", no, r.No)
							}
							return tx.Put([]*Record{{Key: "a", No: no}})
						}); err != nil {
							t.Error(err)
						}
						mu.Lock()
						if had[no] || had[no-1] {
							t.Errorf("%d or the one before was taken twice", no)
						}
						had[no], had[no-1] = true, true
						mu.Unlock()
					}
				})
			}
			g.Wait()
		}},
	}
}
