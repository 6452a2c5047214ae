package tableaccess_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/accesstest"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// again makes each call again that fails by a fault.
type again struct {
	s accesstest.Store
	f *sqlitedbtest.Faults
}

func (a again) Add(ctx context.Context, g access.Grant) error {
	return a.f.Again(func() error { return a.s.Add(ctx, g) })
}

func (a again) Get(ctx context.Context, kind access.Kind, id string) (access.Grant, error) {
	return sqlitedbtest.Get(a.f, func() (access.Grant, error) { return a.s.Get(ctx, kind, id) })
}

func (a again) List(ctx context.Context, kind access.Kind, name string) ([]access.Grant, error) {
	return sqlitedbtest.Get(a.f, func() ([]access.Grant, error) { return a.s.List(ctx, kind, name) })
}

func (a again) Change(ctx context.Context, kind access.Kind, id string, c access.Change) (access.Grant, error) {
	return sqlitedbtest.Get(a.f, func() (access.Grant, error) { return a.s.Change(ctx, kind, id, c) })
}

func (a again) Remove(ctx context.Context, kind access.Kind, id string) (access.Grant, error) {
	return sqlitedbtest.Get(a.f, func() (access.Grant, error) { return a.s.Remove(ctx, kind, id) })
}

func (a again) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.s.Sweep(ctx, now, most) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	accesstest.Run(t, func(t *testing.T) accesstest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (accesstest.Store, error) {
			s, err := sqlitetable.New(t.Context(), db, tableaccess.Spec())
			return tableaccess.New(s), err
		})
		if err != nil {
			t.Fatal(err)
		}
		return accesstest.Harness{Store: again{s, f}}
	})
}
