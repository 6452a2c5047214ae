package tabledeadletter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
	"github.com/tidemill/tidemill/state/internal/leases"
	"github.com/tidemill/tidemill/state/table"
)

// settling is a Settle in its transaction.
type settling struct {
	ends  []tidemill.Settlement
	keys  [][]string // of the dead letters that each end may be of
	found map[string]*Record
	books accounts

	took  []tidemill.Outcome
	ended []tidemill.Mark
	gone  []*Record
	died  []*Record
	back  []*Record
}

// Settle implements tidemill.Source: a few statements for many ends.
func (c *source[Raw]) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := cmp.Or(ctx.Err(), leases.Check(ends)); err != nil || len(ends) == 0 {
		return err
	}
	var s *settling
	if err := c.s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		s = &settling{ends: ends, keys: c.handed(ends), took: make([]tidemill.Outcome, len(ends))}
		if err := s.read(tx, c.pipeline); err != nil {
			return err
		}
		s.settle(c.s.o.Now(), s.books[c.pipeline])
		return s.write(tx)
	}); err != nil {
		return fmt.Errorf("settle %d replays of %q: %w", len(ends), c.pipeline, err)
	}
	for i := range ends {
		ends[i].Outcome = s.took[i]
		s.ended = append(s.ended, ends[i].Mark) // the stale ones too
	}
	c.out.Forget(s.ended...)
	if len(s.back) > 0 {
		c.s.bell.Ring()
	}
	return nil
}

// handed are the keys of what this source has handed out.
func (c *source[Raw]) handed(ends []tidemill.Settlement) [][]string {
	keys := make([][]string, len(ends))
	for i := range ends {
		if key, ok := c.out.Key(ends[i].Mark); ok {
			keys[i] = []string{key}
		}
	}
	return keys
}

// read finds the dead letters, those of no known key by their position, or by ID where they have
// none, and the books.
func (s *settling) read(tx table.Tx[Record], pipeline string) error {
	fields := []string{"pipeline", "state", "seq", "asked", "handed", "burnt", "epoch", "due", "until", "tenant", "apart", "grouped", "owned"}
	var keys []string
	for i := range s.ends {
		e := &s.ends[i]
		if e.Outcome == tidemill.Unanswered && s.keys[i] == nil {
			q := table.Query[Record]{Where: beginning(prefix(pipeline, e.ID)), Most: tenants, Only: []string{"seq"}}
			if (e.Mark != tidemill.Mark{}) {
				q = numbered(pipeline, replaying, e.Mark.Lo)
			}
			if err := table.Each(tx, q, func(r *Record) bool { s.keys[i] = append(s.keys[i], r.key); return true }); err != nil {
				return err
			}
		}
		if keys = append(keys, s.keys[i]...); e.Fate == tidemill.Dead {
			fields = append(fields, death...)
		}
	}
	var err error
	s.found, s.books, err = read(tx, []string{pipeline}, keys, fields...)
	return err
}

// of is the dead letter of an end: the oldest that is handed out.
func (s *settling) of(i int) (oldest *Record) {
	for _, key := range s.keys[i] {
		if r := s.found[key]; r != nil && r.Holds(s.ends[i].Mark) && (oldest == nil || r.Seq < oldest.Seq) {
			oldest = r
		}
	}
	return oldest
}

func (s *settling) settle(now time.Time, b *books) {
	for i := range tidemill.ByIDFirst(s.ends) {
		e := &s.ends[i]
		if s.took[i] = e.Outcome; s.took[i] != tidemill.Unanswered {
			continue
		}
		r := s.of(i)
		if r == nil {
			s.took[i] = tidemill.Stale
			continue
		}
		s.took[i] = tidemill.Applied
		s.ended = append(s.ended, r.Position())
		switch {
		case r.Settle(e, now):
			r.State = "" // it has no holder any more
			s.gone = append(s.gone, r)
			row := rules.Ended(e)
			b.replayed += row.Delivered
			b.skipped += row.Skipped
		case r.State == deadletter.Held:
			s.died = append(s.died, r)
		case e.End == tidemill.Again:
			s.back = append(s.back, r)
		}
	}
}

func (s *settling) write(tx table.Tx[Record]) error {
	groups := newGrouping()
	for _, r := range s.gone {
		groups.leave(r)
	}
	for _, r := range s.died {
		groups.leave(r)
		groups.join(r)
	}
	if err := groups.write(tx, s.books); err != nil {
		return err
	}
	for _, r := range slices.Concat(s.died, s.back) {
		r.seal()
	}
	if err := tx.Put(s.died, death...); err != nil {
		return err
	}
	if err := tx.Put(s.back, "due", "until", "burnt"); err != nil || len(s.gone)+len(s.died) == 0 {
		return err
	}
	if err := remove(tx, s.gone); err != nil {
		return err
	}
	return tx.Put(s.books.rows(), counts...)
}
