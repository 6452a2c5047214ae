package tabletrail_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/trail/trailtest"
)

// again makes each call again that fails by a fault.
type again struct {
	tr trail.Trail
	f  *sqlitedbtest.Faults
}

func (a again) Begin(ctx context.Context, e trail.Entry) (uint64, error) {
	return sqlitedbtest.Get(a.f, func() (uint64, error) { return a.tr.Begin(ctx, e) })
}

func (a again) End(ctx context.Context, seq uint64, end trail.End) error {
	return a.f.Again(func() error { return a.tr.End(ctx, seq, end) })
}

func (a again) List(ctx context.Context, by trail.Filter) ([]trail.Entry, error) {
	return sqlitedbtest.Get(a.f, func() ([]trail.Entry, error) { return a.tr.List(ctx, by) })
}

func (a again) Check(ctx context.Context) (trail.Checked, error) {
	return sqlitedbtest.Get(a.f, func() (trail.Checked, error) { return a.tr.Check(ctx) })
}

func (a again) Expire(ctx context.Context, before time.Time, over int) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.tr.Expire(ctx, before, over) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	trailtest.Run(t, func(t *testing.T) trailtest.Harness {
		db := f.Open(t)
		tr, err := sqlitedbtest.Get(f, func() (trail.Trail, error) {
			s, err := sqlitetable.New(t.Context(), db, tabletrail.Spec())
			return tabletrail.New(s), err
		})
		if err != nil {
			t.Fatal(err)
		}
		return trailtest.Harness{Trail: again{tr, f}}
	})
}
