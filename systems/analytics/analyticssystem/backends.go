package analyticssystem

import (
	"context"
	"errors"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/sqlitewarehouse"
)

// backends is what stands behind each role. Each server whose address is set takes the
// roles over that it is for; the embedded database has the others.
type backends struct {
	intake      queue.Intake
	open        func(ctx context.Context, queue string) (stream, error) // by the queue's name in our own words
	waits       func(ctx context.Context, queue string) (bool, error)   // whether anything waits there
	file        *system.File                                            // nil: no role is in it
	damaged     bool                                                    // whether waiting events are in it, and looked at for damage
	persons     person.Store
	definitions definition.Definitions
	projects    project.Store
	warehouse   warehouse.Store
	letters     deadletter.Store
	locks       lock.Locks
	circuit     analytics.Circuit     // nil: made of locks
	meter       analyticsingest.Meter // nil: one in memory

	versions uint64 // the highest of overrides that the warehouse has already

	checks []func(context.Context) []preflight.Finding // of what was opened
}

// stream is a source with what every one of ours can do beside.
type stream interface {
	tidemill.Source
	tidemill.Bookkeeper
}

// connect opens what the configuration names, the embedded database first if any role
// stays with it.
func (w *wiring) connect(ctx context.Context) (*backends, error) {
	b, c := &backends{}, w.Config
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *backends) error
	}{
		{c.UsesFile(), w.embedded},
		{c.ClickHouse.URL != "", w.clickhouse},
		{c.Postgres.URL != "", w.postgres},
		{c.Redis.URL != "", w.redis},
		{c.Kafka.Brokers != "", w.kafka},
	} {
		if !part.wanted {
			continue
		}
		if err := part.open(ctx, b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// embedded puts the embedded database behind every role.
func (w *wiring) embedded(ctx context.Context, b *backends) (err error) {
	f, err := w.File(ctx)
	if err != nil {
		return err
	}
	b.file, b.intake, b.damaged, b.letters, b.projects = f, f.Queues, true, f.DeadLetters, f.Projects
	b.open = func(_ context.Context, name string) (stream, error) {
		return f.Queues.Open(name, queue.Options{}).(stream), nil
	}
	b.waits = func(ctx context.Context, name string) (bool, error) {
		s, err := f.Queues.Stats(ctx, name)
		return s.Waiting+s.Delayed+s.Leased > 0, err
	}
	if b.persons, err = personsIn(ctx, f); err != nil {
		return err
	}
	events, err := sqlitewarehouse.New(ctx, f.DB, sqlitewarehouse.Options{Now: w.Now})
	if err != nil {
		return err
	}
	b.warehouse = events
	w.Loops = append(w.Loops, flow.Loop{Name: "ids of events", Every: sqlitewarehouse.SweepEvery, Do: events.Sweep})
	definitions, err := sqlitetable.New(ctx, f.DB, tabledefinition.Spec())
	if err != nil {
		return err
	}
	b.definitions = tabledefinition.New(definitions)
	locks, err := sqlitetable.New(ctx, f.DB, tablelock.Spec())
	if err != nil {
		return err
	}
	b.locks = tablelock.New(locks, tablelock.Options{Now: w.Now})
	return nil
}

func personsIn(ctx context.Context, f *system.File) (person.Store, error) {
	persons, err1 := sqlitetable.New(ctx, f.DB, tableperson.Spec())
	moves, err2 := sqlitetable.New(ctx, f.DB, tableperson.MoveSpec())
	lists, err3 := sqlitetable.New(ctx, f.DB, tableperson.ListSpec())
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return tableperson.New(persons, moves, lists, tableperson.Options{})
}

// retainEvents forgets warnings and old events, as far as the warehouse does not do it by itself.
func (w *wiring) retainEvents(store warehouse.Store, c *analyticsconfig.Settings) {
	if e, ok := store.(warehouse.Expirer); ok {
		w.Retain("warnings by age", func(ctx context.Context) (int64, bool, error) {
			return e.Expire(ctx, w.Now().Add(-warehouse.KeepWarnings))
		})
	}
	if b, ok := store.(warehouse.WarningBounder); ok {
		w.Retain("warnings by number", func(ctx context.Context) (int64, bool, error) {
			return b.BoundWarnings(ctx, warehouse.MostWarnings)
		})
	}
	if t, ok := store.(warehouse.Trimmer); ok && c.Keep > 0 {
		w.Retain("events by age", func(ctx context.Context) (int64, bool, error) {
			return t.Trim(ctx, w.Now().Add(-c.Keep))
		})
	}
	if b, ok := store.(warehouse.Bounder); ok && c.KeepMost > 0 {
		w.Retain("events by size", func(ctx context.Context) (int64, bool, error) {
			return b.Bound(ctx, int64(c.KeepMost), w.Now().Add(-c.Least()))
		})
	}
}
