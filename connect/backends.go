package connect

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/ingest"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// backends is what stands behind each role. Each server whose address is set takes the
// roles over that it is for; the embedded database has the others.
type backends struct {
	intake      queue.Intake
	queues      *sqlitequeue.Store                                      // of the embedded database; nil: it is not there
	open        func(ctx context.Context, queue string) (stream, error) // by the queue's name in our own words
	waits       func(ctx context.Context, queue string) (bool, error)   // whether anything waits there
	damaged     func(ctx context.Context, queue string) (int, error)    // nil: its bytes are the server's care
	persons     person.Store
	definitions definition.Definitions
	projects    project.Projects
	warehouse   warehouse.Store
	letters     deadletter.Store
	locks       lock.Locks
	circuit     analytics.Circuit // nil: made of locks
	meter       ingest.Meter      // nil: one in memory

	versions uint64 // the highest of overrides that the warehouse has already

	loops   []flow.Loop
	inspect []func(context.Context) []preflight.Finding // of the servers
}

// stream is a source with what every one of ours can do beside.
type stream interface {
	tidemill.Source
	tidemill.Bookkeeper
}

// connect opens what the configuration names, the embedded database first if any role
// stays with it.
func (i *Instance) connect(ctx context.Context) (*backends, error) {
	b, c := &backends{}, i.config
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *backends) error
	}{
		{c.UsesFile(), i.sqlite},
		{c.ClickHouse.URL != "", i.clickhouse},
		{c.Postgres.URL != "", i.postgres},
		{c.Redis.URL != "", i.redis},
		{c.Kafka.Brokers != "", i.kafka},
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

// damagedIn counts what was found damaged in some queues; nil where nobody looks.
func (b *backends) damagedIn(queues []string) func(context.Context) (int, error) {
	if b.damaged == nil {
		return nil
	}
	return func(ctx context.Context) (sum int, err error) {
		for _, name := range queues {
			n, err := b.damaged(ctx, name)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
}

// warningsKept forgets warnings where the warehouse does not do it by itself.
func (i *Instance) warningsKept(w warehouse.Store) []flow.Loop {
	e, ok := w.(warehouse.Expirer)
	if !ok {
		return nil
	}
	return []flow.Loop{{Name: "old warnings", Every: time.Hour, Do: func(ctx context.Context) error {
		return e.Expire(ctx, i.options.Now().Add(-warehouse.KeepWarnings))
	}}}
}
