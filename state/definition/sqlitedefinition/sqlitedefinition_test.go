package sqlitedefinition_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/definitiontest"
	"github.com/tidemill/tidemill/state/definition/sqlitedefinition"
)

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
	s, err := sqlitedefinition.New(f.t.Context(), f.db)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	definitiontest.Run(t, func(t *testing.T) definitiontest.Harness {
		f := newFile(t)
		return definitiontest.Harness{Definitions: f.open(), Reopen: f.open}
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

func TestUnchangedRowsAreNotWritten(t *testing.T) {
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
	if n := changes(batch(10, at)); n != 21 {
		t.Errorf("the first upsert wrote %d rows, want 21", n)
	}
	if n := changes(batch(10, at)); n != 0 {
		t.Errorf("the same again wrote %d rows, want none", n)
	}
	if n := changes(batch(10, at.Add(-time.Hour))); n != 0 {
		t.Errorf("an older one wrote %d rows, want none", n)
	}
	if n := changes(batch(10, at.Add(time.Hour))); n != 21 {
		t.Errorf("a newer one wrote %d rows, want 21", n)
	}
}

func BenchmarkUpsertNew(b *testing.B) {
	s := newFile(b).open()
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	rows := 0
	for b.Loop() {
		at = at.Add(time.Hour)
		if err := s.Upsert(b.Context(), batch(500, at)); err != nil {
			b.Fatal(err)
		}
		rows += 1001
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
