package redisqueue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// A rate holds no job back for longer than it says where the server's clock steps back.
func TestRatesAndAClockThatStepsBack(t *testing.T) {
	limit := queue.Limit{PerSecond: 0.1, Burst: 5}
	for name, set := range map[string]func(*queue.Settings){
		"of the queue":       func(s *queue.Settings) { s.Limit = limit },
		"of each tenant":     func(s *queue.Settings) { s.Tenant = limit },
		"of tenants by name": func(s *queue.Settings) { s.Tenants = map[string]queue.Limit{"t": limit} },
		"of each key":        func(s *queue.Settings) { s.Key = limit },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ahead := new(atomic.Int64)
			b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{ahead: func() time.Duration { return time.Duration(ahead.Load()) }})
			if _, err := b.Set(t.Context(), "q", set); err != nil {
				t.Fatal(err)
			}
			ms := numbered(0, 20)
			for _, m := range ms {
				m.Tenant, m.Key = "t", []byte("k")
			}
			b.add(ms...)
			now := func() int {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				into := make([]*tidemill.Message, 20)
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				n, _ := b.Open("q", queue.Options{}).Receive(ctx, into)
				return n
			}
			first, more := now(), now()
			if first != 5 || more > 1 {
				t.Fatalf("%d and then %d were handed out, want the burst of 5", first, more)
			}
			ahead.Add(int64(-time.Hour))
			if n := now(); n < 5 {
				t.Errorf("after the clock stepped back an hour %d were handed out, want a burst", n)
			}
		})
	}
}
