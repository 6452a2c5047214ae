// Package ledgertest holds every promise of the ledger role as a case that each backend
// passes. A backend's whole test is one call of Run.
package ledgertest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
)

// A Harness is a new, empty ledger of the backend under test.
type Harness struct {
	Ledger ledger.Store
	Clock  *Clock // the ledger was given its Now
	// Reopen ends the process as a crash would, as far as a test can, and opens the durable
	// data anew. Nil: nothing is durable.
	Reopen func(t *testing.T) ledger.Store
	// Other opens a ledger with another name in the same database. Nil: it has no names.
	Other func(t *testing.T) ledger.Store
	// Within calls Within of a ledger.Transactor: effect writes a name to a table of the
	// database in the transaction. Effects are the names in that table. Nil: the ledger is
	// not a Transactor.
	Within  func(ctx context.Context, es []*ledger.Entry, do func(ctx context.Context, effect func(name string) error) error) error
	Effects func(t *testing.T) []string
	Close   func() // before the end of the test, for suites that open many; nil: nothing to close
}

// Clock is a clock that stands still until it is moved.
type Clock struct{ ms atomic.Int64 }

// NewClock starts at an instant of a plain day.
func NewClock() *Clock {
	c := new(Clock)
	c.ms.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

// Now reads the clock.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

type testcase struct {
	name   string
	reason string
	do     func(t *testing.T, h Harness)
}

// Run runs all cases, each on its own ledger.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range slices.Concat(beginCases, printCases, callCases, endCases, dropCases, rangeCases, findCases, concurrentCases) {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("why it matters: %s", c.reason)
				}
			}()
			c.do(t, open(t))
		})
	}
	t.Run("behaves as its model over random histories", func(t *testing.T) { follows(t, open) })
	h := open(t)
	if h.Reopen != nil {
		for _, c := range durableCases {
			t.Run(c.name, func(t *testing.T) { c.do(t, open(t)) })
		}
	}
	if h.Other != nil {
		for _, c := range otherCases {
			t.Run(c.name, func(t *testing.T) { c.do(t, open(t)) })
		}
	}
	if h.Within != nil {
		for _, c := range withinCases {
			t.Run(c.name, func(t *testing.T) { c.do(t, open(t)) })
		}
	}
}

// begin begins one entry and returns it as the ledger set it.
func begin(t *testing.T, l ledger.Store, key, holder string, o ledger.Begin) *ledger.Entry {
	t.Helper()
	e := &ledger.Entry{Key: key, Holder: holder}
	if err := l.Begin(t.Context(), []*ledger.Entry{e}, o); err != nil {
		t.Fatalf("Begin %q by %q: %v", key, holder, err)
	}
	return e
}

// fresh begins one entry that must be Fresh.
func fresh(t *testing.T, l ledger.Store, key, holder string) *ledger.Entry {
	t.Helper()
	e := begin(t, l, key, holder, ledger.Begin{Lease: time.Minute})
	if e.State != ledger.Fresh || e.Token == 0 {
		t.Fatalf("Begin %q by %q: %v under token %d, want fresh under a token", key, holder, e.State, e.Token)
	}
	return e
}

// end ends e and says whether that was stale.
func end(t *testing.T, l ledger.Store, e *ledger.Entry, s ledger.State, result, cause string) bool {
	t.Helper()
	x := *e
	x.State, x.Result, x.Err = s, []byte(result), cause
	if err := l.End(t.Context(), []*ledger.Entry{&x}); err != nil {
		t.Fatalf("End %q as %v: %v", e.Key, s, err)
	}
	e.Ended = x.Ended
	return x.Stale
}

// all is what Range yields.
func all(t *testing.T, l ledger.Store, f ledger.Filter) []*ledger.Entry {
	t.Helper()
	var es []*ledger.Entry
	for e, err := range l.Range(context.WithoutCancel(t.Context()), f) {
		if err != nil {
			t.Fatalf("Range: %v", err)
		}
		es = append(es, e)
	}
	return es
}

func keys(es []*ledger.Entry) []string {
	ks := make([]string, 0, len(es))
	for _, e := range es {
		ks = append(ks, e.Key)
	}
	return ks
}
