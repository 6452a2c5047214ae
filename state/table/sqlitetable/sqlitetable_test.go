package sqlitetable_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/table/tabletest"
)

type record = tabletest.Record

func TestConformance(t *testing.T) {
	testenv.Fewer(t, "30")
	tabletest.Run(t, harness)
}

func TestKilled(t *testing.T) {
	place := func(t *testing.T) string { return filepath.Join(t.TempDir(), "t.db") }
	tabletest.Killed(t, place, at)
}

func harness(t testing.TB) tabletest.Harness[*sqlitedb.Tx] {
	return at(t, filepath.Join(t.TempDir(), "t.db"))
}

func at(t testing.TB, path string) tabletest.Harness[*sqlitedb.Tx] {
	var db *sqlitedb.DB
	shut := func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	open := func() {
		var err error
		if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{Readers: 2, CacheMiB: 4}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	t.Cleanup(func() { shut() })
	if err := db.Migrate(t.Context(), "effects", []string{"CREATE TABLE effect(name TEXT NOT NULL)"}); err != nil {
		t.Fatal(err)
	}
	return tabletest.Harness[*sqlitedb.Tx]{
		Open: func(ctx context.Context, spec table.Spec[record]) (table.Store[record, *sqlitedb.Tx], error) {
			s, err := sqlitetable.New(ctx, db, spec)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		In: func(s table.Store[record, *sqlitedb.Tx], raw *sqlitedb.Tx) table.Tx[record] {
			return s.(*sqlitetable.Store[record]).In(t.Context(), raw)
		},
		Effect: func(raw *sqlitedb.Tx, name string) error {
			_, err := raw.Exec("INSERT INTO effect VALUES(?)", name)
			return err
		},
		Effects: func(t testing.TB) []string { return effects(t, db) },
		Grows:   true,
		Crash:   func(testing.TB) { shut(); open() },
	}
}

// TestAViewIsReadBySQL: other programs read what the view says, and cannot write by it.
func TestAViewIsReadBySQL(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	spec := tabletest.Spec("t")
	spec.Views = []table.View{{Name: "seen", SQLite: `SELECT CAST("key" AS TEXT) AS name FROM "t" WHERE "state"=1`, Postgres: "SELECT 1"}}
	newest := spec.Fields[len(spec.Fields)-1]
	spec.Fields = spec.Fields[:len(spec.Fields)-1]
	for i := range 3 { // made, opened again, and opened with one field more
		if i == 2 {
			spec.Fields = append(spec.Fields, newest)
			spec.Views[0].SQLite, spec.Views[0].Postgres = more(spec.Views[0].SQLite), more(spec.Views[0].Postgres)
		}
		s, err := sqlitetable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func(tx table.Tx[record], _ *sqlitedb.Tx) error {
			return tx.Put([]*record{{Key: "a", State: 1}, {Key: "b", State: 2}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	var name string
	var n int // with the newest field, which is 0
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT max(name), max(newest)+count(*) FROM seen").Scan(&name, &n)
	}); err != nil || name != "a" || n != 1 {
		t.Errorf("the view has %d rows, the last %q (%v); want 1, \"a\"", n, name, err)
	}
	if err := db.Write(t.Context(), func(tx *sqlitedb.Tx) error { _, err := tx.Exec("DELETE FROM seen"); return err }); err == nil {
		t.Error("it was written by the view")
	}
}

func effects(t testing.TB, db *sqlitedb.DB) (names []string) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT name FROM effect")
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

// more is the SELECT of a view with the field call too.
func more(query string) string { return strings.Replace(query, " FROM", `, "call" AS newest FROM`, 1) }
