package crm

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// The sync log under the guard. An entry is held by the job's position and the hand-out: a job
// that is handed out again while its last worker may still live waits until that worker's lease
// is over. The guard only sees positions.

// Begin implements ledger.Ledger. The answer for a job depends on what was done for it, not on
// the entry's state: the event may have been begun since for another job, and have failed.
func (l *lane) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	for _, e := range es {
		j := l.keys[e.Key]
		if j.holder = e.Holder; e.Holder != "" {
			e.Holder += "#" + strconv.Itoa(j.task.Handed)
		}
		j.renewed = ledger.Entry{Key: e.Key, Tenant: e.Tenant, Type: e.Type, Holder: e.Holder, Call: e.Call}
	}
	until := l.now().Add(l.s.o.Lease) // at least: it begins when the sync log receives it
	err := l.s.p.Log.Begin(ctx, es, o)
	if err == nil {
		var done []*job
		for _, e := range es {
			j := l.keys[e.Key]
			if e.Holder, _, _ = strings.Cut(e.Holder, "#"); l.isDone(j, e) {
				done = append(done, j)
			}
			j.until = until
		}
		err = l.putBack(ctx, done)
	}
	if l.away, l.unbegun = err, err != nil; err != nil {
		for _, e := range es { // they may be begun again
			e.Holder = l.keys[e.Key].holder
		}
	}
	return err
}

// isDone applies the sync log's answer for an entry, and reports whether the entry was opened
// for a job whose work is done.
func (l *lane) isDone(j *job, e *ledger.Entry) bool {
	switch e.State {
	case ledger.Done:
		j.did = didOf(e.Result)
		if j.request != "" {
			if e.Holder = ""; j.did.has(j.request) {
				e.Holder = j.holder // it is this one's
			}
		}
	case ledger.Fresh:
		j.entry = e
		if len(e.LastResult) > 0 {
			j.did = didOf(e.LastResult)
		}
		return j.did.has(j.request) || l.s.unwritten.has(work{e.Key, j.request})
	}
	return false
}

// putBack restores entries that were opened for jobs whose work is done, and answers that they
// are done.
func (l *lane) putBack(ctx context.Context, jobs []*job) error {
	if len(jobs) == 0 {
		return nil
	}
	ends := make([]*ledger.Entry, len(jobs))
	for i, j := range jobs {
		e := *j.entry
		e.State, e.Err, e.Result = ledger.Done, "", j.did.with(j.request).kept()
		if j.did.has(j.request) {
			if e.Result = j.did.kept(); e.LastErr != "" { // of a replay that is tried again or is a dead letter
				e.State, e.Err = ledger.Failed, e.LastErr
			}
		}
		ends[i] = &e
	}
	if err := l.s.p.Log.End(ctx, ends); err != nil {
		return err
	}
	for i, j := range jobs {
		e, written := j.entry, j.did.has(j.request)
		e.State, e.Token, e.Broken, e.Holder = ledger.Done, 0, false, ""
		if j.request != "" || !written {
			e.Holder = j.holder
		}
		if j.entry = nil; !ends[i].Stale {
			l.s.unwritten.written([]work{{e.Key, j.request}})
		}
	}
	return nil
}

// End implements ledger.Ledger. It skips entries that were ended on the way.
func (l *lane) End(ctx context.Context, es []*ledger.Entry) error {
	todo := make([]*ledger.Entry, 0, len(es))
	for _, e := range es {
		j := l.keys[e.Key]
		if j.done = e.State == ledger.Done; !j.ended {
			todo = append(todo, e)
		}
	}
	l.away = l.end(ctx, todo)
	return l.away
}

// end records how events ended. This process knows what is done from now on, even if the sync
// log does not accept it.
func (l *lane) end(ctx context.Context, es []*ledger.Entry) error {
	if len(es) == 0 {
		return nil
	}
	done := make([]work, 0, len(es))
	for _, e := range es {
		j := l.keys[e.Key]
		if e.Err, e.Result = j.why(), j.did.kept(); e.State == ledger.Done {
			e.Result = j.did.with(j.request).kept()
			done = append(done, work{e.Key, j.request})
		}
	}
	l.s.unwritten.add(done)
	if err := l.s.p.Log.End(ctx, es); err != nil {
		return err
	}
	done = done[:0]
	for _, e := range es {
		if e.State == ledger.Done && !e.Stale {
			done = append(done, work{e.Key, l.keys[e.Key].request})
		}
	}
	l.s.unwritten.written(done)
	return nil
}

