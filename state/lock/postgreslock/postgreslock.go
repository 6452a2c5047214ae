// Package postgreslock keeps locks in PostgreSQL: for several processes at once, by the
// server's clock.
package postgreslock

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/state/lock"
	"github.com/tidemill/tidemill/state/lock/internal/rules"
)

// Options tune Locks; the zero value is ready to use.
type Options struct {
	Now  func() time.Time // nil means the server's clock, one for all processes
	Rand io.Reader        // of owners; nil means crypto/rand
}

// Locks implements lock.Locks.
type Locks struct {
	db *postgresdb.DB
	o  Options
}

var _ lock.Locks = (*Locks)(nil)

// New brings the tables of db to the newest version and opens the locks in it.
func New(ctx context.Context, db *postgresdb.DB, o Options) (*Locks, error) {
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if err := db.Migrate(ctx); err != nil {
		return nil, fmt.Errorf("open the locks: %w", err)
	}
	return &Locks{db, o}, nil
}

// Times have microseconds there: a lock runs one longer than it must, so that rounding does
// not end it early. $1 is the time by Options.Now, null: the server's.
const (
	held = `SELECT EXISTS (SELECT FROM tidemill_locks WHERE name = $2 AND until > coalesce($1::timestamptz, clock_timestamp()))`

	nextFence = `UPDATE tidemill_lock_fence SET fence = fence + 1 RETURNING fence`

	expire = `DELETE FROM tidemill_locks WHERE until <= coalesce($1::timestamptz, clock_timestamp())`

	take = `INSERT INTO tidemill_locks(name, owner, fence, until)
		VALUES ($2, $3, $4, coalesce($1::timestamptz, clock_timestamp()) + ($5::bigint + 1) * interval '1 microsecond') ON CONFLICT DO NOTHING`

	extend = `UPDATE tidemill_locks SET until = coalesce($1::timestamptz, clock_timestamp()) + ($5::bigint + 1) * interval '1 microsecond'
		WHERE name = $2 AND owner = $3 AND fence = $4 AND until > coalesce($1::timestamptz, clock_timestamp())`

	release = `DELETE FROM tidemill_locks
		WHERE name = $2 AND owner = $3 AND fence = $4 AND until > coalesce($1::timestamptz, clock_timestamp())`
)

// Acquire implements lock.Locks. A caller that would take a lock waits for other callers
// that do, of any name: that makes the fence grow with every owner. A caller that finds the
// lock held does not wait.
func (l *Locks) Acquire(ctx context.Context, name string, d time.Duration) (h lock.Held, ok bool, err error) {
	if err := rules.Check(name, d); err != nil {
		return lock.Held{}, false, err
	}
	h.Name = name
	if h.Owner, err = rules.NewOwner(l.o.Rand); err != nil {
		return lock.Held{}, false, err
	}
	now := l.now()
	err = l.db.Do(ctx, func(ctx context.Context, c *pgx.Conn) error {
		var taken bool
		if err := c.QueryRow(ctx, held, now, name).Scan(&taken); err != nil || taken {
			return err
		}
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			var fence int64
			if err := tx.QueryRow(ctx, nextFence).Scan(&fence); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, expire, now); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, take, now, name, h.Owner, fence, micros(d))
			h.Fence, ok = uint64(fence), tag.RowsAffected() == 1
			return err
		})
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
	return l.change(ctx, "extend", h, extend, l.now(), h.Name, h.Owner, int64(h.Fence), micros(d))
}

// Release implements lock.Locks.
func (l *Locks) Release(ctx context.Context, h lock.Held) error {
	return l.change(ctx, "release", h, release, l.now(), h.Name, h.Owner, int64(h.Fence))
}

// change applies a statement to a lock that h still holds.
func (l *Locks) change(ctx context.Context, what string, h lock.Held, statement string, args ...any) error {
	n, err := l.db.Exec(ctx, statement, args...)
	if err == nil && n == 0 {
		err = lock.ErrLost
	}
	if err != nil {
		return fmt.Errorf("%s lock %q: %w", what, h.Name, err)
	}
	return nil
}

func (l *Locks) now() *time.Time {
	if l.o.Now == nil {
		return nil
	}
	t := l.o.Now()
	return &t
}

// micros rounds up.
func micros(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }
