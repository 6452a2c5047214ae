package redisqueue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// meter counts commands, and the jobs in answers of scripts that read jobs.
type meter struct {
	rueidis.Client
	asked, read atomic.Int64
}

func (c *meter) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.asked.Add(1)
	r := c.Client.Do(ctx, cmd)
	if got, err := r.ToArray(); err == nil && len(got) == 6 {
		jobs, _ := got[1].ToArray()
		c.read.Add(int64(len(jobs) / 6))
	}
	return r
}

// A page of jobs reads the records that it shows, in a few commands, wherever those of its state are
// among others.
func TestAListingReadsWhatItShows(t *testing.T) {
	t.Parallel()
	const some, most = 60, 51 // a page of 50, and one that says that there is another
	client := &meter{Client: redistest.Connect(t, testenv.Redis(t))}
	b := newTable(t, client, Options{})
	if _, err := b.Set(t.Context(), "q", func(s *queue.Settings) {
		s.Fair, s.Completed.Count, s.Failed.Count = queue.Unfair, queue.MaxKept, queue.MaxKept
	}); err != nil {
		t.Fatal(err)
	}
	src, left := b.Open("q", queue.Options{Lease: time.Hour}), 0
	add := func(n int, at time.Time) {
		jobs := numbered(left, n)
		for _, m := range jobs {
			m.At = at
		}
		left += n
		b.add(jobs...)
	}
	end := func(n int, fate tidemill.Fate) {
		add(n, time.Time{})
		for range n / some {
			jobs := b.take(src, some)
			ends := make([]tidemill.Settlement, len(jobs))
			for i, m := range jobs {
				ends[i] = tidemill.Settlement{Fate: fate, ID: m.ID, Mark: m.Mark}
			}
			if err := src.Settle(t.Context(), ends); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // among each other
		add(some, time.Now().Add(time.Hour))
		end(300*some, tidemill.Delivered)
		end(some, tidemill.Dead)
	}
	add(some, time.Time{})
	b.take(src, some) // leased
	add(100*some, time.Time{})
	st, err := b.Stats(t.Context(), "q")
	if want := (queue.Stats{Waiting: 100 * some, Delayed: 2 * some, Leased: some, Completed: 600 * some, Failed: 2 * some, Oldest: st.Oldest}); err != nil || st != want {
		t.Fatalf("%+v, %v; want %+v", st, err, want)
	}
	for range 3 { // a tenant with few jobs among others
		jobs := numbered(left, some)
		left += some
		for i, m := range jobs {
			m.Tenant = map[bool]string{true: "few"}[i%3 == 0]
		}
		b.add(jobs...)
		add(20*some, time.Time{})
	}
	for _, back := range []bool{false, true} {
		client.asked.Store(0)
		client.read.Store(0)
		shown := 0
		for j, err := range b.List(t.Context(), queue.Filter{Queue: "q", State: queue.Waiting, Tenant: "few", Back: back, Max: most, Look: 1}) {
			if shown++; err != nil || j.Tenant != "few" {
				t.Fatal(j, err)
			}
		}
		if read, asked := client.read.Load(), client.asked.Load(); shown != most || read > most || asked > 2 {
			t.Errorf("of a tenant, back %t: %d jobs are shown of %d that are read by %d commands; want %d of %d by 2 at most", back, shown, read, asked, most, most)
		}
	}
	for _, state := range []queue.State{"", queue.Waiting, queue.Delayed, queue.Leased, queue.Completed, queue.Failed} {
		for _, back := range []bool{false, true} {
			shown := 0
			client.asked.Store(0)
			client.read.Store(0)
			for j, err := range b.List(t.Context(), queue.Filter{Queue: "q", State: state, Back: back, Max: most}) {
				if shown++; err != nil || state != "" && j.State != state {
					t.Fatal(j, err)
				}
			}
			if read, asked := client.read.Load(), client.asked.Load(); shown != most || read > most || asked > 2 {
				t.Errorf("state %q, back %t: %d jobs are shown of %d that are read by %d commands; want %d of %d by 2 at most", state, back, shown, read, asked, most, most)
			}
		}
	}
}

// tallied says where the counts of jobs that are delayed or have ended differ from the jobs.
func tallied(ctx context.Context, s *Store, name string) error {
	for _, tag := range s.tags {
		b := s.client.B
		no, err := s.client.Do(ctx, b().Hget().Key(tag+"queues").Field(name).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return err
		}
		found := map[string]int64{}
		for _, state := range []string{"delayed", "completed", "failed"} {
			list, err := s.client.Do(ctx, b().Zrange().Key(tag+no+":"+state).Min("0").Max("-1").Build()).AsStrSlice()
			if err != nil {
				return err
			}
			for _, pos := range list {
				var n int
				fmt.Sscan(pos, &n)
				found[fmt.Sprint(state, n/bucketJobs)]++
			}
		}
		counted, err := s.client.Do(ctx, b().Hgetall().Key(tag+no+":of").Build()).AsIntMap()
		if err != nil {
			return err
		}
		if got, want := fmt.Sprint(counted), fmt.Sprint(found); got != want {
			return fmt.Errorf("the buckets of queue %q have %s by their counts, and %s", name, strings.TrimPrefix(got, "map"), strings.TrimPrefix(want, "map"))
		}
	}
	return nil
}
