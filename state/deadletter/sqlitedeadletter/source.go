package sqlitedeadletter

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
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

const (
	receiveMax = 128 // dead letters of one Receive: other writers wait while payloads are read
)

// source hands out the replaying dead letters of one pipeline.
type source struct {
	s        *Store
	pipeline string

	mu  sync.Mutex              // guards out
	out map[int64]tidemill.Mark // handed out, with leases to keep, by Seq
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements deadletter.Store.
func (s *Store) Open(pipeline string) tidemill.Source {
	return &source{s: s, pipeline: pipeline, out: map[int64]tidemill.Mark{}}
}

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) { return c.take(ctx, into) })
}

// take hands out due dead letters, or says how long to wait at most.
func (c *source) take(ctx context.Context, into []*tidemill.Message) (int, time.Duration, error) {
	var leased []*deadletter.Record
	wait := bell.Idle
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		now := c.s.o.Now()
		var damaged []*deadletter.Record
		ms := now.UnixMilli()
		err := each(tx, whole+"WHERE d.pipeline=? AND d.state=1 AND d.due<=? AND d.until<=? ORDER BY d.seq LIMIT ?",
			[]any{[]byte(c.pipeline), ms, ms, min(len(into), receiveMax)}, func(rows *sql.Rows) error {
				r, err := scan(rows, true)
				switch {
				case err != nil:
					return err
				case r.Damaged != "":
					r.Break(now)
					damaged = append(damaged, r)
				default:
					r.Lease(now, c.s.o.Lease)
					leased = append(leased, r)
				}
				return nil
			})
		if err != nil {
			return err
		}
		if err := rewrite(tx, damaged, true); err != nil {
			return err
		}
		args := make([]any, 0, 4*len(leased))
		for _, r := range leased {
			args = append(args, r.Seq, r.Epoch, r.Handed, wire.MillisUp(r.Until))
		}
		if _, err := tx.Bulk("UPDATE deadletter SET epoch=v.column2, handed=v.column3, until=v.column4 FROM (VALUES ", "(?,?,?,?)", ") AS v WHERE seq=v.column1", args); err != nil {
			return err
		}
		if len(leased) > 0 {
			return nil
		}
		var next sql.NullInt64
		err = tx.QueryRow("SELECT min(CASE WHEN until>0 THEN until ELSE due END) FROM deadletter WHERE pipeline=? AND state=1", []byte(c.pipeline)).Scan(&next)
		if next.Valid {
			wait = time.UnixMilli(next.Int64).Sub(now)
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("receive replays of %q: %w", c.pipeline, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range leased {
		r.Fill(into[i])
		c.out[r.Seq] = r.Position()
	}
	return len(leased), wait, nil
}

// Settle implements tidemill.Source: one lookup, and one statement for each kind of end.
func (c *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), rules.CheckSettle(ends)); err != nil || len(ends) == 0 {
		return err
	}
	took := make([]tidemill.Outcome, len(ends))
	var ended []tidemill.Mark
	again := false
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		bySeq, byID, err := c.lookup(tx, ends)
		if err != nil {
			return err
		}
		now := c.s.o.Now()
		var change books
		var gone []any
		var died, back []*deadletter.Record
		for i := range tidemill.ByIDFirst(ends) {
			e := &ends[i]
			if took[i] = e.Outcome; took[i] != tidemill.Unanswered {
				continue
			}
			r := bySeq[int64(e.Mark.Lo)]
			if (e.Mark == tidemill.Mark{}) {
				r = holding(byID[e.ID])
			}
			if r == nil || r.Pipeline != c.pipeline || !r.Holds(e.Mark) {
				took[i] = tidemill.Stale
				continue
			}
			took[i] = tidemill.Applied
			ended = append(ended, r.Position())
			switch {
			case r.Settle(e, now):
				r.State = "" // it has no holder any more
				gone = append(gone, r.Seq)
				row := rules.Ended(e)
				change.replayed += int64(row.Delivered)
				change.skipped += int64(row.Skipped)
			case r.State == deadletter.Held:
				died = append(died, r)
			case e.End == tidemill.Again:
				back = append(back, r)
				again = true
			}
		}
		if err := rewrite(tx, died, false); err != nil {
			return err
		}
		args := make([]any, 0, 4*len(back))
		for _, r := range back {
			if r.State == deadletter.Replaying { // a later settlement of the batch may have ended it
				args = append(args, r.Seq, wire.MillisUp(r.Due), wire.MillisUp(r.Until), r.Burnt)
			}
		}
		if _, err := tx.Bulk("UPDATE deadletter SET due=v.column2, until=v.column3, burnt=v.column4 FROM (VALUES ", "(?,?,?,?)", ") AS v WHERE seq=v.column1", args); err != nil {
			return fmt.Errorf("give letters back: %w", err)
		}
		if _, err := tx.Bulk("DELETE FROM deadletter WHERE seq IN (VALUES ", "(?)", ")", gone); err != nil {
			return fmt.Errorf("end letters: %w", err)
		}
		return change.add(tx, c.pipeline)
	})
	if err != nil {
		return fmt.Errorf("settle %d replays of %q: %w", len(ends), c.pipeline, err)
	}
	for i := range ends {
		ends[i].Outcome = took[i]
	}
	for i := range ends {
		ended = append(ended, ends[i].Mark) // the stale ones too
	}
	c.forget(ended)
	if again {
		c.s.bell.Ring()
	}
	return nil
}

