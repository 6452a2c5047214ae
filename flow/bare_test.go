package flow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// still is a source that has nothing.
type still struct{ traits tidemill.Traits }

func (s still) Traits() tidemill.Traits { return s.traits }

func (still) Receive(ctx context.Context, _ []*tidemill.Message) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (still) Settle(_ context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		ends[i].Outcome = tidemill.Applied
	}
	return nil
}

// gatedStill is one with a gate.
type gatedStill struct{ still }

func (gatedStill) Gate(context.Context, time.Time, int) error { return nil }

type doNothing struct{}

func (doNothing) Do(context.Context, []*Task) error { return nil }

var errBare = errors.New("down")

// bare is an engine that does not run: its parts are called one by one. now is its clock.
func bare(t *testing.T, traits tidemill.Traits, now *time.Time, p Pipeline) *Engine {
	t.Helper()
	traits.Parks = true
	p.Name, p.Work = "p", func(Env) Work { return doNothing{} }
	if p.Source == nil {
		p.Source = still{traits}
	}
	p.Now = func() time.Time { return *now }
	e, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// same compares what is printed.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
