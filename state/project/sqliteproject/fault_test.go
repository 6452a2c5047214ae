package sqliteproject_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/projecttest"
	"github.com/tidemill/tidemill/state/project/sqliteproject"
)

// again makes each call again that fails by a fault.
type again struct {
	p project.Projects
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

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		db := f.Open(t)
		s, err := sqlitedbtest.Get(f, func() (*sqliteproject.Projects, error) { return sqliteproject.New(t.Context(), db) })
		if err != nil {
			t.Fatal(err)
		}
		return projecttest.Harness{Projects: again{s, f}}
	})
}

func TestTablesOfANewerProgramAreRefused(t *testing.T) {
	sqlitedbtest.RefusesNewer(t, func(ctx context.Context, db *sqlitedb.DB) (*sqliteproject.Projects, error) {
		return sqliteproject.New(ctx, db)
	})
}
