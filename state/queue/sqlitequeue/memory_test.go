package sqlitequeue

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// TestMemoryIsBoundedWhateverTheBacklog fills a queue with far more keys, jobs and late
// jobs than there is room for, and drains it.
func TestMemoryIsBoundedWhateverTheBacklog(t *testing.T) {
	for name, set := range map[string]func(*queue.Settings){
		"turns of tenants":     func(*queue.Settings) {},
		"turns of keys":        func(s *queue.Settings) { s.Fair = queue.ByKey },
		"first in, first out":  func(s *queue.Settings) { s.Fair = queue.Unfair },
		"strict order of keys": func(s *queue.Settings) { s.Ordered = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const jobs, each = 6000, 100
				r := bounds{ahead: 100, backs: 50, groups: 200}
				f := newFile(t, Options{bounds: r})
				s := f.open()
				if _, err := s.Set(t.Context(), "q", set); err != nil {
					t.Fatal(err)
				}
				var all []*tidemill.Message
				for i := range jobs {
					m := &tidemill.Message{ID: fmt.Sprintf("%05d", i), To: "q", Tenant: fmt.Sprint(i % 3), Key: fmt.Append(nil, i%2000)}
					if i%5 == 0 {
						m.At = time.Now().Add(time.Minute)
					}
					all = append(all, m)
				}
				for part := range slices.Chunk(all, 500) {
					if err := s.Add(t.Context(), part, nil); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Hour)
				f.close()
				s = f.open()
				src := s.Open("q", queue.Options{Lease: 24 * time.Hour})
				seen := map[string]bool{}
				for len(seen) < jobs {
					into := slots(each)
					n, err := src.Receive(t.Context(), into)
					if err != nil {
						t.Fatal(err)
					}
					ends := make([]tidemill.Settlement, n)
					for i, m := range into[:n] {
						if ends[i] = delivered(m); m.Handed == 1 && len(seen)%7 == 0 {
							ends[i].End, ends[i].After = tidemill.Again, time.Second
							continue
						}
						if seen[m.ID] {
							t.Fatalf("job %s came after its end", m.ID)
						}
						seen[m.ID] = true
					}
					q := s.find("q")
					mem := q.lock()
					groups, ahead, backs := len(mem.waiting.groups), mem.waiting.ahead, len(mem.waiting.backs)
					q.unlock()
					if groups > r.groups+2*each+listGroups || ahead > r.ahead+segmentJobs+fillGroups+groups || backs > r.backs+pageJobs+orderedLate*fillGroups {
						t.Fatalf("in memory are %d groups, %d jobs read ahead and %d that came due, for %v", groups, ahead, backs, r)
					}
					if err := src.Settle(t.Context(), ends); err != nil {
						t.Fatal(err)
					}
				}
				want := tidemill.Books{Accepted: jobs, Settled: tidemill.Count{Delivered: jobs}}
				if got, err := src.(tidemill.Bookkeeper).Books(t.Context()); err != nil || got != want {
					t.Errorf("books are %+v, %v; want %+v", got, err, want)
				}
				q := s.find("q")
				mem := q.lock()
				defer q.unlock()
				w := &mem.waiting
				if len(w.groups)+len(w.backs)+len(w.late.hot)+len(mem.log.segs)+len(mem.leases.outs)+len(w.tallies)+w.ahead > 0 {
					t.Errorf("when all has ended there are %d groups, %d and %d jobs, %d segments, %v counted", len(w.groups), len(w.backs), len(w.late.hot), len(mem.log.segs), w.tallies)
				}
			})
		})
	}
}
