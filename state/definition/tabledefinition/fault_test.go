package tabledefinition_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
)

// again makes each call again that fails by a fault.
type again struct {
	d definition.Definitions
	f *sqlitedbtest.Faults
}

func (a again) Upsert(ctx context.Context, b *definition.Batch) error {
	return a.f.Again(func() error { return a.d.Upsert(ctx, b) })
}

func (a again) List(ctx context.Context, project uuid.UUID) (*definition.Batch, error) {
	return sqlitedbtest.Get(a.f, func() (*definition.Batch, error) { return a.d.List(ctx, project) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		return definitiontest.Harness{Definitions: again{onSQLite(t, f.Open(t)), f}}
	})
}
