package sqliteproject_test

import (
	"context"
	"path/filepath"
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

func (a again) ByKey(ctx context.Context, key project.Hash) (p project.Project, err error) {
	err = a.f.Again(func() (err error) { p, err = a.p.ByKey(ctx, key); return err })
	return p, err
}

func (a again) Find(ctx context.Context, id uuid.UUID) (p project.Project, err error) {
	err = a.f.Again(func() (err error) { p, err = a.p.Find(ctx, id); return err })
	return p, err
}

func (a again) List(ctx context.Context) (l []project.Project, err error) {
	err = a.f.Again(func() (err error) { l, err = a.p.List(ctx); return err })
	return l, err
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	projecttest.Run(t, func(t *testing.T) projecttest.Harness {
		db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Fault: f.Fault})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		var s *sqliteproject.Projects
		if err := f.Again(func() error { s, err = sqliteproject.New(t.Context(), db); return err }); err != nil {
			t.Fatal(err)
		}
		return projecttest.Harness{Projects: again{s, f}}
	})
}
