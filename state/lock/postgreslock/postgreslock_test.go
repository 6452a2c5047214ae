package postgreslock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/postgreslock"
)

func TestConformance(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		db := connect(t, url)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), "DELETE FROM tidemill_locks"); err != nil {
			t.Fatal(err)
		}
		open := func() lock.Locks { return locks(t, connect(t, url), postgreslock.Options{Now: now}) }
		return locktest.Harness{Locks: open(), Reopen: open}
	})
}

func connect(t testing.TB, url string) *postgresdb.DB {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func locks(t testing.TB, db *postgresdb.DB, o postgreslock.Options) *postgreslock.Locks {
	t.Helper()
	l, err := postgreslock.New(t.Context(), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheServersClockDecides(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	l := locks(t, db, postgreslock.Options{})
	h, ok, err := l.Acquire(t.Context(), "a", time.Hour)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err := l.Acquire(t.Context(), "a", time.Hour); err != nil || ok {
		t.Errorf("Acquire of a lock that is held: %v, %v", ok, err)
	}
	// An hour passes there, whatever the clock here says.
	if _, err := db.Exec(t.Context(), "UPDATE tidemill_locks SET until = until - interval '1 hour 1 second'"); err != nil {
		t.Fatal(err)
	}
	if err := l.Extend(t.Context(), h, time.Hour); err == nil {
		t.Error("a lock that ran out was extended")
	}
	if again, ok, err := l.Acquire(t.Context(), "a", time.Hour); err != nil || !ok || again.Fence <= h.Fence {
		t.Errorf("Acquire after it ran out: %+v, %v, %v; want a fence above %d", again, ok, err, h.Fence)
	}
}

func TestProcessesTakeTurns(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var inside, turns, fence atomic.Uint64
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var wg sync.WaitGroup
	for range 4 {
		l := locks(t, connect(t, url), postgreslock.Options{})
		wg.Go(func() {
			for done := 0; done < 10; {
				h, ok, err := l.Acquire(ctx, "turn", time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold it at once", n)
				}
				if last := fence.Swap(h.Fence); h.Fence <= last {
					t.Errorf("fence %d came after %d", h.Fence, last)
				}
				inside.Store(0)
				turns.Add(1)
				done++
				if err := l.Release(ctx, h); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if wg.Wait(); turns.Load() != 40 {
		t.Errorf("there were %d turns, want 40", turns.Load())
	}
}
