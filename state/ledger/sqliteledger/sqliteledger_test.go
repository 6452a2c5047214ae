package sqliteledger_test

import (
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/sqliteledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

func TestConformance(t *testing.T) { ledgertest.Run(t, harness) }

func harness(t *testing.T) ledgertest.Harness {
	t.Helper()
	c := ledgertest.NewClock()
	path := filepath.Join(t.TempDir(), "t.db")
	var db *sqlitedb.DB
	shut := func() {
		if db == nil {
			return
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	named := func(t *testing.T, name string) *sqliteledger.Ledger {
		t.Helper()
		l, err := sqliteledger.New(t.Context(), db, sqliteledger.Options{Name: name, Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	open := func(t *testing.T) ledger.Store {
		t.Helper()
		shut()
		var err error
		if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 1, CacheMiB: 4}); err != nil {
			t.Fatal(err)
		}
		return named(t, "")
	}
	t.Cleanup(shut)
	h := ledgertest.Harness{Ledger: open(t), Clock: c, Reopen: open, Close: shut}
	h.Other = func(t *testing.T) ledger.Store { return named(t, "other_1") }
	h.Effects = func(t *testing.T) (names []string) {
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
	h.Within = func(ctx context.Context, es []*ledger.Entry, do func(context.Context, func(string) error) error) error {
		return h.Ledger.(*sqliteledger.Ledger).Within(ctx, es, func(ctx context.Context, tx *sqlitedb.Tx) error {
			return do(ctx, func(name string) error { _, err := tx.Exec("INSERT INTO effect VALUES(?)", name); return err })
		})
	}
	if err := db.Migrate(t.Context(), "effects", []string{"CREATE TABLE effect(name TEXT NOT NULL)"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNamesOfLedgersAreChecked(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range []string{"A", "a b", "a;", "é", strings.Repeat("a", 33)} {
		if _, err := sqliteledger.New(t.Context(), db, sqliteledger.Options{Name: name}); err == nil {
			t.Errorf("a ledger of the name %q was opened", name)
		}
	}
}

func TestSameAsInMemory(t *testing.T) {
	if before := flag.Lookup("rapid.checks").Value.String(); before == "100" { // no number was asked for: each opens a file and syncs it
		t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
		_ = flag.Set("rapid.checks", "20")
	}
	ledgertest.Same(t, harness, func(now func() time.Time) ledger.Store {
		return tableledger.Memory(tableledger.Options{Now: now})
	})
}