// lookup finds the dead letters of the settlements: by position, and by ID where they have
// none.
func (c *source) lookup(tx *sqlitedb.Tx, ends []tidemill.Settlement) (bySeq map[int64]*deadletter.Record, byID map[string][]*deadletter.Record, err error) {
	bySeq, byID = make(map[int64]*deadletter.Record, len(ends)), map[string][]*deadletter.Record{}
	var seqs, ids [][]any
	for i := range ends {
		if e := &ends[i]; e.Mark == (tidemill.Mark{}) {
			ids = append(ids, []any{[]byte(e.ID)})
		} else {
			seqs = append(seqs, []any{int64(e.Mark.Lo)})
		}
	}
	keep := func(rows *sql.Rows) error {
		r, err := scan(rows, false)
		if err == nil && bySeq[r.Seq] == nil {
			bySeq[r.Seq] = r
		}
		return err
	}
	if err = in(tx, "SELECT "+columns+" FROM deadletter d WHERE seq IN (", "?", ")", nil, seqs, keep); err != nil {
		return nil, nil, fmt.Errorf("look up letters: %w", err)
	}
	err = in(tx, "SELECT "+columns+" FROM deadletter d WHERE pipeline=? AND id IN (", "?", ")", []any{[]byte(c.pipeline)}, ids, func(rows *sql.Rows) error {
		return keep(rows)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("look up letters by id: %w", err)
	}
	if len(ids) > 0 {
		for _, r := range bySeq {
			byID[r.ID] = append(byID[r.ID], r)
		}
	}
	return bySeq, byID, nil
}

// holding is the oldest of these dead letters that is handed out.
func holding(rs []*deadletter.Record) (oldest *deadletter.Record) {
	for _, r := range rs {
		if r.Holds(tidemill.Mark{}) && (oldest == nil || r.Seq < oldest.Seq) {
			oldest = r
		}
	}
	return oldest
}

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	c.mu.Lock()
	out := slices.Collect(maps.Values(c.out))
	c.mu.Unlock()
	if len(out) == 0 {
		return ctx.Err()
	}
	until := wire.MillisUp(c.s.o.Now().Add(c.s.o.Lease))
	args, held := make([]any, 0, 4*len(out)), make([][]any, 0, len(out))
	for _, m := range out {
		args = append(args, int64(m.Lo), m.Epoch, m.Hi, until)
		held = append(held, []any{int64(m.Lo), int64(m.Epoch), int64(m.Hi)})
	}
	lost := map[tidemill.Mark]bool{}
	err := c.s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		n, err := tx.Bulk("UPDATE deadletter SET until=v.column4 FROM (VALUES ", "(?,?,?,?)",
			") AS v WHERE seq=v.column1 AND epoch=v.column2 AND asked=v.column3 AND state=1", args)
		if err != nil || n == int64(len(out)) {
			return err
		}
		for _, m := range out {
			lost[m] = true
		}
		return in(tx, "SELECT seq, epoch, asked FROM deadletter WHERE state=1 AND (seq, epoch, asked) IN (VALUES ", "(?,?,?)", ")", nil, held, func(rows *sql.Rows) error {
			var seq, epoch, asked int64
			err := rows.Scan(&seq, &epoch, &asked)
			delete(lost, tidemill.Mark{Epoch: uint32(epoch), Hi: uint64(asked), Lo: uint64(seq)})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("keep %d replays of %q: %w", len(out), c.pipeline, err)
	}
	c.forget(slices.Collect(maps.Keys(lost)))
	return nil
}

// forget stops keeping these hand-outs. A dead letter that was handed out anew meanwhile is
// kept: its mark is another.
func (c *source) forget(marks []tidemill.Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range marks {
		if c.out[int64(m.Lo)] == m {
			delete(c.out, int64(m.Lo))
		}
	}
}
