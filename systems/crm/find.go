package crm

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Recorded is what the sync log has of an event; nil: nothing.
func (s *System) Recorded(ctx context.Context, tenant, id string) (*Record, error) {
	e := &ledger.Entry{Key: keyOf(tenant, id)}
	if len(e.Key) > ledger.MaxKey { // none is so long
		return nil, nil
	}
	if err := s.p.Log.Find(ctx, []*ledger.Entry{e}); err != nil || e.State == 0 {
		return nil, err
	}
	return recordOf(e), nil
}

// Queued is the job of that name in the queue: an event's own is named as the event is. Nil: the
// queue does not have it (any more).
func (s *System) Queued(ctx context.Context, tenant, name string) (*queue.Job, error) {
	j, err := s.p.Queues.Look(ctx, queue.Name{Queue: Queue, Tenant: tenant, ID: name})
	if errors.Is(err, queue.ErrNotFound) {
		return nil, nil
	}
	return j, err
}

// Died is an event's dead letter; nil: it has none.
func (s *System) Died(ctx context.Context, tenant, id string) (*deadletter.Letter, error) {
	for l, err := range s.p.DeadLetters.List(ctx, deadletter.Filter{Pipeline: Queue, Tenant: tenant, IDs: []string{id}, Max: 1}) {
		return l, err
	}
	return nil, nil
}

// laterMost is how many jobs of one event are looked for: of its newest replays.
const laterMost = 100

// Later are the jobs of an event for replays, and, where it has a dead letter, of retries, as far as
// the queue has them. Each is looked for by its name.
func (s *System) Later(ctx context.Context, tenant, id string, l *deadletter.Letter) (jobs []*queue.Job, err error) {
	replays, err := s.Replays(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range replays[:min(len(replays), laterMost)] {
		names = append(names, replayName(id, r.ID))
	}
	if l != nil {
		for n := range min(uint64(l.Replays)+2, laterMost) {
			names = append(names, retryName(id, tidemill.Mark{Lo: uint64(l.Seq), Hi: n + 1}))
		}
	}
	for _, name := range names {
		j, err := s.Queued(ctx, tenant, name)
		if err != nil {
			return nil, err
		}
		if j != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// Having says which of these tenants have an event of that id: in the sync log, in the queue, or as
// a dead letter. It costs one question to the sync log and one to the queue.
func (s *System) Having(ctx context.Context, id string, tenants []string) (having []string, err error) {
	var es []*ledger.Entry
	names, known := make([]queue.Name, len(tenants)), make([]bool, len(tenants))
	for i, t := range tenants {
		names[i] = queue.Name{Queue: Queue, Tenant: t, ID: id}
		if e := (&ledger.Entry{Key: keyOf(t, id), Tenant: t}); len(e.Key) <= ledger.MaxKey {
			es = append(es, e)
		}
	}
	if len(es) > 0 {
		if err := s.p.Log.Find(ctx, es); err != nil {
			return nil, err
		}
	}
	for _, e := range es {
		if e.State != 0 {
			having = append(having, e.Tenant)
		}
	}
	if err := s.p.Queues.Knows(ctx, names, known); err != nil {
		return nil, err
	}
	for i, t := range tenants {
		if known[i] && !slices.Contains(having, t) {
			having = append(having, t)
		}
	}
	return having, nil
}

// Dying are the tenants that have a dead letter of an event of that id.
func (s *System) Dying(ctx context.Context, id string) (tenants []string, err error) {
	for l, err := range s.p.DeadLetters.List(ctx, deadletter.Filter{Pipeline: Queue, IDs: []string{id}, Max: 100}) {
		if err != nil {
			return nil, err
		}
		tenants = append(tenants, l.Tenant)
	}
	slices.Sort(tenants)
	return tenants, nil
}

// HandlerOf names the handler of a type of events; empty: none is for it.
func (s *System) HandlerOf(typ string) string {
	if spec, _, ok := s.force.Load().handlers.Find(typ); ok {
		return spec.Name
	}
	return ""
}

// Handlers are those that events are given to.
func (s *System) Handlers() []handler.Spec { return slices.Clone(s.p.Handlers) }

// LogFor is how long the sync log keeps events that have ended.
func (s *System) LogFor() time.Duration { return s.o.LogFor }
