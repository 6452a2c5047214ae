package redisqueue

import (
	"context"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// compare looks at everything that can be seen.
func (m *model) compare(r *rapid.T) {
	later := m.client.lose.Swap(0) // the answers to others are lost
	defer m.client.lose.Store(later)
	for _, q := range modelQueues {
		var stats [2]queue.Stats
		var books [2]tidemill.Books
		var jobs [2][]queue.Job
		for i, s := range m.stores {
			var err error
			if stats[i], err = s.Stats(context.Background(), q); err != nil {
				r.Fatal(err)
			}
			stats[i].Oldest = time.Time{}
			if books[i], err = m.sources[i][q][0].(tidemill.Bookkeeper).Books(context.Background()); err != nil {
				r.Fatal(err)
			}
			for _, state := range []queue.State{"", queue.Waiting, queue.Delayed, queue.Leased, queue.Completed, queue.Failed} {
				for j, err := range s.List(context.Background(), queue.Filter{Queue: q, State: state}) {
					if err != nil {
						r.Fatal(err)
					}
					shown := *j
					shown.Mark = tidemill.Mark{Lo: j.Mark.Lo}
					shown.Added, shown.Ended, shown.At = time.Time{}, time.Time{}, time.Time{}
					shown.Key, shown.Payload, shown.Header = append([]byte(nil), j.Key...), append([]byte(nil), j.Payload...), nil
					shown.Failures = nil
					for _, f := range j.Failures {
						shown.Failures = append(shown.Failures, queue.Failure{Kind: f.Kind, Cause: f.Cause})
					}
					jobs[i] = append(jobs[i], shown)
				}
			}
		}
		if stats[0] != stats[1] || books[0] != books[1] {
			r.Fatalf("%q has\n%+v, %+v, want\n%+v, %+v", q, stats[1], books[1], stats[0], books[0])
		}
		if err := tallied(context.Background(), m.stores[1].(*Store), q); err != nil {
			r.Fatal(err)
		}
		for i := range jobs[0] {
			if i < len(jobs[1]) && !reflect.DeepEqual(jobs[0][i], jobs[1][i]) {
				r.Fatalf("job %d of %q is\n%+v, want\n%+v", i, q, jobs[1][i], jobs[0][i])
			}
		}
		if len(jobs[0]) != len(jobs[1]) {
			r.Fatalf("%q lists %d jobs, want %d", q, len(jobs[1]), len(jobs[0]))
		}
		if off := books[1].Off(); off != 0 {
			r.Fatalf("the books of %q are off by %d: %+v", q, off, books[1])
		}
	}
}
