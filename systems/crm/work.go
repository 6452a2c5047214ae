package crm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Reasons of skipped events, besides once.Duplicate: they were completed before.
const (
	NoHandler     = "no_handler"     // no handler is for this type
	ReplayStopped = "replay_stopped" // the replay that asked for it was stopped
)

// An event whose last tries never ended may have killed its workers. From the second time on it
// is first delayed, by a random time, so that it does not come together with events that it may
// kill too. Above maxBroken times, delays included, it is dead.
const (
	suspicious = 2
	maxBroken  = 20
)

type item = flow.Item[event.Event]

// route finds the handler of each event.
func (l *lane) route(ctx context.Context, batch []*item) error {
	putOff := false
	for _, it := range batch {
		e, j := &it.Value, l.of[it.Task]
		if e.Tenant != it.Tenant || e.ID != EventOf(&it.Message) {
			it.Fail(tidemill.Fail(tidemill.Validation, "the job is of event %q of tenant %q, and holds another", EventOf(&it.Message), it.Tenant))
			continue
		}
		switch n := j.killed(); {
		case n > maxBroken:
			it.Fail(tidemill.Fail(tidemill.Unknown, "it was begun %d times without an end: it seems to kill whoever works on it", n))
			continue
		case n >= suspicious:
			it.Again(time.Duration(l.random() * float64(l.s.o.Lease)))
			putOff = true
			continue
		}
		spec, _, ok := l.s.force.Load().handlers.Find(e.Type)
		if !ok {
			l.unknown(it)
			continue
		}
		j.spec = spec
		j.call = &handler.Call{Event: *e, Attempt: it.Tries + 1, Replay: j.request, Trace: it.Trace}
		l.calls[j.call] = j
		if j.entry != nil {
			entry := *j.entry
			entry.Result = j.did.with(j.request).kept() // if it ends as done
			j.call.Entry = &entry
		}
	}
	if putOff {
		l.keep(ctx, true) // before anything else happens
	}
	return nil
}

// killed is how often this job began the event and never ended it, up to its last time. Its job
// may be a later one, and may have waited for something else.
func (j *job) killed() int {
	if j.entry == nil || !j.entry.Broken {
		return 0
	}
	return min(j.entry.Tries, j.task.Handed) - 1 - j.task.Tries
}

func (l *lane) unknown(it *item) {
	if l.s.o.Unknown == Dead {
		it.Fail(tidemill.Fail(tidemill.Business, "no handler is for events of type %s", it.Value.Type))
		return
	}
	it.Skip(NoHandler)
}

// identity finds the profile of each event.
func (l *lane) identity(ctx context.Context, batch []*item) error {
	began := l.now()
	asks, answers := make([]profile.Ask, len(batch)), make([]profile.Answer, len(batch))
	for i, it := range batch {
		asks[i] = profile.Ask{Tenant: it.Value.Tenant, Identities: it.Value.Identity, Create: l.s.o.Create}
	}
	if err := l.s.p.Profiles.Resolve(ctx, asks, answers); err != nil {
		switch tidemill.KindOf(err) {
		case tidemill.Validation, tidemill.Business, tidemill.NotFound, tidemill.Internal: // caused by one of them: it is looked for
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		return tidemill.Fail(tidemill.Partner, "profiles cannot be reached: %w", err)
	}
	took := l.now().Sub(began)
	for i, it := range batch {
		a, j := &answers[i], l.of[it.Task]
		if it.Tries == 0 { // each event once
			l.s.matched.count(a.Err == nil && !a.New)
		}
		if a.Err != nil {
			it.Fail(a.Err)
			continue
		}
		j.took, j.call.Profile, j.call.New = took, a.Profile, a.New
	}
	return nil
}

// handle calls the handlers: events of one handler together, in the order of their first, as
// many in one call as it accepts.
func (l *lane) handle(ctx context.Context, batch []*item) error {
	var order []*handler.Spec
	groups := map[*handler.Spec][]*item{}
	for _, it := range batch {
		spec := l.of[it.Task].spec
		if groups[spec] == nil {
			order = append(order, spec)
		}
		groups[spec] = append(groups[spec], it)
	}
	for _, spec := range order {
		for part := range slices.Chunk(groups[spec], spec.Many) {
			l.call(ctx, spec, part)
		}
	}
	return nil
}

// call makes one call of a handler, and ends its events.
func (l *lane) call(ctx context.Context, spec *handler.Spec, batch []*item) {
	of := make([]*job, len(batch))
	for i, it := range batch {
		of[i] = l.of[it.Task]
	}
	l.hold(ctx, spec, of)
	calls, items := make([]*handler.Call, 0, len(batch)), make([]*item, 0, len(batch))
	for i, it := range batch {
		switch {
		case ctx.Err() != nil:
			it.Fail(context.Cause(ctx)) // it comes again
		case of[i].lost:
			it.Again(l.s.o.Lease / 4)
		default:
			calls, items = append(calls, of[i].call), append(items, it)
		}
	}
	if len(calls) == 0 {
		return
	}
	began := l.now()
	errs := l.runner.Run(ctx, spec, calls)
	took := l.now().Sub(began)
	l.run++
	l.handled += took
	l.s.pace.call(took, len(calls))
	for i, it := range items {
		j := l.of[it.Task]
		j.took += took
		var err error
		if errs != nil {
			err = errs[i]
		}
		switch {
		case err == nil:
			it.Deliver()
			j.tried, j.ended = true, calls[i].Committed
		case errors.Is(err, handler.ErrTaken):
			j.lost = true
			it.Again(l.s.o.Lease / 4)
		default:
			_, j.tried = errors.AsType[*tidemill.Error](err) // else its time was up
			it.Fail(fmt.Errorf("handle: %w", err))
		}
	}
}
