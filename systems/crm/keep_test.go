package crm_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm"
)

// lateLog is a sync log that delays each call, and counts them.
type lateLog struct {
	ledger.Store
	takes time.Duration
	calls *atomic.Int64
}

func (l lateLog) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	l.calls.Add(1)
	time.Sleep(l.takes)
	return l.Store.Begin(ctx, es, o)
}

func (l lateLog) End(ctx context.Context, es []*ledger.Entry) error {
	l.calls.Add(1)
	time.Sleep(l.takes)
	return l.Store.End(ctx, es)
}

// A slow sync log is not asked more often: asking at each call of a handler would make it
// slower still.
func TestASlowSyncLogIsNotAskedMoreOften(t *testing.T) {
	in(t, func(w *world) {
		const events = 600
		calls := new(atomic.Int64)
		p := w.parts(w.does(nil, "*"))
		p.Log = lateLog{p.Log, 150 * time.Millisecond, calls}
		w.startWith(p, crm.Options{Workers: 2, Batch: 100, Ahead: 400, PerSecond: -1, PerTenant: -1})
		w.send(many("club", "member.updated", events)...)
		rest(time.Minute)
		// Of a batch it is the begin, one end on the way, and the end.
		if n := calls.Load(); n > 5*events/100 {
			w.Errorf("the sync log was called %d times for %d events in batches of 100", n, events)
		}
		w.balanced()
	})
}
