package once

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/ledger"
)

// end writes how the jobs ended; err is the failure of those that are live.
func (w *guarded) end(ctx context.Context, running []*job, err error, began time.Time) {
	w.es = w.es[:0]
	ended := running[:0]
	for _, j := range running {
		if w.outcome(ctx, j, err) {
			w.es, ended = append(w.es, &j.entry), append(ended, j)
		}
	}
	if len(w.es) == 0 {
		return
	}
	failed := w.write(ctx, began)
	kind := tidemill.Unknown // a retry like that of any failed try would do the work twice
	if w.Repeat {
		kind = tidemill.Transient
	}
	for _, j := range ended {
		switch {
		case failed != nil && j.entry.State == ledger.Done:
			j.task.Fail(tidemill.Fail(kind, "it is done, but could not be written to the ledger: %w", failed))
			j.entry.State = ledger.Running
		case failed != nil:
			j.entry.State = ledger.Running
		case j.entry.Stale && j.task.Settlement().End != tidemill.Again: // else nothing happened
			// Logged when work was done, and its ledger entry had been taken over meanwhile.
			// To do: see whether its effect is there twice; raise the lease above what the work takes.
			w.log.Error("work took longer than its lease: another may have done it too", "key", j.entry.Key, "lease", w.Lease)
		}
	}
}

// outcome sets what the ledger is to keep, and returns false where nothing is to be
// written.
func (w *guarded) outcome(ctx context.Context, j *job, err error) bool {
	t, e := j.task, &j.entry
	fate, failure := t.Outcome()
	if t.Live() {
		fate, failure = tidemill.Delivered, err
	}
	kind := tidemill.KindOf(failure)
	switch {
	case failure == nil && fate == tidemill.Delivered && len(t.Emitted()) > 0:
		e.State, e.Err = ledger.Held, "guarded work must not emit"
		t.Fail(tidemill.Fail(tidemill.Internal, "%s", e.Err))
	case failure == nil && fate == tidemill.Delivered:
		e.State = ledger.Done
		if w.Result != nil {
			e.Result = w.Result(t)
		}
	case failure == nil && t.Settlement().End == tidemill.Left:
		return false // an ack from outside decides; meanwhile the lease keeps others off
	case failure == nil: // skipped, or to come again: nothing happened
		e.State, e.Err = ledger.Failed, cmp.Or(t.Settlement().Cause, "to come again")
	case kind == tidemill.Unknown && !w.Repeat:
		e.State, e.Err = ledger.Held, failure.Error()
	case ctx.Err() != nil && !named(failure):
		return false // cut off midway, the outcome is not known: the entry says so by never ending
	default:
		e.State, e.Err = ledger.Failed, failure.Error()
	}
	return true
}

// named says whether the failure was classified. An unclassified failure, when time is up,
// may come only from that: it carries the end of the context, its cause, or the error of a
// closed connection.
func named(failure error) bool {
	_, ok := errors.AsType[*tidemill.Error](failure)
	return ok
}

// The waits between tries to write, and the limit for one. The effect happened: only the
// ledger does not know yet.
const (
	firstWait = 50 * time.Millisecond
	oneWrite  = 5 * time.Second
)

// write ends the entries, and tries again until the lease is over or ctx ends. A ctx that
// has ended leaves time for one try, so that the ledger learns what was done.
func (w *guarded) write(ctx context.Context, began time.Time) error {
	for wait := firstWait; ; wait *= 2 {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), oneWrite)
		err := w.Ledger.End(one, w.es)
		cancel()
		if err == nil || ctx.Err() != nil || w.clock().Sub(began)+wait > w.Lease {
			return err
		}
		// Logged each time the ledger does not take the end of work; it is written again while the
		// lease lasts.
		// To do: see whether the ledger's database is well.
		w.log.Warn("the end of work is not yet in the ledger", "count", len(w.es), "error", err)
		_ = sleep.For(ctx, wait)
	}
}

func (w *guarded) clock() time.Time {
	if w.now == nil {
		return time.Now()
	}
	return w.now()
}
