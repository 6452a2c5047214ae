package tablewindow

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/windowtest"
)

func TestInMemory(t *testing.T) {
	open := func(t *testing.T, o window.Options) windowtest.Harness {
		t.Helper()
		s, err := Memory(o)
		if err != nil {
			t.Fatal(err)
		}
		return harness(s)
	}
	windowtest.Run(t, clocked(open))
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness {
		return windowtest.Source(t, open(t, window.Options{}).Store, 30*time.Second, nil)
	})
}

func TestInSQLite(t *testing.T) {
	windowtest.Run(t, clocked(inSQLite))
	sourcetest.Run(t, func(t *testing.T) sourcetest.Harness { // the file's goroutines live in the bubble too: time is exact
		h := inSQLite(t, window.Options{})
		return windowtest.Source(t, h.Store, 30*time.Second, h.Reopen)
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	testenv.Fewer(t, "10")                                 // each step is a transaction
	url := testenv.Postgres(t) + "&synchronous_commit=off" // thousands of commits, without a crash
	windowtest.Run(t, clocked(func(t *testing.T, o window.Options) windowtest.Harness { return inPostgres(t, url, o) }))
	sourcetest.RunLive(t, 8, func(t *testing.T) sourcetest.Harness {
		const lease = 2 * time.Second
		h := inPostgres(t, url, window.Options{Lease: lease})
		return windowtest.Source(t, h.Store, lease, h.Reopen)
	})
}

// clocked opens stores with a clock that is moved.
func clocked(open func(*testing.T, window.Options) windowtest.Harness) func(*testing.T, window.Options) windowtest.Harness {
	return func(t *testing.T, o window.Options) windowtest.Harness {
		t.Helper()
		clock := windowtest.NewClock()
		o.Now = clock.Now
		h := open(t, o)
		h.Advance = clock.Advance
		return h
	}
}

// harness loses and damages what lies in a store's table of blobs.
func harness[Raw any](s *Store[Raw]) windowtest.Harness {
	change := func(t *testing.T, id string, do func(table.Tx[Blob], []*Blob) error) {
		t.Helper()
		_, revision, _ := window.ParseID(id)
		if err := s.blobs.Update(t.Context(), func(tx table.Tx[Blob], _ Raw) error {
			rows, err := table.All(tx, table.Query[Blob]{Where: of(revision, 1), Most: 100})
			if err != nil || len(rows) == 0 {
				t.Errorf("%q has no blobs: %v", id, err)
			}
			return do(tx, rows)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return windowtest.Harness{Store: s,
		Lose: func(t *testing.T, id string) {
			change(t, id, func(tx table.Tx[Blob], rows []*Blob) error {
				var keys []string
				for _, b := range rows {
					keys = append(keys, b.key)
				}
				return tx.Delete(keys)
			})
		},
		Damage: func(t *testing.T, id string) {
			change(t, id, func(tx table.Tx[Blob], rows []*Blob) error {
				b := rows[0]
				b.data[len(b.data)-9] ^= 1 // the body before the last checksum
				return tx.Put([]*Blob{b}, "data")
			})
		}}
}

func inSQLite(t *testing.T, o window.Options) windowtest.Harness {
	t.Helper()
	file := newFile(t)
	open := func(t *testing.T) *Store[*sqlitetable.Tx] {
		t.Helper()
		return onFile(t, file.Open(), o)
	}
	h := harness(open(t))
	h.Reopen, h.Close = func(t *testing.T) window.Store { t.Helper(); return open(t) }, file.Close
	return h
}

func newFile(t testing.TB) *sqlitedbtest.File {
	t.Helper()
	return sqlitedbtest.NewFile(t, sqlitedb.Options{Readers: 2, CacheMiB: 4})
}

func onFile(t testing.TB, db *sqlitedb.DB, o window.Options) *Store[*sqlitetable.Tx] {
	t.Helper()
	s, err := inDB(t, db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inDB(t testing.TB, db *sqlitedb.DB, o window.Options) (*Store[*sqlitetable.Tx], error) {
	t.Helper()
	windows, err := sqlitetable.New(t.Context(), db, Spec())
	if err != nil {
		return nil, err
	}
	blobs, err := sqlitetable.New(t.Context(), db, BlobSpec())
	if err != nil {
		return nil, err
	}
	return New(t.Context(), windows, blobs, Options{Options: o})
}

func inPostgres(t *testing.T, url string, o window.Options) windowtest.Harness {
	t.Helper()
	spec, blobSpec := Spec(), BlobSpec()
	spec.Name, blobSpec.Name = testenv.Name("w"), testenv.Name("b")
	open := func(t *testing.T) window.Store {
		t.Helper()
		db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		windows, err := postgrestable.New(t.Context(), db, spec)
		if err != nil {
			t.Fatal(err)
		}
		blobs, err := postgrestable.New(t.Context(), db, blobSpec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(t.Context(), windows, blobs, Options{Options: o, Look: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return windowtest.Harness{Store: open(t), Reopen: open, Shared: true}
}
