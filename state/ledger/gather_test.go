package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

func TestGatheredCallsKeepEveryPromise(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		c := ledgertest.NewClock()
		l := tableledger.Memory(tableledger.Options{Now: c.Now})
		s, err := ledger.GatherStore(l, ledger.GatherOptions{Calls: 1})
		if err != nil {
			t.Fatal(err)
		}
		return ledgertest.Harness{Clock: c, Ledger: s}
	})
}

func gather(t *testing.T, l ledger.Ledger, o ledger.GatherOptions) ledger.Ledger {
	t.Helper()
	g, err := ledger.Gather(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// far is a ledger that takes its time, and counts calls.
type far struct {
	ledger.Ledger
	took  time.Duration
	fails atomic.Bool
	calls atomic.Int32
}

var errFar = errors.New("out of reach")

func (f *far) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	f.calls.Add(1)
	time.Sleep(f.took)
	if f.fails.Load() {
		return errFar
	}
	return f.Ledger.Begin(ctx, es, o)
}

func (f *far) End(ctx context.Context, es []*ledger.Entry) error {
	if f.fails.Load() {
		return errFar
	}
	return f.Ledger.End(ctx, es)
}

func TestCallsThatWaitBecomeOne(t *testing.T) {
	for _, c := range []struct {
		callers, entries, calls int
		took                    time.Duration
	}{
		{1, 0, 1, time.Second},
		{2, 0, 2, time.Second},      // both at once
		{50, 0, 4, 2 * time.Second}, // two alone, then the others: one takes all, one finds none
		{50, 10, 8, 4 * time.Second},
		{10, 1, 10, 5 * time.Second},
		{203, 0, 6, 3 * time.Second}, // a hundred in a call
	} {
		t.Run(fmt.Sprintf("%d callers, %d entries", c.callers, c.entries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{Ledger: tableledger.Memory(tableledger.Options{}), took: time.Second}
				g := gather(t, f, ledger.GatherOptions{Entries: c.entries})
				start := time.Now()
				var wg sync.WaitGroup
				for i := range c.callers {
					wg.Go(func() {
						e := &ledger.Entry{Key: fmt.Sprint(i)}
						if err := g.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil || e.State != ledger.Fresh || e.Token == 0 {
							t.Errorf("caller %d: %+v, %v", i, e, err)
						}
					})
				}
				wg.Wait()
				if n := int(f.calls.Load()); n > c.calls || time.Since(start) != c.took {
					t.Errorf("%d calls in %v, want %d in %v", n, time.Since(start), c.calls, c.took)
				}
			})
		})
	}
}

func TestWhoLeavesHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{Ledger: tableledger.Memory(tableledger.Options{}), took: time.Second}
		g := gather(t, f, ledger.GatherOptions{Calls: 1, Entries: 2})
		var wg sync.WaitGroup
		var left, stayed atomic.Int32
		for i := range 40 {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if i%3 == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*300*time.Millisecond+1)
			}
			wg.Go(func() {
				defer cancel()
				e := &ledger.Entry{Key: fmt.Sprint(i)}
				switch err := g.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{}); {
				case err == nil && e.State == ledger.Fresh:
					stayed.Add(1)
				case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && e.State == 0:
					left.Add(1)
				default:
					t.Errorf("%+v, %v", e, err)
				}
			})
		}
		wg.Wait()
		if stayed.Load() < 26 || left.Load() == 0 {
			t.Errorf("%d stayed, %d left", stayed.Load(), left.Load())
		}
		e := &ledger.Entry{Key: "after"}
		if err := g.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil || e.State != ledger.Fresh {
			t.Errorf("after that: %+v, %v", e, err)
		}
	})
}

func TestAnErrorIsThatOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &far{Ledger: tableledger.Memory(tableledger.Options{}), took: time.Second}
		f.fails.Store(true)
		g := gather(t, f, ledger.GatherOptions{Calls: 1})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				e := &ledger.Entry{Key: fmt.Sprint(i)}
				if err := g.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); !errors.Is(err, errFar) || e.State != 0 {
					t.Errorf("%+v, %v; want the ledger's error", e, err)
				}
			})
		}
		wg.Wait()
		bad := []*ledger.Entry{{Key: ""}} // that of one who alone is wrong is his
		if err := g.Begin(t.Context(), bad, ledger.Begin{}); !errors.Is(err, ledger.ErrKey) {
			t.Error(err)
		}
		if err := g.End(t.Context(), []*ledger.Entry{{Key: "k", State: ledger.Running}}); err == nil || errors.Is(err, errFar) {
			t.Errorf("an end that is none: %v", err)
		}
	})
}

// mute is a ledger that does not answer.
type mute struct{ ledger.Ledger }

func (mute) Begin(ctx context.Context, _ []*ledger.Entry, _ ledger.Begin) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACallHasAnEnd(t *testing.T) {
	for o, want := range map[ledger.GatherOptions]time.Duration{{}: 10 * time.Second, {Timeout: time.Minute}: time.Minute, {Timeout: 1}: 1} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := gather(t, mute{}, o).Begin(t.Context(), []*ledger.Entry{{Key: "k"}}, ledger.Begin{})
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != want {
				t.Errorf("%+v: %v after %v, want the end of time after %v", o, err, took, want)
			}
		})
	}
}

func TestGatherRefusesNonsense(t *testing.T) {
	l := tableledger.Memory(tableledger.Options{})
	for _, o := range []ledger.GatherOptions{{Calls: -1}, {Entries: -1}, {Timeout: -1}} {
		if _, err := ledger.Gather(l, o); err == nil {
			t.Errorf("Gather(%+v): no error", o)
		}
	}
	if _, err := ledger.Gather(nil, ledger.GatherOptions{}); err == nil {
		t.Error("Gather(nil): no error")
	}
	if s, err := ledger.GatherStore(l, ledger.GatherOptions{Calls: -1}); err == nil || s != nil {
		t.Errorf("GatherStore: %v, %v; want an error", s, err)
	}
}
