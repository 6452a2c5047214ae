package redisqueue

import (
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// Statistics look at what is kept once, and not whenever somebody asks.
func TestStatsOfAQueueThatKeepsMany(t *testing.T) {
	t.Parallel()
	const many = 12 * bucketJobs
	b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{})
	if _, err := b.Set(t.Context(), "q", func(s *queue.Settings) { s.Completed.Count = queue.MaxKept }); err != nil {
		t.Fatal(err)
	}
	src := b.Open("q", queue.Options{})
	b.add(numbered(0, many)...)
	for range 12 {
		b.deliver(src, b.take(src, bucketJobs)...)
	}
	b.add(numbered(many, 2)...)
	j, err := b.Look(t.Context(), queue.Name{Queue: "q", ID: numbered(many, 1)[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	want := queue.Stats{Waiting: 2, Completed: many, Oldest: j.Added}
	if st, err := b.Stats(t.Context(), "q"); err != nil || st != want {
		t.Errorf("%+v, %v; want %+v", st, err, want)
	}
	last, err := b.client.Do(t.Context(), b.client.B().Hget().Key(b.tags[0]+"1:meta").Field("low").Build()).AsInt64()
	if err != nil || last != many+1 {
		t.Errorf("the next look begins at %d, %v; want %d", last, err, many+1)
	}
	b.deliver(src, b.take(src, 2)...)
	if st, err := b.Stats(t.Context(), "q"); err != nil || st != (queue.Stats{Completed: many + 2}) {
		t.Errorf("%+v, %v: want none held", st, err)
	}
}
