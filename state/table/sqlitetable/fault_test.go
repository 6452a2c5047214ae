package sqlitetable_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

// again makes each call again that fails by a fault.
type again struct {
	*sqlitetable.Store[record]
	f *sqlitedbtest.Faults
}

func (a again) View(ctx context.Context, do func(table.Reader[record]) error) error {
	return a.f.Again(func() error { return a.Store.View(ctx, do) })
}

func (a again) Update(ctx context.Context, do func(table.Tx[record], *sqlitedb.Tx) error) error {
	return a.f.Again(func() error { return a.Store.Update(ctx, do) })
}

func (a again) Count(ctx context.Context, most int, where ...table.Cond) (int, error) {
	return sqlitedbtest.Get(a.f, func() (int, error) { return a.Store.Count(ctx, most, where...) })
}

func (a again) Counts(ctx context.Context) (map[string]int, error) {
	return sqlitedbtest.Get(a.f, func() (map[string]int, error) { return a.Store.Counts(ctx) })
}

func (a again) Sweep(ctx context.Context, now time.Time, most int) (int, error) {
	return sqlitedbtest.Get(a.f, func() (int, error) { return a.Store.Sweep(ctx, now, most) })
}

func TestConformanceWhereStatementsFail(t *testing.T) {
	testenv.Fewer(t, "30")
	f := sqlitedbtest.New(t)
	tabletest.Run(t, func(t testing.TB) tabletest.Harness[*sqlitedb.Tx] {
		db := f.Open(t)
		return tabletest.Harness[*sqlitedb.Tx]{
			Grows: true,
			Open: func(ctx context.Context, spec table.Spec[record]) (table.Store[record, *sqlitedb.Tx], error) {
				s, err := sqlitedbtest.Get(f, func() (*sqlitetable.Store[record], error) { return sqlitetable.New(ctx, db, spec) })
				if err != nil {
					return nil, err
				}
				return again{s, f}, nil
			},
			In: func(s table.Store[record, *sqlitedb.Tx], raw *sqlitedb.Tx) table.Tx[record] {
				return s.(again).In(t.Context(), raw)
			},
		}
	})
}

func TestTablesOfANewerProgramAreRefused(t *testing.T) {
	sqlitedbtest.RefusesNewer(t, func(ctx context.Context, db *sqlitedb.DB) (*sqlitetable.Store[record], error) {
		return sqlitetable.New(ctx, db, tabletest.Spec("t"))
	})
}

// A program that reads the file by SQL finds each field under its name.
func TestColumnsAreReadableInSQL(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), t.TempDir()+"/t.db", sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	s, err := sqlitetable.New(t.Context(), db, tabletest.Spec("job"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx table.Tx[record], _ *sqlitedb.Tx) error {
		return tx.Put([]*record{{Key: "a", Group: "shop", State: 2, At: time.UnixMilli(1767225600000), Flag: true}})
	}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		return tx.QueryRow(`SELECT CAST(key AS TEXT) || ' ' || CAST("group" AS TEXT) || ' ' || state || ' ' || datetime(at/1000, 'unixepoch') || ' ' || until || ' ' || flag || ' ' ||
			(SELECT CAST(name AS TEXT) || '=' || n FROM _job_counts) FROM job`).Scan(&got)
	}); err != nil || got != "a shop 2 2026-01-01 00:00:00 0 1 shop/2=1" {
		t.Errorf("%q, %v", got, err)
	}
}
