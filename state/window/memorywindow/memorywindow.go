// Package memorywindow keeps windows in memory: for tests, simulation and data that may be
// lost at a restart. It is the reference of the role's meaning.
package memorywindow

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// Store keeps windows in memory.
type Store struct {
	o window.Options

	mu      sync.Mutex         // guards what follows, held for short work in memory only
	windows map[uint64]*kept   // by revision, which is unique here
	order   []uint64           // of those, growing; some may be gone
	active  map[string]*kept   // by batch id
	lines   map[string][]*kept // closed windows that have not ended, by batch id: the first may be handed out
	books   tidemill.Books     // Pending is counted when asked
	newest  uint64             // revision given
	bell    bell.Bell          // rings when a window may be handed out
}

// kept is a window with its records.
type kept struct {
	entry.Entry
	records []window.Record // in the order of their first arrival
	at      map[string]int  // where in records each is, by key; nil once it is closed
}

var _ window.Store = (*Store)(nil)

// New makes an empty store.
func New(o window.Options) (*Store, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{o: o, windows: map[uint64]*kept{}, active: map[string]*kept{}, lines: map[string][]*kept{}}, nil
}

// Put implements window.Intake.
func (s *Store) Put(ctx context.Context, records []window.Record, answers []window.Kept) error {
	if err := cmp.Or(ctx.Err(), entry.CheckPut(records, answers)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	var key []byte
	for i := range records {
		r := &records[i]
		w := s.active[r.Batch]
		if w == nil {
			w = s.open(r.Batch, now)
		}
		if r.Expect > 0 {
			w.Expect = int64(r.Expect)
		}
		key = entry.AppendKey(key[:0], r)
		answer := window.Overwrote
		if at, ok := w.at[string(key)]; ok {
			w.Bytes += int64(len(r.Body) - len(w.records[at].Body))
			w.records[at].Body = bytes.Clone(r.Body)
		} else {
			w.at[string(key)] = len(w.records)
			w.records = append(w.records, clone(r))
			w.Records++
			w.Bytes += int64(len(r.Body))
			s.books.Accepted++
			answer = window.New
		}
		if answers != nil {
			answers[i] = answer
		}
	}
	return nil
}

// open starts the window of a batch id.
func (s *Store) open(batch string, now time.Time) *kept {
	s.newest = entry.NextRevision(s.newest, now)
	w := &kept{Entry: *entry.Start(batch, s.newest, now), at: map[string]int{}}
	s.windows[w.Revision], s.active[w.Batch] = w, w
	s.order = append(s.order, w.Revision)
	return w
}

// clone copies a record as it is read again: the window keeps the announced number.
func clone(r *window.Record) window.Record {
	return window.Record{Batch: strings.Clone(r.Batch), Kind: strings.Clone(r.Kind), ID: strings.Clone(r.ID), Qualifier: strings.Clone(r.Qualifier), Body: bytes.Clone(r.Body)}
}

// sweepMost is how many windows one sweep closes.
const sweepMost = 1000

// Sweep implements window.Store.
func (s *Store) Sweep(ctx context.Context) (done window.Swept, err error) {
	if err := ctx.Err(); err != nil {
		return done, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	done.Next = -1
	for _, w := range s.all() {
		if w.State != window.Active {
			continue
		}
		why, over := w.Over(now, s.o.Window)
		switch {
		case !over:
			if left := w.Opened.Add(s.o.Window).Sub(now); done.Next < 0 || left < done.Next {
				done.Next = max(left, time.Millisecond)
			}
		case done.Closed == sweepMost:
			done.Next = 0
			s.bell.Ring()
			return done, nil
		default:
			s.close(w, now, why)
			done.Closed++
		}
	}
	if done.Closed > 0 {
		s.bell.Ring()
	}
	return done, nil
}

// close freezes an active window.
func (s *Store) close(w *kept, now time.Time, why window.Why) {
	w.Close(now, why, 0) // its place is that in s.lines
	w.at = nil
	delete(s.active, w.Batch)
	s.lines[w.Batch] = append(s.lines[w.Batch], w)
}

// all is all windows, oldest first.
func (s *Store) all() []*kept {
	if len(s.order) > 2*len(s.windows)+64 {
		s.order = slices.DeleteFunc(s.order, func(no uint64) bool { return s.windows[no] == nil })
	}
	ws := make([]*kept, 0, len(s.windows))
	for _, no := range s.order {
		if w := s.windows[no]; w != nil {
			ws = append(ws, w)
		}
	}
	return ws
}

// leaveLine removes a window that has ended, or is parked, from the line of its batch id.
func (s *Store) leaveLine(w *kept) {
	line := slices.DeleteFunc(s.lines[w.Batch], func(o *kept) bool { return o == w })
	if s.lines[w.Batch] = line; len(line) == 0 {
		delete(s.lines, w.Batch)
	}
}
