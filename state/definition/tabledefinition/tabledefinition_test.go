package tabledefinition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
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

func TestInSQLite(t *testing.T) {
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		f := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() definition.Definitions { return onSQLite(t, f.Open()) }
		return definitiontest.Harness{Definitions: open(), Reopen: open}
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
	f := sqlitedbtest.NewFile(t, sqlitedb.Options{})
	s := onSQLite(t, f.Open())
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	changes := func(b *definition.Batch) (n int) {
		t.Helper()
		total := func() (n int) {
			if err := f.DB().Write(t.Context(), func(tx *sqlitedb.Tx) error { return tx.QueryRow("SELECT total_changes()").Scan(&n) }); err != nil {
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
	s := onSQLite(b, sqlitedbtest.NewFile(b, sqlitedb.Options{}).Open())
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
