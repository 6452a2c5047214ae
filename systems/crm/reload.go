package crm

import (
	"context"
	"fmt"
	"reflect"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// Reload is what may change while the system runs: as in Parts and Options.
type Reload struct {
	Handlers             []handler.Spec
	PerSecond, PerTenant float64
	Tenants              map[string]queue.Limit
}

// force is what is in force of that. Nothing in it is changed: a reload puts another one in its place.
// An event keeps the handler that was found for it.
type force struct {
	handlers *handler.Set
	labels   labels
	bounds   bounds
}

// bounds are the limits of the queue.
type bounds struct {
	perSecond, perTenant float64
	tenants              map[string]queue.Limit
}

// Prepare prepares a reload: commit makes it, undo takes back what was prepared; neither can fail, and
// one of them is called, once. An error leaves everything as it was. Reloads are prepared one at a time,
// while the system runs.
func (s *System) Prepare(ctx context.Context, r Reload) (commit, undo func(), err error) {
	handlers, err := handler.NewSet(s.o.Priorities.Prefixes(), r.Handlers...)
	if err != nil {
		return nil, nil, fmt.Errorf("crm: %w", err)
	}
	if least := 2 * (handlers.Longest() + handler.Grace); s.o.Lease < least {
		return nil, nil, fmt.Errorf("crm: a handler may take %v, and the lease, which is decided at the start, is %v: want %v or more; restart", handlers.Longest(), s.o.Lease, least)
	}
	o, err := Options{PerSecond: r.PerSecond, PerTenant: r.PerTenant}.withDefaults(handlers)
	if err != nil {
		return nil, nil, fmt.Errorf("crm: %w", err)
	}
	was, next := s.force.Load(), &force{handlers: handlers, labels: newLabels(r.Handlers, s.o.Priorities), bounds: bounds{o.PerSecond, o.PerTenant, r.Tenants}}
	undo = func() {}
	if !reflect.DeepEqual(was.bounds, next.bounds) {
		if err := s.setUp(ctx, next.bounds); err != nil {
			return nil, nil, fmt.Errorf("crm: %w", err)
		}
		undo = func() {
			if err := s.setUp(context.Background(), was.bounds); err != nil {
				// Logged when a reload was refused, and the queue's limits could not be set back.
				// To do: reload or restart when the queue's database is well.
				s.o.Log.Error("the queue of the CRM keeps limits of a configuration that was refused", "queue", Queue, "error", err)
			}
		}
	}
	return func() { s.force.Store(next) }, undo, nil
}