// why is what the sync log keeps of a failure: its kind, and its text.
func (j *job) why() string {
	fate, failure := j.task.Outcome()
	switch {
	case failure != nil:
		return tidemill.KindOf(failure).String() + ": " + failure.Error()
	case fate == tidemill.Skipped:
		return skippedKind + ": " + j.task.Settlement().Cause
	case j.task.Settlement().End == tidemill.Again:
		return "again: it was put off"
	}
	return ""
}

// skippedKind takes the place of a failure's kind for events without a handler.
const skippedKind = "skipped"

// before is a handler.Runner's Before.
func (l *lane) before(ctx context.Context, spec *handler.Spec, calls []*handler.Call) error {
	of := make([]*job, len(calls))
	for i, c := range calls {
		of[i] = l.calls[c]
	}
	if l.hold(ctx, spec, of); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, j := range of {
		if j.lost {
			return &tidemill.Error{Kind: tidemill.Transient, Err: handler.ErrTaken}
		}
	}
	return nil
}

// hold checks the leases of jobs immediately before a call of their handler. They have to last
// longer than the call may take. A job whose lease may end before is lost, unless it is
// renewed.
func (l *lane) hold(ctx context.Context, spec *handler.Spec, jobs []*job) {
	renew := false
	for _, j := range jobs {
		renew = renew || l.short(j, spec)
	}
	l.keep(ctx, renew)
	for _, j := range jobs {
		j.lost = j.lost || l.short(j, spec)
	}
}

// short reports whether a job's lease may end during the call of its handler. It uses the clock
// that leaves less time: the monotonic one stops while the machine sleeps, the other may be set
// back.
func (l *lane) short(j *job, spec *handler.Spec) bool {
	if j.lost || j.entry == nil {
		return false
	}
	now := l.now()
	return min(j.until.Sub(now), j.until.Round(0).Sub(now.Round(0))) < spec.Timeout+handler.Grace
}

// While handlers are slow, ends are written on the way, so that a crash repeats little, and
// leases are renewed once a quarter of them is over. The interval is measured from the end of
// the last write: else a slower sync log would be asked at each call.
const keepEvery = 100 * time.Millisecond

// keep writes the ends of events whose handlers have answered, and renews the leases of those
// that still wait, when it is time to; now: all of them, in any case. If that fails nothing is
// lost: the guard ends the rest at the end of the batch, and hold finds a lease that is not
// renewed before the next call.
func (l *lane) keep(ctx context.Context, now bool) {
	at := l.now()
	since := at.Sub(l.kept)
	if !now && (since < keepEvery || l.run == 0 && since < l.s.o.Lease/4) { // profiles may have taken long
		return
	}
	defer func() { l.kept, l.run = l.now(), 0 }()
	var ends, waits []*ledger.Entry
	var ended, waiting []*job
	for _, j := range l.jobs {
		switch {
		case j.entry == nil || j.ended || j.lost:
		case j.tried || !j.task.Live() && j.task.Settlement().End == tidemill.Again:
			e := *j.entry
			if e.State = ledger.Done; j.why() != "" {
				e.State = ledger.Failed
			}
			ends, ended = append(ends, &e), append(ended, j)
		case now || j.until.Sub(at) <= l.s.o.Lease*3/4:
			e := j.renewed
			waits, waiting = append(waits, &e), append(waiting, j)
		}
	}
	if len(ends) > 0 && l.end(ctx, ends) == nil {
		for i, j := range ended {
			j.ended = true
			if ends[i].Stale {
				// Logged when a handler took longer than its lease, and another instance began the
				// event meanwhile.
				// To do: see whether its effect is there twice; raise `crm.lease` above what handlers
				// take.
				l.s.o.Log.Error("an event was taken over while its handler worked: it may have run twice", "event", EventOf(&j.task.Message), "tenant", j.task.Tenant, "lease", l.s.o.Lease)
			}
		}
	}
	if len(waits) > 0 {
		l.renew(ctx, waits, waiting)
	}
}

// renew begins entries once more, by the calls that have begun them.
func (l *lane) renew(ctx context.Context, es []*ledger.Entry, jobs []*job) {
	until := l.now().Add(l.s.o.Lease)
	err := l.s.p.Log.Begin(ctx, es, ledger.Begin{Lease: l.s.o.Lease})
	for i, j := range jobs {
		switch {
		case err != nil: // so that it is not asked again for each call of a handler
			j.lost = j.spec != nil && l.short(j, j.spec)
		case es[i].State != ledger.Fresh || es[i].Token != j.entry.Token:
			j.lost = true
		default:
			j.until = until
		}
	}
}
