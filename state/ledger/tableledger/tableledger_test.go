package tableledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// inMemory is the reference that other backends are compared with.
func inMemory(now func() time.Time) ledger.Store {
	return tableledger.Memory(tableledger.Options{Now: now})
}

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		c, db := ledgertest.NewClock(), memorytable.NewDB()
		named := func(t *testing.T, name string) *tableledger.Ledger[*memorytable.Tx] {
			t.Helper()
			s, err := memorytable.New(db, tableledger.Spec(name))
			if err != nil {
				t.Fatal(err)
			}
			return tableledger.New(s, tableledger.Options{Now: c.Now})
		}
		l := named(t, "")
		effects, err := memorytable.New(db, effectSpec)
		if err != nil {
			t.Fatal(err)
		}
		h := ledgertest.Harness{Ledger: l, Clock: c, Other: func(t *testing.T) ledger.Store { return named(t, "other_1") }}
		h.Within = func(ctx context.Context, es []*ledger.Entry, do func(context.Context, func(string) error) error) error {
			return l.Within(ctx, es, func(ctx context.Context, raw *memorytable.Tx) error {
				return do(ctx, func(name string) error { return effects.In(ctx, raw).Put([]*effect{{Name: name}}) })
			})
		}
		h.Effects = func(t *testing.T) (names []string) {
			t.Helper()
			if err := effects.View(t.Context(), func(r effectReader) error {
				all, err := r.Page(everyEffect)
				for _, e := range all {
					names = append(names, e.Name)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return names
		}
		return h
	})
}

func TestConformanceOnSQLite(t *testing.T) { ledgertest.Run(t, onSQLite) }

func TestSameOnSQLiteAsInMemory(t *testing.T) {
	testenv.Fewer(t, "20")
	ledgertest.Same(t, onSQLite, inMemory)
}

func openSQLite(t testing.TB, db *sqlitedb.DB, name string, now func() time.Time) *tableledger.Ledger[*sqlitedb.Tx] {
	t.Helper()
	s, err := sqlitetable.New(t.Context(), db, tableledger.Spec(name))
	if err != nil {
		t.Fatal(err)
	}
	return tableledger.New(s, tableledger.Options{Now: now})
}

func onSQLite(t *testing.T) ledgertest.Harness {
	t.Helper()
	c := ledgertest.NewClock()
	file := sqlitedbtest.NewFile(t, sqlitedb.Options{Readers: 1, CacheMiB: 4})
	open := func(t *testing.T) ledger.Store {
		t.Helper()
		return openSQLite(t, file.Open(), "", c.Now)
	}
	h := ledgertest.Harness{Ledger: open(t), Clock: c, Reopen: open, Close: file.Close}
	h.Other = func(t *testing.T) ledger.Store { return openSQLite(t, file.DB(), "other_1", c.Now) }
	if err := file.DB().Migrate(t.Context(), "effects", []string{"CREATE TABLE effect(name TEXT NOT NULL)"}); err != nil {
		t.Fatal(err)
	}
	h.Effects = func(t *testing.T) []string { t.Helper(); return effectsOf(t, file.DB()) }
	h.Within = func(ctx context.Context, es []*ledger.Entry, do func(context.Context, func(string) error) error) error {
		return h.Ledger.(*tableledger.Ledger[*sqlitedb.Tx]).Within(ctx, es, func(ctx context.Context, tx *sqlitedb.Tx) error {
			return do(ctx, func(name string) error { _, err := tx.Exec("INSERT INTO effect VALUES(?)", name); return err })
		})
	}
	return h
}

func effectsOf(t *testing.T, db *sqlitedb.DB) (names []string) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT name FROM effect ORDER BY name")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			names = append(names, s)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return names
}
