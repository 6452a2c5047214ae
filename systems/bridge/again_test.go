package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// reluctant cannot be subscribed to at first.
type reluctant struct {
	Acks
	wrong *int
}

func (r reluctant) Subscribe(ctx context.Context) error {
	if *r.wrong--; *r.wrong >= 0 {
		return errors.New("no connection")
	}
	return r.Acks.Subscribe(ctx)
}

func TestAfterAFailedStartItCanBeStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, queue: memoryqueue.New(memoryqueue.Options{}), broker: newBroker()}
		w.source = w.queue.Open("entries", queueOptions)
		wrong, closed := 2, 0
		b, err := New(Parts{Source: w.source, Sink: w.broker, Acks: reluctant{w.broker, &wrong}, Close: []func() error{func() error { closed++; return nil }}},
			Options{Stream: "entries", Topic: "out"})
		if err != nil {
			t.Fatal(err)
		}
		w.bridge = b
		for range 2 {
			if err := b.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no connection") || closed != 0 {
				t.Fatalf("started: %v, %d closed", err, closed)
			}
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err == nil {
			t.Error("started twice")
		}
		w.add("1")
		w.rest(time.Second)
		w.broker.ack("1")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
		w.stop()
		if closed != 1 {
			t.Errorf("closed %d times, want once", closed)
		}
	})
}

func TestAnAckOfVeryManyIsTakenInParts(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Buffer = 300_000 }, func(w *world) {
		const n = 120_000 // so that the ack is longer than one part
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint("id-", i)
		}
		w.add(ids[:3]...)
		w.add(ids[n-3:]...)
		w.rest(time.Second)
		w.broker.acks <- `{"ids":["` + strings.Join(ids, `","`) + `"],"ack":true}`
		w.broker.ack("after")
		w.rest(time.Minute)
		w.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
		if s := w.bridge.Stats(); s.Garbage != 0 || s.Unknown != n-6+1 || s.Acked != 6 {
			t.Errorf("%d garbage, %d unknown, %d acked", s.Garbage, s.Unknown, s.Acked)
		}
	})
}

func TestWithoutRetryAndDeadLettersDropsAreCounted(t *testing.T) {
	with(t, func(o *Options, p *Parts) { withoutAcks(o, p); o.Dead, o.Retry = "", policy.Retry{} }, func(w *world) {
		w.refusing("1", tidemill.Partner)
		w.add("1", "2")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1}, Pending: 1})
		if s := w.bridge.Stats(); s.Dropped != 1 || s.Dead != 0 {
			t.Errorf("%d dropped, %d dead, want 1 and 0", s.Dropped, s.Dead)
		}
	})
}
