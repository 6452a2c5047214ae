package sqlitedefinition_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/sqlitedefinition"
)

// again makes each call again that fails by a fault.
type again struct {
	d definition.Definitions
	f *sqlitedbtest.Faults
}

func (a again) Upsert(ctx context.Context, b *definition.Batch) error {
	return a.f.Again(func() error { return a.d.Upsert(ctx, b) })
}

func (a again) List(ctx context.Context, project uuid.UUID) (b *definition.Batch, err error) {
	err = a.f.Again(func() (err error) { b, err = a.d.List(ctx, project); return err })
	return b, err
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{Fault: f.Fault})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		var s *sqlitedefinition.Definitions
		if err := f.Again(func() error { s, err = sqlitedefinition.New(t.Context(), db); return err }); err != nil {
			t.Fatal(err)
		}
		return definitiontest.Harness{Definitions: again{s, f}}
	})
}
