package redisqueue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// held waits with one command until it is let go.
type held struct {
	rueidis.Client
	at            atomic.Int32 // how many commands until that one
	reached, goes chan struct{}
}

func (h *held) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if h.at.Add(-1) == 0 {
		close(h.reached)
		<-h.goes
	}
	return h.Client.Do(ctx, cmd)
}

// All shards get the settings of the first one, no matter who is faster with the others.
func TestSettingsOfAllShards(t *testing.T) {
	client := &held{Client: redistest.Connect(t, testenv.Redis(t)), reached: make(chan struct{}), goes: make(chan struct{})}
	slow := newTable(t, client, Options{Shards: 3})
	s, err := New(client.Client, slow.o)
	if err != nil {
		t.Fatal(err)
	}
	set := func(s *Store, to func(*queue.Settings)) {
		if _, err := s.Set(t.Context(), "q", to); err != nil {
			t.Error(err)
		}
	}
	set(s, func(s *queue.Settings) { s.Failed.Count = 1 }) // Redis knows the script now
	client.at.Store(3)                                     // the first is read, and changed
	done := make(chan struct{})
	go func() {
		defer close(done)
		set(slow.Store, func(s *queue.Settings) { s.Paused = true })
	}()
	<-client.reached
	set(s, func(s *queue.Settings) { s.Closed = true })
	close(client.goes)
	<-done
	for shard := range s.tags {
		is, _, form, err := s.settings(t.Context(), "q", shard)
		if err != nil || !is.Paused || !is.Closed || !form.Paused || !form.Closed {
			t.Errorf("shard %d has %+v, %v; want both changes", shard, is, err)
		}
	}
}

// A probe goes out whichever shard has the jobs.
func TestAProbeOfAShardWithJobs(t *testing.T) {
	b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{Shards: 2})
	for shard := range b.tags {
		n := 0
		for n = 0; b.shard(numbered(n, 1)[0].ID) != shard; n++ {
		}
		b.add(numbered(n, 1)...)
		src := b.Open("q", queue.Options{})
		if err := src.(tidemill.Gater).Gate(t.Context(), time.Now().Add(-time.Second), 1); err != nil {
			t.Fatal(err)
		}
		b.deliver(src, b.take(src, 1)...)
	}
}

// Pages go through one shard after the other: each job is in one.
func TestPagesOfAllShards(t *testing.T) {
	b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{Shards: 3})
	const n = 60
	b.add(numbered(0, n)...)
	later := numbered(n, 20)
	for _, m := range later {
		m.At = time.Now().Add(time.Hour)
	}
	b.add(later...)
	for _, by := range []queue.Filter{{}, {State: queue.Delayed}, {Back: true}, {State: queue.Delayed, Back: true}} {
		shown, want := map[string]int{}, n+20
		if by.State != "" {
			want = 20
		}
		by.Queue, by.Max = "q", 7
		for last := 7; last == 7; {
			last = 0
			for j, err := range b.List(t.Context(), by) {
				if err != nil {
					t.Fatal(err)
				}
				shown[j.ID]++
				last++
				by.After = j.Mark
			}
		}
		for id, k := range shown {
			if k != 1 {
				t.Errorf("%s was shown %d times", id, k)
			}
		}
		if len(shown) != want {
			t.Errorf("%+v: %d jobs were shown, want %d", by, len(shown), want)
		}
	}
}
