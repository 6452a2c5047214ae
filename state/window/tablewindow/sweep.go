package tablewindow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// What one sweep does at most, so that others do not wait long: windows closed, blobs deleted in a
// step, and steps. A window of few blobs is deleted at once.
const (
	sweepMost  = 1000
	clearBlobs = 64
	clearSteps = 100
	inline     = 8
)

// Sweep implements window.Store.
func (s *Store[Raw]) Sweep(ctx context.Context) (done window.Swept, err error) {
	var over []*Record
	if err := s.update(ctx, func(c *change) (err error) {
		over, done, err = c.sweep(s.o.Window)
		return err
	}); err != nil {
		return window.Swept{}, fmt.Errorf("sweep windows: %w", err)
	}
	s.shut(over)
	for range clearSteps {
		if more, err := s.clear(ctx); err != nil || !more {
			return done, err
		}
	}
	return done, nil
}

// shut forgets what was in memory of windows that were closed.
func (s *Store[Raw]) shut(rs []*Record) {
	if len(rs) == 0 {
		return
	}
	var keys []string
	for _, r := range rs {
		keys = append(keys, activeKey(r.Batch))
	}
	s.names.closed(keys)
	s.bell.Ring()
}

// sweep closes windows that are over.
func (c *change) sweep(lasts time.Duration) (over []*Record, done window.Swept, err error) {
	over, err = c.windows.Page(table.Query[Record]{By: "due", Most: sweepMost, Where: []table.Cond{waiting(toClose), {Field: "due", Op: "<=", Value: entry.Instant(c.now.Add(-lasts))}}})
	if err != nil {
		return nil, done, err
	}
	slices.SortFunc(over, func(a, b *Record) int { return cmp.Compare(a.Revision, b.Revision) })
	before := c.books.lost
	gone, err := c.close(over, func(r *Record) window.Why { why, _ := r.Over(c.now, lasts); return why })
	if err != nil {
		return nil, done, err
	}
	done = window.Swept{Closed: len(over) - gone, Lost: int(c.books.lost - before), Next: -1}
	if len(over) == sweepMost {
		done.Next = 0
		return over, done, nil
	}
	first, err := c.windows.Page(table.Query[Record]{By: "due", Most: 1, Where: []table.Cond{waiting(toClose)}, Only: []string{"due"}})
	if len(first) > 0 {
		done.Next = max(first[0].Due.Add(lasts).Sub(c.now), time.Millisecond)
	}
	return over, done, err
}

// close freezes active windows, and says how many ended, as they had no records.
func (c *change) close(rs []*Record, why func(*Record) window.Why) (gone int, err error) {
	there, err := c.there(rs)
	if err != nil {
		return 0, err
	}
	var closed []*Record
	var keys []string
	for _, r := range rs {
		if !there[r] {
			gone++
			if err := c.gone(r); err != nil {
				return gone, err
			}
			continue
		}
		keys = append(keys, r.key)
		c.books.count(r, -1)
		c.books.line++
		r.Close(c.now, why(r), c.books.line)
		c.books.count(r, 1)
		if err := c.join(r); err != nil {
			return gone, err
		}
		r.key = closedKey(r.Revision)
		closed = append(closed, r.seal())
	}
	if err := c.windows.Delete(keys); err != nil {
		return gone, err
	}
	return gone, c.windows.Put(closed)
}

// there fills windows, and says which have any record: in the first blob, or in another.
func (c *change) there(rs []*Record) (there map[*Record]bool, err error) {
	keys := make([]string, len(rs))
	for i, r := range rs {
		keys[i] = blobKey(r.fill().Revision, 1)
	}
	found, err := c.blobs.Get(keys, "key")
	there = map[*Record]bool{}
	for i, r := range rs {
		if err != nil {
			return nil, err
		}
		if there[r] = found[keys[i]] != nil; !there[r] {
			var any []*Blob
			any, err = c.blobs.Page(table.Query[Blob]{Where: of(r.Revision, 1), Most: 1, Only: []string{"key"}})
			there[r] = len(any) > 0
		}
	}
	return there, err
}

// gone books a window without records as dead.
func (c *change) gone(r *Record) error {
	c.books.count(r, -1)
	c.books.row.Dead += uint64(r.Records)
	c.books.lost += uint64(r.Records - r.Lost)
	r.State, r.blobs = settled, 0
	if err := c.next(r, r.Line); err != nil {
		return err
	}
	return c.remove([]*Record{r.seal()})
}

// join puts a window at the end of the line of its batch id: it is its turn if none is before it.
func (c *change) join(r *Record) error {
	r.of = digest(r.Batch)
	before, err := c.windows.Page(table.Query[Record]{By: "line", Where: []table.Cond{{Field: "line_of", Op: "=", Value: r.of}, {Field: "line", Op: "<", Value: r.Line}}, Most: 1, Only: []string{"line"}})
	if r.waits = ""; len(before) == 0 {
		r.waits = toGo
	}
	return err
}

// next takes a window out of its line. If it was its turn, it is that of the next one.
func (c *change) next(r *Record, line uint64) error {
	was := r.waits
	first := table.Query[Record]{By: "line", Where: []table.Cond{{Field: "line_of", Op: "=", Value: r.of}, {Field: "line", Op: ">", Value: line}}, Most: 1, Only: []string{"line"}}
	if r.of, r.waits = "", ""; was != toGo {
		return nil
	}
	next, err := c.windows.Page(first)
	if err != nil {
		return err
	}
	for _, r := range next {
		r.waits = toGo
	}
	return c.windows.Put(next, "waits")
}

// remove deletes windows that have ended, or leaves their blobs to a sweep where they are many.
func (c *change) remove(rs []*Record) error {
	var keys, blobs []string
	var left []*Record
	for _, r := range rs {
		if r.blobs > inline {
			left = append(left, r)
			continue
		}
		keys = append(keys, r.key)
		for no := uint64(1); no <= r.blobs; no++ {
			blobs = append(blobs, blobKey(r.Revision, no))
		}
	}
	return cmp.Or(c.windows.Put(left, changed...), c.windows.Delete(keys), c.blobs.Delete(blobs))
}

// clear deletes some blobs of a window that has ended, and says whether more may be left.
func (s *Store[Raw]) clear(ctx context.Context) (more bool, err error) {
	err = s.update(ctx, func(c *change) error {
		found, err := c.windows.Page(table.Query[Record]{By: "state", Where: in(settled), Most: 1, Only: []string{"revision"}})
		if more = len(found) > 0; err != nil || !more {
			return err
		}
		r := found[0]
		rows, err := c.blobs.Page(table.Query[Blob]{Where: of(r.Revision, 1), Most: clearBlobs, Only: []string{"key"}})
		if err != nil {
			return err
		}
		var keys []string
		for _, b := range rows {
			keys = append(keys, b.key)
		}
		if err := c.blobs.Delete(keys); err != nil || len(keys) == clearBlobs {
			return err
		}
		return c.windows.Delete([]string{r.key})
	})
	if err != nil {
		return false, fmt.Errorf("clear settled windows away: %w", err)
	}
	return more, nil
}
