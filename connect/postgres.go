package connect

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/state/definition/postgresdefinition"
	"github.com/tidemill/tidemill/state/lock/postgreslock"
	"github.com/tidemill/tidemill/state/person/postgresperson"
	"github.com/tidemill/tidemill/state/project/postgresproject"
)

// postgres puts a PostgreSQL behind persons, definitions and projects, and behind locks,
// unless there is a Redis for these.
func (i *Instance) postgres(ctx context.Context, b *backends) error {
	c, o := &i.config.Postgres, i.options
	db, err := postgresdb.Open(ctx, tidemill.NewSecret(string(c.URL)), postgresdb.Options{Conns: c.Connections})
	if err != nil {
		return err
	}
	i.close = append(i.close, func() error { db.Close(); return nil })
	if b.persons, err = postgresperson.New(ctx, db, postgresperson.Options{Above: b.versions, Log: o.Log}); err != nil {
		return err
	}
	if b.definitions, err = postgresdefinition.New(ctx, db); err != nil {
		return err
	}
	if b.locks, err = postgreslock.New(ctx, db, postgreslock.Options{}); err != nil {
		return err
	}
	if b.projects, err = postgresproject.New(ctx, db); err != nil {
		return err
	}
	b.inspect = append(b.inspect, func(ctx context.Context) []preflight.Finding { return postgresdb.Inspect(ctx, db) })
	i.Uses = append(i.Uses, fmt.Sprintf("persons: PostgreSQL, %s", c.URL))
	return nil
}
