package tablewindow

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// How many windows are read at once, each page at one moment: whole ones, and to count them.
const (
	listPage = 100
	pageMax  = 1000
)

// info is a window as it is shown.
func (s *Store[Raw]) info(r *Record) *window.Info {
	if r.fill(); r.State == window.Active {
		r.Due = r.Opened.Add(s.o.Window)
	}
	return &r.Info
}

// List implements window.Inspector.
func (s *Store[Raw]) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	return func(yield func(*window.Info, error) bool) {
		n, decided := 0, f.Batch == "" && len(f.IDs) == 0
		for after, before := f.Between(); ; {
			var rs []*Record
			most := listPage
			if f.Max > 0 && decided { // all that is read is shown
				most = min(f.Max-n, listPage)
			}
			if err := s.windows.View(ctx, func(tx table.Reader[Record]) (err error) {
				rs, err = page(tx, f, after, before, most)
				return err
			}); err != nil {
				yield(nil, fmt.Errorf("list windows: %w", err))
				return
			}
			for _, r := range rs {
				if after = r.Revision; f.Back {
					after, before = 0, r.Revision
				}
				if i := s.info(r); f.Matches(i) {
					if n++; !yield(i, nil) || n == f.Max {
						return
					}
				}
			}
			if len(rs) < most {
				return
			}
		}
	}
}

// page reads windows between two revisions, of the filter's state if it has one.
func page(tx table.Reader[Record], f window.Filter, after, before uint64, most int) ([]*Record, error) {
	q := table.Query[Record]{By: "revision", Back: f.Back, Most: most, Where: []table.Cond{{Field: "state", Op: "<", Value: string(settled)}}}
	if f.State != "" {
		q.By, q.Where = "state", in(f.State)
	}
	if after >= math.MaxInt64 || f.State == settled {
		return nil, nil
	}
	q.Where = append(q.Where, table.Cond{Field: "revision", Op: ">", Value: after}, table.Cond{Field: "revision", Op: "<", Value: min(before, math.MaxInt64)})
	return tx.Page(q)
}

// look reads a window.
func (s *Store[Raw]) look(ctx context.Context, id string) (r *Record, err error) {
	err = s.windows.View(ctx, func(tx table.Reader[Record]) error {
		if r, err = find(tx, id); err == nil && r == nil {
			err = window.NotFound(id)
		}
		return err
	})
	return r, err
}

// Look implements window.Inspector.
func (s *Store[Raw]) Look(ctx context.Context, id string) (*window.Info, error) {
	r, err := s.look(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.info(r), nil
}

// CloseNow implements window.Inspector.
func (s *Store[Raw]) CloseNow(ctx context.Context, batch string) (ok bool, err error) {
	var closed []*Record
	err = s.update(ctx, func(c *change) error {
		ok, closed = false, nil
		key := activeKey(batch)
		found, err := c.windows.Get([]string{key})
		if err != nil || found[key] == nil {
			return err
		}
		closed = []*Record{found[key]}
		gone, err := c.close(closed, func(*Record) window.Why { return window.ByHand })
		ok = gone == 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("close the window of batch %q: %w", batch, err)
	}
	s.shut(closed)
	return ok, nil
}

// Replay implements window.Inspector: in steps, so that others do not wait long.
func (s *Store[Raw]) Replay(ctx context.Context, f window.Filter) (total int, err error) {
	if f.State != "" && f.State != window.Parked {
		return 0, ctx.Err()
	}
	f.State = window.Parked
	for after, more := uint64(0), true; more; {
		n, last := 0, after
		err := s.update(ctx, func(c *change) error {
			n, last = 0, after
			rs, err := page(c.windows, f, after, math.MaxUint64, listPage)
			for _, r := range rs {
				if err != nil || f.Max > 0 && total+n == f.Max {
					break
				}
				if last = r.Revision; f.Matches(&r.fill().Info) {
					n++
					err = c.replay(r)
				}
			}
			more = len(rs) == listPage && (f.Max == 0 || total+n < f.Max)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("replay windows: %w", err)
		}
		after = last
		if total += n; n > 0 {
			s.bell.Ring()
		}
	}
	return total, nil
}

// replay makes one parked window ready again, or deletes it if nothing is left of it.
func (c *change) replay(r *Record) error {
	c.books.count(r, -1)
	c.books.line++
	if r.Replay(c.books.line); r.Records <= 0 {
		r.State = settled
		return c.remove([]*Record{r.seal()})
	}
	c.books.accepted += uint64(r.Records)
	c.books.count(r, 1)
	if err := c.join(r); err != nil {
		return err
	}
	return c.windows.Put([]*Record{r.seal()}, changed...)
}

// Stats implements window.Inspector: from what was counted at every change.
func (s *Store[Raw]) Stats(ctx context.Context) (t window.Stats, err error) {
	t.Now = entry.Instant(s.o.Now())
	err = s.windows.View(ctx, func(tx table.Reader[Record]) error {
		found, err := tx.Get([]string{booksKey}, "books")
		if err != nil {
			return err
		}
		b, err := booksOf(found)
		t.Lost = b.lost
		for i, state := range window.States() {
			if err != nil {
				return err
			}
			d := t.Of(state)
			d.Windows, d.Records = int64(b.windows[i]), int64(b.records[i])
			var first []*Record
			if first, err = tx.Page(table.Query[Record]{By: "state", Where: in(state), Most: 1, Only: []string{"opened"}}); len(first) > 0 {
				d.Oldest = first[0].Opened
			}
		}
		return err
	})
	if err != nil {
		return window.Stats{}, fmt.Errorf("read the stats of windows: %w", err)
	}
	return t, nil
}
