package sqlitelock_test

import (
	"io"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/sqlitelock"
)

func TestConformance(t *testing.T) {
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		path := filepath.Join(t.TempDir(), "t.db")
		var db *sqlitedb.DB
		closeDB := func() {
			if db != nil {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		t.Cleanup(func() { closeDB() })
		open := func() lock.Locks {
			closeDB()
			var err error
			if db, err = sqlitedb.Open(t.Context(), path, sqlitedb.Options{}); err != nil {
				t.Fatal(err)
			}
			l, err := sqlitelock.New(t.Context(), db, sqlitelock.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return locktest.Harness{Locks: open(), Reopen: open}
	})
}

// fresh opens locks in a file of its own.
func fresh(t *testing.T, o sqlitelock.Options) *sqlitelock.Locks {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	l, err := sqlitelock.New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Times are kept in milliseconds: rounded up, and by no more than that.
func TestTheEndOfALockIsRoundedUp(t *testing.T) {
	begin := time.UnixMilli(1_800_000_000_000)
	now := begin
	l := fresh(t, sqlitelock.Options{Now: func() time.Time { return now }})
	for i, c := range []struct {
		at, later time.Duration
		free      bool
	}{{0, 10 * time.Millisecond, true}, {0, 10*time.Millisecond - 1, false}, {1, 10 * time.Millisecond, false}, {1, 11 * time.Millisecond, true}} {
		name := string(rune('a' + i))
		now = begin.Add(c.at)
		if _, ok, err := l.Acquire(t.Context(), name, 10*time.Millisecond); !ok || err != nil {
			t.Fatal(ok, err)
		}
		now = begin.Add(c.later)
		if _, ok, err := l.Acquire(t.Context(), name, 10*time.Millisecond); ok != c.free || err != nil {
			t.Errorf("taken %v after a millisecond, it is free at %v: %v, %v", c.at, c.later, ok, err)
		}
	}
}

func TestNobodyHasALockWithoutRandomness(t *testing.T) {
	l := fresh(t, sqlitelock.Options{Rand: iotest.ErrReader(io.ErrUnexpectedEOF)})
	if h, ok, err := l.Acquire(t.Context(), "a", time.Minute); err == nil || ok {
		t.Errorf("Acquire = %+v, %v, %v; want an error", h, ok, err)
	}
}

func TestLocksThatAreNotTunedWork(t *testing.T) {
	l := fresh(t, sqlitelock.Options{})
	if _, ok, err := l.Acquire(t.Context(), "a", time.Minute); err != nil || !ok {
		t.Errorf("Acquire = %v, %v; want the lock", ok, err)
	}
}
