package tableproject_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
)

// again makes each call again that fails by a fault.
type again struct {
	p project.Store
	f *sqlitedbtest.Faults
}

func (a again) Ensure(ctx context.Context, p project.Project, key project.Hash) error {
	return a.f.Again(func() error { return a.p.Ensure(ctx, p, key) })
}

func (a again) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	return sqlitedbtest.Get(a.f, func() (project.Project, error) { return a.p.ByKey(ctx, key) })
}

func (a again) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	return sqlitedbtest.Get(a.f, func() (project.Project, error) { return a.p.Find(ctx, id) })
}

func (a again) List(ctx context.Context) ([]project.Project, error) {
	return sqlitedbtest.Get(a.f, func() ([]project.Project, error) { return a.p.List(ctx) })
}

func (a again) Keys(ctx context.Context, id uuid.UUID) ([]project.Hash, error) {
	return sqlitedbtest.Get(a.f, func() ([]project.Hash, error) { return a.p.Keys(ctx, id) })
}

func (a again) Revoke(ctx context.Context, id uuid.UUID, key project.Hash) error {
	return a.f.Again(func() error { return a.p.Revoke(ctx, id, key) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		return projecttest.Harness{Projects: again{onSQLite(t, f.Open(t)), f}}
	})
}
