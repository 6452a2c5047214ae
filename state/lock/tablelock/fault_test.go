package tablelock_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
)

// again makes each call again that fails by a fault.
type again struct {
	l lock.Locks
	f *sqlitedbtest.Faults
}

func (a again) Acquire(ctx context.Context, name string, d time.Duration) (h lock.Held, ok bool, err error) {
	err = a.f.Again(func() (err error) { h, ok, err = a.l.Acquire(ctx, name, d); return err })
	return h, ok, err
}

func (a again) Extend(ctx context.Context, h lock.Held, d time.Duration) error {
	return a.f.Again(func() error { return a.l.Extend(ctx, h, d) })
}

func (a again) Release(ctx context.Context, h lock.Held) error {
	return a.f.Again(func() error { return a.l.Release(ctx, h) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	f := sqlitedbtest.New(t)
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		return locktest.Harness{Locks: again{onSQLite(t, f.Open(t), now), f}}
	})
}
