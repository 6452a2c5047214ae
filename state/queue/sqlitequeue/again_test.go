package sqlitequeue

import (
	"context"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/queuetest"
)

// again makes each call again that fails by a fault.
type again struct {
	*Store
	f *sqlitedbtest.Faults
}

func (a again) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	return a.f.Again(func() error { return a.Store.Add(ctx, jobs, added) })
}

func (a again) Stats(ctx context.Context, name string) (queue.Stats, error) {
	return sqlitedbtest.Get(a.f, func() (queue.Stats, error) { return a.Store.Stats(ctx, name) })
}

func (a again) List(ctx context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return sqlitedbtest.Rows(a.f, func() iter.Seq2[*queue.Job, error] { return a.Store.List(ctx, f) })
}

func (a again) Settings(ctx context.Context, name string) (queue.Settings, error) {
	return sqlitedbtest.Get(a.f, func() (queue.Settings, error) { return a.Store.Settings(ctx, name) })
}

func (a again) Set(ctx context.Context, name string, change func(*queue.Settings)) (queue.Settings, error) {
	return sqlitedbtest.Get(a.f, func() (queue.Settings, error) { return a.Store.Set(ctx, name, change) })
}

func (a again) Retry(ctx context.Context, f queue.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.Store.Retry(ctx, f) })
}

func (a again) Promote(ctx context.Context, f queue.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.Store.Promote(ctx, f) })
}

func (a again) Remove(ctx context.Context, f queue.Filter) (int, error) {
	return sqlitedbtest.Sum(a.f, func() (int, error) { return a.Store.Remove(ctx, f) })
}

func (a again) Look(ctx context.Context, n queue.Name) (*queue.Job, error) {
	return sqlitedbtest.Get(a.f, func() (*queue.Job, error) { return a.Store.Look(ctx, n) })
}

func (a again) Edit(ctx context.Context, n queue.Name, payload []byte, seen string) error {
	return a.f.Again(func() error { return a.Store.Edit(ctx, n, payload, seen) })
}

func (a again) Queues(ctx context.Context) ([]string, error) {
	return sqlitedbtest.Get(a.f, func() ([]string, error) { return a.Store.Queues(ctx) })
}

func (a again) Depths(ctx context.Context, name string) ([]queue.Depth, error) {
	return sqlitedbtest.Get(a.f, func() ([]queue.Depth, error) { return a.Store.Depths(ctx, name) })
}

func (a again) Tenants(ctx context.Context, name string, max int) ([]queue.Depth, error) {
	return sqlitedbtest.Get(a.f, func() ([]queue.Depth, error) { return a.Store.Tenants(ctx, name, max) })
}

func (a again) Tenant(ctx context.Context, tenant string) ([]queue.Depth, error) {
	return sqlitedbtest.Get(a.f, func() ([]queue.Depth, error) { return a.Store.Tenant(ctx, tenant) })
}

func (a again) Turn(ctx context.Context, name, tenant string, n int) (may int, at time.Time, err error) {
	err = a.f.Again(func() (err error) { may, at, err = a.Store.Turn(ctx, name, tenant, n); return err })
	return may, at, err
}

func (a again) Open(name string, o queue.Options) tidemill.Source {
	s := a.Store.Open(name, o).(*source)
	return againSource{sqlitedbtest.Source{F: a.f, Of: s}, rest{s}}
}

// againSource is a source with the methods that other sources do not have.
type againSource struct {
	sqlitedbtest.Source
	rest
}

type rest struct{ *source }

func (a againSource) Gate(ctx context.Context, until time.Time, probes int) error {
	return a.F.Again(func() error { return a.source.Gate(ctx, until, probes) })
}

// failing makes stores in which each statement fails the first times.
func failing(f *sqlitedbtest.Faults, o Options) queuetest.Fresh {
	return func(t *testing.T, capacity int) queuetest.Harness {
		o := o
		o.Capacity, o.tableNames = capacity, 1000
		path := filepath.Join(t.TempDir(), "queue.db")
		var db *sqlitedb.DB
		open := func() queue.Core {
			var s *Store
			err := f.Again(func() (err error) {
				if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Fault: f.Fault}); err != nil {
					return err
				}
				if s, err = New(t.Context(), db, o); err != nil {
					_ = db.Close()
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return again{s, f}
		}
		t.Cleanup(func() { _ = db.Close() })
		return queuetest.Harness{Store: open(), Whole: true, Kill: func() queue.Core {
			if err := db.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			return open()
		}}
	}
}

func TestTablesOfANewerProgramAreRefused(t *testing.T) {
	sqlitedbtest.RefusesNewer(t, func(ctx context.Context, db *sqlitedb.DB) (*Store, error) { return New(ctx, db, Options{}) })
}
