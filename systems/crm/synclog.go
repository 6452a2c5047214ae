package crm

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

// The sync log under the guard. An entry is held by the job's position and the hand-out: a
// job that is handed out again while its last worker may still be alive waits until the
// lease of that one is over. The guard knows positions only, and sees those.

// Begin implements ledger.Ledger.
func (l *lane) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	for _, e := range es {
		j := l.keys[e.Key]
		if e.Holder != "" {
			e.Holder += "#" + strconv.Itoa(j.task.Handed)
		}
		j.renewed = ledger.Entry{Key: e.Key, Tenant: e.Tenant, Type: e.Type, Holder: e.Holder, Call: e.Call}
	}
	l.away = l.s.p.Log.Begin(ctx, es, o)
	l.unbegun = l.away != nil
	for _, e := range es {
		e.Holder, _, _ = strings.Cut(e.Holder, "#")
		if j := l.keys[e.Key]; l.away == nil && e.State == ledger.Fresh {
			j.entry = e
		}
	}
	return l.away
}

// End implements ledger.Ledger. What was ended on the way is not ended again.
func (l *lane) End(ctx context.Context, es []*ledger.Entry) error {
	todo := make([]*ledger.Entry, 0, len(es))
	for _, e := range es {
		j := l.keys[e.Key]
		j.done = e.State == ledger.Done
		if !j.ended {
			e.Err = j.why()
			todo = append(todo, e)
		}
	}
	l.away = nil
	if len(todo) > 0 {
		l.away = l.s.p.Log.End(ctx, todo)
	}
	return l.away
}

// why is what the sync log keeps of a failure: its kind, and what it was.
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

// skippedKind stands where a kind of failure stands, for events that nobody wanted.
const skippedKind = "skipped"

// Where handlers take their time, ends are written on the way, so that a crash repeats
// little, and leases are renewed.
const keepEvery = 100 * time.Millisecond

// keep writes the ends of events whose handlers have answered, and renews the leases of those
// that still wait for theirs, if it is time to; now: in any case. Where that fails nothing
// is lost: the guard ends what is left at the end of the batch, and a lease that ran out
// shows there.
func (l *lane) keep(ctx context.Context, now bool) {
	at := l.now()
	since := at.Sub(l.kept)
	if !now && (since < keepEvery || l.run == 0 && since < l.s.o.Lease/4) { // profiles may have taken long
		return
	}
	l.kept, l.run = at, 0
	var ends, waits []*ledger.Entry
	var ended, waiting []*job
	for _, j := range l.jobs {
		switch {
		case j.entry == nil || j.ended || j.lost:
		case j.tried || !j.task.Live() && j.task.Settlement().End == tidemill.Again:
			e := *j.entry
			e.State, e.Err, e.Result = ledger.Done, j.why(), nil
			if e.Err != "" {
				e.State = ledger.Failed
			}
			ends, ended = append(ends, &e), append(ended, j)
		default:
			e := j.renewed
			waits, waiting = append(waits, &e), append(waiting, j)
		}
	}
	if len(ends) > 0 && l.s.p.Log.End(ctx, ends) == nil {
		for i, j := range ended {
			j.ended = true
			if ends[i].Stale {
				l.s.o.Log.Error("an event was taken over while its handler worked: it may have run twice", "eventId", EventOf(&j.task.Message), "tenantId", j.task.Tenant, "lease", l.s.o.Lease)
			}
		}
	}
	if len(waits) > 0 && l.s.p.Log.Begin(ctx, waits, ledger.Begin{Lease: l.s.o.Lease}) == nil {
		for i, j := range waiting {
			j.lost = waits[i].State != ledger.Fresh || waits[i].Token != j.entry.Token
		}
	}
}
