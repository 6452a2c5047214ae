package tableprogress_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/progresstest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
)

func feed[Raw any](t testing.TB, s table.Store[tableprogress.Record, Raw], name string, now func() time.Time) progress.Store {
	t.Helper()
	p, err := tableprogress.New(s, name, tableprogress.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestInMemory(t *testing.T) {
	progresstest.Run(t, func(t *testing.T, now func() time.Time) progresstest.Harness {
		s, err := memorytable.New(memorytable.NewDB(), tableprogress.Spec())
		if err != nil {
			t.Fatal(err)
		}
		one := feed(t, s, "one", now)
		return progresstest.Harness{Store: one, Other: feed(t, s, "other", now), Reopen: func() progress.Store { return one }}
	})
}

func onSQLite(t testing.TB, path string) (*sqlitedb.DB, *sqlitetable.Store[tableprogress.Record]) {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlitetable.New(t.Context(), db, tableprogress.Spec())
	if err != nil {
		t.Fatal(err)
	}
	return db, s
}

func TestInSQLite(t *testing.T) {
	progresstest.Run(t, func(t *testing.T, now func() time.Time) progresstest.Harness {
		path := filepath.Join(t.TempDir(), "t.db")
		db, s := onSQLite(t, path)
		t.Cleanup(func() { _ = db.Close() })
		return progresstest.Harness{Store: feed(t, s, "one", now), Other: feed(t, s, "other", now), Reopen: func() progress.Store {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db, s = onSQLite(t, path)
			return feed(t, s, "one", now)
		}}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	progresstest.Run(t, func(t *testing.T, now func() time.Time) progresstest.Harness {
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		open := func(name string) progress.Store {
			s, err := postgrestable.New(t.Context(), db, tableprogress.Spec())
			if err != nil {
				t.Fatal(err)
			}
			return feed(t, s, name, now)
		}
		h := progresstest.Harness{Store: open("one"), Other: open("other"), Reopen: func() progress.Store { return open("one") }}
		if _, err := db.Exec(t.Context(), "TRUNCATE tidemill_gdelt_file"); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestAFeedNeedsAName(t *testing.T) {
	for _, name := range []string{"", "a/b"} {
		if _, err := tableprogress.New[any](nil, name, tableprogress.Options{}); err == nil {
			t.Errorf("a feed with the name %q is taken", name)
		}
	}
}

// BenchmarkSave saves two open files.
func BenchmarkSave(b *testing.B) {
	db, s := onSQLite(b, filepath.Join(b.TempDir(), "t.db"))
	defer func() { _ = db.Close() }()
	store := feed(b, s, "one", nil)
	files := make([]*progress.File, 2)
	for i := range files {
		files[i] = &progress.File{Name: fmt.Sprint(i), Rows: 1 << 40, Status: progress.Open}
		if err := store.Add(b.Context(), files[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		for _, f := range files {
			f.Ended.Add(n)
			f.Settled.Delivered++
		}
		if err := store.Save(b.Context(), files); err != nil {
			b.Fatal(err)
		}
	}
}
