//go:build !embedded

package analyticssystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/state/definition/postgresdefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/postgresperson"
	"github.com/tidemill/tidemill/state/project/postgresproject"
	"github.com/tidemill/tidemill/state/table/postgrestable"
)

// postgres puts a PostgreSQL behind persons, definitions and projects, and behind locks,
// unless there is a Redis for these.
func (w *wiring) postgres(ctx context.Context, b *backends) error {
	c, o := &w.Config.Postgres, w.Host
	db, err := w.Postgres(ctx, c.URL)
	if err != nil {
		return err
	}
	if b.persons, err = postgresperson.New(ctx, db, postgresperson.Options{Above: b.versions, Log: o.Log}); err != nil {
		return err
	}
	if b.definitions, err = postgresdefinition.New(ctx, db); err != nil {
		return err
	}
	locks, err := postgrestable.New(ctx, db, tablelock.Spec())
	if err != nil {
		return err
	}
	now, err := w.PostgresClock(ctx, db)
	if err != nil {
		return err
	}
	b.locks = tablelock.New(locks, tablelock.Options{Now: now})
	if b.projects, err = postgresproject.New(ctx, db); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("persons: PostgreSQL, %s", c.URL))
	return nil
}
