// Package sqlitelock keeps locks in the one SQLite file: they outlive a restart.
package sqlitelock

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/internal/rules"
)

// Options tune Locks; the zero value is ready to use.
type Options struct {
	Now  func() time.Time // nil means time.Now
	Rand io.Reader        // of owners; nil means crypto/rand
}

// Locks implements lock.Locks.
type Locks struct {
	db *sqlitedb.DB
	o  Options
}

var _ lock.Locks = (*Locks)(nil)

// One number fences all names, so that free names need not be remembered.
var schema = []string{`
CREATE TABLE lock_held(
	name TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	fence INTEGER NOT NULL,
	until INTEGER NOT NULL -- milliseconds, rounded up: a lock never ends early
) WITHOUT ROWID;
CREATE TABLE lock_fence(one INTEGER PRIMARY KEY CHECK(one = 1), fence INTEGER NOT NULL);
INSERT INTO lock_fence(one, fence) VALUES (1, 0);
`}

// New opens the locks in db and makes their tables.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Locks, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if err := db.Migrate(ctx, "lock", schema); err != nil {
		return nil, fmt.Errorf("open the locks: %w", err)
	}
	return &Locks{db, o}, nil
}

// Acquire implements lock.Locks.
func (l *Locks) Acquire(ctx context.Context, name string, d time.Duration) (h lock.Held, ok bool, err error) {
	if err := rules.Check(name, d); err != nil {
		return lock.Held{}, false, err
	}
	h.Name = name
	if h.Owner, err = rules.NewOwner(l.o.Rand); err != nil {
		return lock.Held{}, false, err
	}
	err = l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		now := l.o.Now()
		if _, err := tx.Exec("DELETE FROM lock_held WHERE until <= ?", now.UnixMilli()); err != nil {
			return err
		}
		n, err := tx.Exec("INSERT INTO lock_held(name,owner,fence,until) SELECT ?,?,fence+1,? FROM lock_fence WHERE true ON CONFLICT DO NOTHING", name, h.Owner, end(now, d))
		if err != nil || n == 0 {
			return err
		}
		ok = true
		if _, err := tx.Exec("UPDATE lock_fence SET fence=fence+1"); err != nil {
			return err
		}
		return tx.QueryRow("SELECT fence FROM lock_fence").Scan(&h.Fence)
	})
	if err != nil {
		return lock.Held{}, false, fmt.Errorf("acquire lock %q: %w", name, err)
	}
	if !ok {
		return lock.Held{}, false, nil
	}
	return h, true, nil
}

// Extend implements lock.Locks.
func (l *Locks) Extend(ctx context.Context, h lock.Held, d time.Duration) error {
	if err := rules.Check(h.Name, d); err != nil {
		return err
	}
	return l.change(ctx, "extend", h, func(tx *sqlitedb.Tx, now time.Time) (int64, error) {
		return tx.Exec("UPDATE lock_held SET until=? WHERE name=? AND owner=? AND fence=? AND until>?", end(now, d), h.Name, h.Owner, h.Fence, now.UnixMilli())
	})
}

// Release implements lock.Locks.
func (l *Locks) Release(ctx context.Context, h lock.Held) error {
	return l.change(ctx, "release", h, func(tx *sqlitedb.Tx, now time.Time) (int64, error) {
		return tx.Exec("DELETE FROM lock_held WHERE name=? AND owner=? AND fence=? AND until>?", h.Name, h.Owner, h.Fence, now.UnixMilli())
	})
}

// change applies do to a lock that h still holds.
func (l *Locks) change(ctx context.Context, what string, h lock.Held, do func(*sqlitedb.Tx, time.Time) (int64, error)) error {
	err := l.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		n, err := do(tx, l.o.Now())
		if err == nil && n == 0 {
			err = lock.ErrLost
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s lock %q: %w", what, h.Name, err)
	}
	return nil
}

// end is when a lock taken now for d runs out.
func end(now time.Time, d time.Duration) int64 {
	return now.Add(d + time.Millisecond - 1).UnixMilli()
}
