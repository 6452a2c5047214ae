package memorywindow

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// Page implements window.Store.
func (s *Store) Page(ctx context.Context, m tidemill.Mark, from string, into []window.Record) (window.Page, error) {
	if err := ctx.Err(); err != nil {
		return window.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[m.Lo]
	if w == nil || m == (tidemill.Mark{}) || !w.Holds(m) {
		return window.Page{}, entry.Stale(m)
	}
	return w.page(from, into)
}

// page reads records; from is how many were read before.
func (w *kept) page(from string, into []window.Record) (p window.Page, err error) {
	if len(into) == 0 {
		return p, entry.NoRoom()
	}
	at := 0
	if from != "" {
		if at, err = strconv.Atoi(from); err != nil || at < 0 {
			return p, entry.BadCursor(from)
		}
	}
	for size := 0; p.N < len(into) && at < len(w.records) && size < window.PageBytes; {
		into[p.N] = w.records[at]
		into[p.N].Body = bytes.Clone(into[p.N].Body)
		size += len(into[p.N].Body)
		p.N++
		at++
	}
	if at < len(w.records) {
		p.Next = strconv.Itoa(at)
	}
	return p, nil
}

// Peek implements window.Inspector.
func (s *Store) Peek(ctx context.Context, id, from string, into []window.Record) (window.Page, error) {
	if err := ctx.Err(); err != nil {
		return window.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byID(id)
	if w == nil {
		return window.Page{}, window.NotFound(id)
	}
	return w.page(from, into)
}

// info is a window as it is shown.
func (s *Store) info(w *kept) *window.Info {
	i := w.Info
	if i.State == window.Active {
		i.Due = i.Opened.Add(s.o.Window)
	}
	return &i
}

// List implements window.Inspector.
func (s *Store) List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error] {
	return func(yield func(*window.Info, error) bool) {
		s.mu.Lock()
		var nos []uint64
		after, before := f.Between()
		for _, w := range s.all() {
			if after < w.Revision && w.Revision < before {
				nos = append(nos, w.Revision)
			}
		}
		s.mu.Unlock()
		if f.Back {
			slices.Reverse(nos)
		}
		n := 0
		for _, no := range nos {
			if f.Max > 0 && n == f.Max {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if i := s.lookup(no); i != nil && f.Matches(i) {
				if n++; !yield(i, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) lookup(no uint64) *window.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.windows[no]; w != nil {
		return s.info(w)
	}
	return nil
}

// Look implements window.Inspector.
func (s *Store) Look(ctx context.Context, id string) (*window.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.byID(id); w != nil {
		return s.info(w), nil
	}
	return nil, window.NotFound(id)
}

// CloseNow implements window.Inspector.
func (s *Store) CloseNow(ctx context.Context, batch string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.active[batch]
	if w == nil {
		return false, nil
	}
	s.close(w, s.o.Now(), window.ByHand)
	s.bell.Ring()
	return true, nil
}

// Replay implements window.Inspector.
func (s *Store) Replay(ctx context.Context, f window.Filter) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.all() {
		if f.Max > 0 && n == f.Max {
			break
		}
		if w.State != window.Parked || !f.Matches(&w.Info) {
			continue
		}
		w.Replay(0)
		s.lines[w.Batch] = append(s.lines[w.Batch], w)
		s.books.Accepted += uint64(w.Records)
		n++
	}
	if n > 0 {
		s.bell.Ring()
	}
	return n, nil
}

// Stats implements window.Inspector.
func (s *Store) Stats(ctx context.Context) (window.Stats, error) {
	if err := ctx.Err(); err != nil {
		return window.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := window.Stats{Now: entry.Instant(s.o.Now())}
	for _, w := range s.all() { // in memory that is cheap enough
		d := t.Of(w.State)
		if d.Windows++; d.Windows == 1 {
			d.Oldest = w.Opened
		}
		d.Records += w.Records
	}
	return t, nil
}
