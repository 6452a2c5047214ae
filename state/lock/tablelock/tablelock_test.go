package tablelock_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/sqlitedb/sqlitedbtest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/table/servertest"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

func TestInMemory(t *testing.T) {
	locktest.Run(t, func(_ *testing.T, now func() time.Time) locktest.Harness {
		return locktest.Harness{Locks: tablelock.Memory(tablelock.Options{Now: now})}
	})
}

func onSQLite(t *testing.T, db *sqlitedb.DB, now func() time.Time) lock.Locks {
	t.Helper()
	s, err := sqlitetable.New(t.Context(), db, tablelock.Spec())
	if err != nil {
		t.Fatal(err)
	}
	return tablelock.New(s, tablelock.Options{Now: now})
}

func TestInSQLite(t *testing.T) {
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		file := sqlitedbtest.NewFile(t, sqlitedb.Options{})
		open := func() lock.Locks { return onSQLite(t, file.Open(), now) }
		return locktest.Harness{Locks: open(), Reopen: open}
	})
}

func TestInPostgreSQL(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
		table := servertest.InPostgreSQL(t, url, tablelock.Spec())
		open := func() lock.Locks { return tablelock.New(table(), tablelock.Options{Now: now}) }
		return locktest.Harness{Locks: open(), Reopen: open}
	})
}

func TestInRedis(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		locktest.Run(t, func(t *testing.T, now func() time.Time) locktest.Harness {
			table := servertest.InRedis(t, client, tablelock.Spec())
			open := func() lock.Locks { return tablelock.New(table(), tablelock.Options{Now: now}) }
			return locktest.Harness{Locks: open(), Reopen: open}
		})
	})
}

// Times are kept in milliseconds: rounded up, and by no more than that.
func TestTheEndOfALockIsRoundedUp(t *testing.T) {
	begin := time.UnixMilli(1_800_000_000_000)
	now := begin
	l := tablelock.Memory(tablelock.Options{Now: func() time.Time { return now }})
	for i, c := range []struct {
		at, later time.Duration
		free      bool
	}{{0, 10 * time.Millisecond, true}, {0, 10*time.Millisecond - 1, false}, {1, 10 * time.Millisecond, false}, {1, 11 * time.Millisecond, true}} {
		name := fmt.Sprint(i)
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

// A lock that nobody asks for again leaves nothing.
func TestLocksThatRanOutAreForgotten(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	s, err := memorytable.New(memorytable.NewDB(), tablelock.Spec())
	if err != nil {
		t.Fatal(err)
	}
	l := tablelock.New(s, tablelock.Options{Now: func() time.Time { return now }})
	for i := range 50 {
		if _, ok, err := l.Acquire(t.Context(), fmt.Sprint(i), time.Second); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	now = now.Add(time.Second)
	h, ok, err := l.Acquire(t.Context(), "7", time.Second)
	if !ok || err != nil || h.Fence != 51 {
		t.Fatal(h, ok, err)
	}
	if n, err := s.Count(t.Context(), 100, table.Cond{Field: "owner", Op: ">", Value: ""}); n != 1 || err != nil {
		t.Errorf("%d locks are kept, %v; want the one that is held", n, err)
	}
}

func TestNobodyHasALockWithoutRandomness(t *testing.T) {
	l := tablelock.Memory(tablelock.Options{Rand: iotest.ErrReader(io.ErrUnexpectedEOF)})
	if h, ok, err := l.Acquire(t.Context(), "a", time.Minute); err == nil || ok {
		t.Errorf("Acquire = %+v, %v, %v; want an error", h, ok, err)
	}
}

func TestANameIsNotTooLong(t *testing.T) {
	l := tablelock.Memory(tablelock.Options{})
	for size, want := range map[int]bool{500: true, table.MaxKey: false} {
		if _, ok, err := l.Acquire(t.Context(), strings.Repeat("n", size), time.Minute); ok != want || (err == nil) != want {
			t.Errorf("a name of %d bytes: %v, %v", size, ok, err)
		}
	}
}

func TestLocksThatAreNotTunedWork(t *testing.T) {
	l := tablelock.Memory(tablelock.Options{})
	if _, ok, err := l.Acquire(t.Context(), "a", time.Minute); err != nil || !ok {
		t.Errorf("Acquire = %v, %v; want the lock", ok, err)
	}
}
