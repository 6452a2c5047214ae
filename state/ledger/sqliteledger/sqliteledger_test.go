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
	"github.com/tidemill/tidemill/state/ledger/memoryledger"
	"github.com/tidemill/tidemill/state/ledger/sqliteledger"
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

// oldSchema is what the first version of the tables was.
const oldSchema = `
CREATE TABLE ledger_entry(
	id      INTEGER PRIMARY KEY,
	key     BLOB NOT NULL UNIQUE,
	tenant  BLOB NOT NULL,
	type    BLOB NOT NULL,
	payload BLOB,
	created INTEGER NOT NULL,
	state   INTEGER NOT NULL,
	holder  BLOB NOT NULL,
	token   INTEGER NOT NULL,
	tries   INTEGER NOT NULL,
	started INTEGER NOT NULL,
	until   INTEGER NOT NULL,
	ended   INTEGER NOT NULL DEFAULT 0,
	result  BLOB,
	err     BLOB NOT NULL DEFAULT x''
);
CREATE INDEX ledger_creation ON ledger_entry(created, key);
CREATE TABLE ledger_token(one INTEGER PRIMARY KEY CHECK(one = 1), newest INTEGER NOT NULL);
INSERT INTO ledger_token VALUES(1, 4);
INSERT INTO ledger_entry VALUES(1, x'6b', x'', x'', NULL, 1000, 2, x'61', 4, 1, 1000, 2000, 0, NULL, x'');
`

func TestAnOldFileIsReadOn(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Migrate(t.Context(), "ledger", []string{oldSchema}); err != nil {
		t.Fatal(err)
	}
	l, err := sqliteledger.New(t.Context(), db, sqliteledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &ledger.Entry{Key: "k", Print: []byte("new"), Call: 1}
	if err := l.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
		t.Fatal(err)
	}
	if e.State != ledger.Fresh || !e.Broken || e.Token != 5 || e.Tries != 2 {
		t.Errorf("got %+v, want the old try taken over", e)
	}
}

func TestSameAsInMemory(t *testing.T) {
	if before := flag.Lookup("rapid.checks").Value.String(); before == "100" { // nobody asked for more: each opens a file and syncs it
		t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
		_ = flag.Set("rapid.checks", "20")
	}
	ledgertest.Same(t, harness, func(now func() time.Time) ledger.Store {
		return memoryledger.New(memoryledger.Options{Now: now})
	})
}
