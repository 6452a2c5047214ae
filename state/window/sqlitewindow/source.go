package sqlitewindow

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

const (
	receiveMax = 500 // windows of one Receive
)

// source hands out closed windows.
type source struct {
	s *Store

	mu  sync.Mutex               // guards out
	out map[uint64]tidemill.Mark // handed out, with leases to keep, by revision
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements window.Store.
func (s *Store) Open() tidemill.Source { return &source{s: s, out: map[uint64]tidemill.Mark{}} }

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Ordered: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) { return c.take(ctx, into) })
}

// Windows that are ready or leased, and first in the line of their batch id.
const (
	heads   = " FROM window_batch w INDEXED BY window_out WHERE w.line>0 AND NOT EXISTS(SELECT 1 FROM window_batch o WHERE o.batch=w.batch AND o.line>0 AND o.line<w.line)"
	dueSQL  = "SELECT " + columns + ", EXISTS(SELECT 1 FROM window_record r WHERE r.revision=w.revision)" + heads + " AND w.due<=? ORDER BY w.revision LIMIT ?"
	nextSQL = "SELECT min(w.due)" + heads
)

// take hands out due windows, or says how long to wait at most.
func (c *source) take(ctx context.Context, into []*tidemill.Message) (int, time.Duration, error) {
	var leased []*entry.Entry
	wait := bell.Idle
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		now := c.s.o.Now()
		var books change
		for len(leased) == 0 {
			lost, err := c.lease(tx, now, min(len(into), receiveMax), &leased, &books)
			if err != nil {
				return err
			}
			if lost == 0 {
				break
			}
		}
		if len(leased) == 0 {
			var next sql.NullInt64
			if err := tx.QueryRow(nextSQL).Scan(&next); err != nil {
				return err
			}
			if next.Valid {
				wait = time.UnixMilli(next.Int64).Sub(now)
			}
		}
		return books.write(tx)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("receive windows: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range leased {
		if err := e.Fill(into[i]); err != nil {
			return i, 0, err
		}
		c.out[e.Revision] = e.Position()
	}
	return len(leased), wait, nil
}

// lease takes windows, and says how many had no records.
func (c *source) lease(tx *sqlitedb.Tx, now time.Time, most int, leased *[]*entry.Entry, books *change) (lost int, err error) {
	type found struct {
		*entry.Entry
		there bool
	}
	var all []found
	if err := each(tx, dueSQL, []any{now.UnixMilli(), most}, func(rows *sql.Rows) error {
		var f found
		var err error
		f.Entry, err = scan(rows, &f.there)
		all = append(all, f)
		return err
	}); err != nil {
		return 0, err
	}
	args := make([]any, 0, 4*len(all))
	for _, f := range all {
		if !f.there {
			lost++
			if err := books.gone(tx, f.Entry); err != nil {
				return 0, err
			}
			continue
		}
		books.count(f.Entry, -1)
		f.Lease(now, c.s.o.Lease, c.s.o.Owner)
		books.count(f.Entry, 1)
		args = append(args, f.Revision, f.Epoch, f.Handed, wire.Millis(f.Due), []byte(f.Owner))
		*leased = append(*leased, f.Entry)
	}
	_, err = tx.Bulk("UPDATE window_batch SET state=2, epoch=v.column2, handed=v.column3, due=v.column4, owner=v.column5 FROM (VALUES ", "(?,?,?,?,?)", ") AS v WHERE revision=v.column1", args)
	return lost, err
}

// Settle implements tidemill.Source.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), entry.CheckSettle(ends)); err != nil || len(ends) == 0 {
		return err
	}
	took := make([]tidemill.Outcome, len(ends))
	var forget []tidemill.Mark
	wake := false
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		now := c.s.o.Now()
		var books change
		for i := range tidemill.ByIDFirst(ends) {
			e := &ends[i]
			if took[i] = e.Outcome; took[i] != tidemill.Unanswered {
				continue
			}
			w, err := lookup(tx, e)
			if err != nil {
				return err
			}
			if w == nil || !w.Holds(e.Mark) {
				took[i] = tidemill.Stale
				continue
			}
			took[i] = tidemill.Applied
			forget = append(forget, w.Position())
			if e.End == tidemill.Left {
				continue
			}
			wake = true
			books.row.Add(entry.Booked(e, w.Records, w.Lost))
			books.count(w, -1)
			if w.Settle(e, now) {
				err = remove(tx, w)
			} else {
				books.count(w, 1)
				err = write(tx, w)
			}
			if err != nil {
				return err
			}
		}
		return books.write(tx)
	})
	if err != nil {
		return fmt.Errorf("settle %d windows: %w", len(ends), err)
	}
	for i := range ends {
		ends[i].Outcome = took[i]
		forget = append(forget, ends[i].Mark) // the stale ones too
	}
	c.forget(forget)
	if wake {
		c.s.bell.Ring()
	}
	return nil
}

// lookup is the window of a settlement: by position, else by ID.
func lookup(tx *sqlitedb.Tx, s *tidemill.Settlement) (*entry.Entry, error) {
	if (s.Mark != tidemill.Mark{}) {
		return find(tx, s.Mark.Lo)
	}
	return byID(tx, s.ID)
}

// byID reads a window; nil: none.
func byID(tx *sqlitedb.Tx, id string) (*entry.Entry, error) {
	_, revision, ok := window.ParseID(id)
	if !ok || revision > 1<<62 {
		return nil, nil
	}
	e, err := find(tx, revision)
	if e != nil && e.ID != id {
		return nil, nil
	}
	return e, err
}

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	c.mu.Lock()
	out := slices.Collect(maps.Values(c.out))
	c.mu.Unlock()
	if len(out) == 0 {
		return ctx.Err()
	}
	var lost []tidemill.Mark
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		lost = lost[:0]
		until := wire.MillisUp(c.s.o.Now().Add(c.s.o.Lease))
		for _, m := range out {
			n, err := tx.Exec("UPDATE window_batch SET due=? WHERE revision=? AND epoch=? AND replays=? AND state=2", until, m.Lo, m.Epoch, m.Hi)
			if err != nil {
				return err
			}
			if n == 0 {
				lost = append(lost, m)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep %d windows: %w", len(out), err)
	}
	c.forget(lost)
	return nil
}

// forget stops keeping these hand-outs. A window that was handed out anew meanwhile is kept:
// its mark is another.
func (c *source) forget(marks []tidemill.Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range marks {
		if c.out[m.Lo] == m {
			delete(c.out, m.Lo)
		}
	}
}

// Books implements tidemill.Bookkeeper, from one snapshot. Pending is counted in the store.
func (c *source) Books(ctx context.Context) (b tidemill.Books, err error) {
	err = c.s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := tx.QueryRow("SELECT accepted, delivered, skipped, dead FROM window_books").Scan(&b.Accepted, &b.Settled.Delivered, &b.Settled.Skipped, &b.Settled.Dead); err != nil {
			return err
		}
		return tx.QueryRow("SELECT coalesce(sum(records), 0) FROM window_batch WHERE state IN (0,1,2)").Scan(&b.Pending)
	})
	if err != nil {
		return tidemill.Books{}, fmt.Errorf("read the books of windows: %w", err)
	}
	return b, nil
}
