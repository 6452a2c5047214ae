package tabledefinition_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	definitiontest.Run(t, func(*testing.T) definitiontest.Harness {
		return definitiontest.Harness{Definitions: tabledefinition.Memory()}
	})
}

func onSQLite(t testing.TB, db *sqlitedb.DB) definition.Definitions {
	t.Helper()
	s, err := sqlitetable.New(t.Context(), db, tabledefinition.Spec())
	if err != nil {
		t.Fatal(err)
	}
	return tabledefinition.New(s)
}

// file opens a database again and again.
type file struct {
	t    testing.TB
	path string
	db   *sqlitedb.DB
}

func newFile(t testing.TB) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "t.db")}
	t.Cleanup(f.close)
	return f
}

func (f *file) close() {
	if f.db != nil {
		if err := f.db.Close(); err != nil {
			f.t.Error(err)
		}
	}
}

func (f *file) open() definition.Definitions {
	f.close()
	var err error
	if f.db, err = sqlitedb.Open(f.t.Context(), f.path, sqlitedb.Options{}); err != nil {
		f.t.Fatal(err)
	}
	return onSQLite(f.t, f.db)
}

func TestInSQLite(t *testing.T) {
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		f := newFile(t)
		return definitiontest.Harness{Definitions: f.open(), Reopen: f.open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		var db *postgresdb.DB
		open := func() definition.Definitions {
			var err error
			if db, err = postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s, err := postgrestable.New(t.Context(), db, tabledefinition.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return tabledefinition.New(s)
		}
		h := definitiontest.Harness{Definitions: open(), Reopen: open}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_definition"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func batch(n int, at time.Time) *definition.Batch {
	p := uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	b := &definition.Batch{Events: []definition.Event{{Project: p, Name: "e", LastSeen: at}}}
	for i := range n {
		name := fmt.Sprintf("property %d", i)
		b.Properties = append(b.Properties, definition.Property{Project: p, Name: name, Of: definition.OfEvent, Type: definition.Numeric, LastSeen: at})
		b.EventProperties = append(b.EventProperties, definition.EventProperty{Project: p, Event: "e", Property: name, Of: definition.OfEvent, LastSeen: at})
	}
	return b
}

func TestUnchangedRecordsAreNotWritten(t *testing.T) {
	f := newFile(t)
	s := f.open()
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	changes := func(b *definition.Batch) (n int) {
		t.Helper()
		total := func() (n int) {
			if err := f.db.Write(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow("SELECT total_changes()").Scan(&n) }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := total()
		if err := s.Upsert(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return total() - before
	}
	for _, c := range []struct {
		name string
		at   time.Time
		want int
	}{{"the first", at, 21}, {"the same again", at, 0}, {"an older one", at.Add(-time.Hour), 0}, {"a newer one", at.Add(time.Hour), 21}} {
		if n := changes(batch(10, c.at)); n != c.want {
			t.Errorf("%s wrote %d records, want %d", c.name, n, c.want)
		}
	}
}

func BenchmarkUpsertNew(b *testing.B) {
	s := newFile(b).open()
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	records := 0
	for b.Loop() {
		at = at.Add(time.Hour)
		if err := s.Upsert(b.Context(), batch(500, at)); err != nil {
			b.Fatal(err)
		}
		records += 1001
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
}
