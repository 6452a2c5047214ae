package gdelt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// change is what settlements change of a file.
type change struct {
	file *file
	next progress.File
	rows []uint64 // rows that end
}

// Settle implements tidemill.Source. The ends of one call are one write.
func (s *Source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		if e := &ends[i]; e.End == tidemill.Done && e.Row() == (tidemill.Count{}) {
			return tidemill.Fail(tidemill.Internal, "settle %q: an end needs a fate", e.ID)
		} else if len(e.Next) > 0 {
			return tidemill.Fail(tidemill.Internal, "settle %q: a source of files forwards nothing", e.ID)
		}
	}
	now := s.o.Now()
	return s.change(ctx, func() ([]*change, func()) {
		var all []*change
		took := make([]tidemill.Outcome, len(ends))
		for i := range ends {
			all, took[i] = s.plan(&ends[i], all, now)
		}
		return all, func() {
			for i := range ends {
				ends[i].Outcome = took[i]
			}
		}
	})
}

// change makes changes durable, and then applies them. plan makes them, with the lock held;
// done is called when they are applied.
func (s *Source) change(ctx context.Context, plan func() (all []*change, done func())) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	all, done := plan()
	s.mu.Unlock()
	if len(all) > 0 {
		next := make([]*progress.File, len(all))
		for i, c := range all {
			next[i] = &c.next
		}
		if err := s.files.Save(ctx, next); err != nil {
			return fmt.Errorf("settle rows of %d files: %w", len(all), err)
		}
	}
	s.mu.Lock()
	for _, c := range all {
		s.apply(c)
	}
	s.mu.Unlock()
	done()
	signal(s.wake)
	return nil
}

// plan notes one settlement. A row that is left or comes again is so at once; a row that ends
// is so when its change is durable.
func (s *Source) plan(e *tidemill.Settlement, all []*change, now time.Time) ([]*change, tidemill.Outcome) {
	f, row := s.held(e)
	if f == nil {
		return all, tidemill.Stale
	}
	i := slices.IndexFunc(all, func(c *change) bool { return c.file == f })
	if i >= 0 && all[i].next.Ended.Has(row) {
		return all, tidemill.Stale
	}
	if e.End != tidemill.Done {
		after := s.o.Left
		if e.End == tidemill.Again {
			after = max(e.After, time.Nanosecond)
		}
		h := f.out[row]
		if h.due.IsZero() {
			f.left++
		}
		h.due = now.Add(after)
		f.out[row] = h
		return all, tidemill.Applied
	}
	if i < 0 {
		c := &change{file: f, next: f.File}
		c.next.Ended = slices.Clone(f.Ended)
		i, all = len(all), append(all, c)
	}
	c := all[i]
	c.next.Ended.Add(row)
	c.next.Settled.Add(e.Row())
	c.rows = append(c.rows, row)
	if c.next.Pending() == 0 {
		c.next.Status = progress.Done
	}
	return all, tidemill.Applied
}

// held finds the row of a settlement. No file: no row is out under that lease.
func (s *Source) held(e *tidemill.Settlement) (*file, uint64) {
	for _, f := range s.open {
		if e.Mark != (tidemill.Mark{}) {
			if f.Number != e.Mark.Hi {
				continue
			}
			if h, ok := f.out[e.Mark.Lo]; !ok || h.epoch != e.Mark.Epoch || e.Mark.Shard != 0 {
				return nil, 0
			}
			return f, e.Mark.Lo
		}
		if len(e.ID) <= len(f.Name) || e.ID[:len(f.Name)] != f.Name {
			continue
		}
		for row, h := range f.out {
			if rowID(f.Name, h.line) == e.ID {
				return f, row
			}
		}
	}
	return nil, 0
}

// apply applies a durable change.
func (s *Source) apply(c *change) {
	f := c.file
	f.Ended, f.Settled, f.Lost, f.Status, f.Cause = c.next.Ended, c.next.Settled, c.next.Lost, c.next.Status, c.next.Cause
	for _, row := range c.rows {
		if h := f.out[row]; !h.due.IsZero() {
			f.left--
		}
		delete(f.out, row)
	}
	if f.Status != progress.Open {
		s.open = slices.DeleteFunc(s.open, func(o *file) bool { return o == f })
		s.finished = append(s.finished, f.File)
	}
}
