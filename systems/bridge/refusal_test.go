package bridge

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// forgetful settles and loses the answer, on the first refusal.
type forgetful struct {
	keptSource
	lost *int
}

type keptSource interface {
	tidemill.Source
	tidemill.Keeper
	tidemill.Gater
	tidemill.Bookkeeper
}

func (f forgetful) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	asked := slices.Clone(ends)
	if err := f.keptSource.Settle(ctx, asked); err != nil {
		return err
	}
	if *f.lost == 0 && slices.ContainsFunc(asked, func(e tidemill.Settlement) bool { return e.CountTry }) {
		*f.lost++
		return tidemill.Fail(tidemill.Unknown, "the answer was lost")
	}
	copy(ends, asked)
	return nil
}

func TestARefusalWhoseAnswerWasLostCountsOnce(t *testing.T) {
	lost := 0
	with(t, func(o *Options, p *Parts) {
		o.Retry = policy.Retry{Tries: 1, Base: time.Second, Factor: 2}
		p.Source = forgetful{p.Source.(keptSource), &lost}
	}, func(w *world) {
		w.add("1")
		w.rest(100 * time.Millisecond)
		w.broker.refuse("1")
		w.rest(5 * time.Second) // the source is asked again, and the entry comes again
		w.published("1", "1")
		if lost != 1 {
			t.Errorf("%d answers were lost", lost)
		}
		if dead := w.broker.letters(t); len(dead) != 0 {
			t.Errorf("refused once of two times, and dead: %v", dead)
		}
		w.broker.ack("1")
		w.rest(100 * time.Millisecond)
		w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
	})
}

func TestTheSameRefusalAgainChangesNothing(t *testing.T) {
	with(t, func(o *Options, p *Parts) { o.Retry = policy.Retry{Tries: 1, Base: time.Second, Factor: 2} }, func(w *world) {
		w.add("1")
		w.rest(100 * time.Millisecond)
		for range 3 {
			w.broker.refuse("1")
			w.rest(100 * time.Millisecond)
		}
		w.rest(5 * time.Second)
		w.published("1", "1")
		if dead := w.broker.letters(t); len(dead) != 0 {
			t.Errorf("refused once of two times, and dead: %v", dead)
		}
		if s := w.bridge.Stats(); s.Refused != 1 || s.Unknown != 2 {
			t.Errorf("%d refused, %d unknown, want 1 and 2", s.Refused, s.Unknown)
		}
		w.broker.refuse("1") // of the second message
		w.rest(5 * time.Second)
		if dead := w.broker.letters(t); len(dead) != 1 {
			t.Errorf("refused twice, and dead: %v", dead)
		}
	})
}
