// Package memorywarehouse is the warehouse in memory: the reference of its meaning, for tests,
// simulation and trials. Everything is lost with the process, and only Expire removes anything.
package memorywarehouse

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Store keeps events in the order they were stored in.
type Store struct {
	mu        sync.Mutex // guards what follows; held for work in memory only
	events    []event.Event
	at        map[key]int // index in events
	overrides map[person.Ref]person.Override
	warnings  []warning
	warned    int64 // all that there ever were

	came bell.Bell // rung when events are stored
}

type key struct{ project, id uuid.UUID }

var (
	_ warehouse.Store   = (*Store)(nil)
	_ warehouse.Expirer = (*Store)(nil)
)

// New makes an empty warehouse.
func New() *Store {
	return &Store{at: map[key]int{}, overrides: map[person.Ref]person.Override{}}
}

// Insert implements warehouse.Warehouse.
func (s *Store) Insert(ctx context.Context, rows []*event.Event, took []warehouse.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(took) != len(rows) {
		return fmt.Errorf("insert %d events: there is room for %d answers; took must be as long as rows", len(rows), len(took))
	}
	defer s.came.Ring() // after the lock is released
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range rows {
		k := key{e.Project, e.ID}
		at, ok := s.at[k]
		switch {
		case !ok:
			s.at[k] = len(s.events)
			s.events = append(s.events, row(e))
			took[i] = warehouse.Stored
		case s.events[at].Origin == e.Origin:
			took[i] = warehouse.Again
		default:
			took[i] = warehouse.Duplicate
		}
	}
	return nil
}

// row is what a table of events keeps of an event, in its own memory.
func row(e *event.Event) event.Event {
	r := *e
	r.Properties, r.UserProperties = own(e.Properties), own(e.UserProperties)
	r.Timestamp, r.IngestedAt = milli(e.Timestamp), milli(e.IngestedAt)
	r.Changes, r.Profile, r.Merge, r.Other, r.NoGeo = nil, false, 0, "", false
	return r
}

func own(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

func milli(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Override implements warehouse.Warehouse.
func (s *Store) Override(ctx context.Context, os []person.Override) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range os {
		if old, ok := s.overrides[o.Ref]; !ok || o.Version > old.Version {
			s.overrides[o.Ref] = o
		}
	}
	return nil
}

// Warn implements warehouse.Warehouse.
func (s *Store) Warn(ctx context.Context, ws []warehouse.Warning) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range ws {
		w.At = milli(w.At)
		s.warned++
		s.warnings = append(s.warnings, warning{w, warehouse.Place{At: w.At.UnixMilli(), Tie: s.warned}})
	}
	return nil
}

// Expire implements warehouse.Expirer.
func (s *Store) Expire(ctx context.Context, before time.Time) (n int64, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	had := len(s.warnings)
	s.warnings = slices.DeleteFunc(s.warnings, func(w warning) bool { return w.At.Before(before) })
	return int64(had - len(s.warnings)), false, nil
}

// BoundWarnings implements warehouse.WarningBounder.
func (s *Store) BoundWarnings(ctx context.Context, most int) (n int64, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	over := len(s.warnings) - most
	if over <= 0 {
		return 0, false, nil
	}
	slices.SortStableFunc(s.warnings, func(a, b warning) int { return a.At.Compare(b.At) })
	s.warnings = slices.Delete(s.warnings, 0, over)
	return int64(over), false, nil
}

// Events implements warehouse.Reader.
func (s *Store) Events(ctx context.Context, f warehouse.Filter) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := f.Check(); err != nil {
			yield(nil, err)
			return
		}
		n, i := 0, 0
		events := s.stored()
		if f.Newest {
			for i = len(events); i > 0 && n < f.Max; i-- {
				if e := s.resolved(events[i-1]); f.Match(&e) {
					n++
				}
			}
			n = 0
		}
		for {
			for ; i < len(events); i++ {
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				e := s.resolved(events[i])
				if !f.Match(&e) {
					continue
				}
				if n++; !yield(&e, nil) || n == f.Max && !f.Follow {
					return
				}
			}
			if !f.Follow {
				return
			}
			if _, err := s.came.Receive(ctx, func() (int, time.Duration, error) {
				events = s.stored()
				return len(events) - i, bell.Idle, nil
			}); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Find implements warehouse.Reader.
func (s *Store) Find(ctx context.Context, project, id uuid.UUID) (*event.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	at, ok := s.at[key{project, id}]
	events := s.events
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("find event %v: %w", id, warehouse.ErrUnknown)
	}
	e := s.resolved(events[at])
	return &e, nil
}

// stored are all events so far: rows never change and are never removed.
func (s *Store) stored() []event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// resolved is an event under the person that it belongs to now.
func (s *Store) resolved(e event.Event) event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.overrides[e.Ref()]; ok {
		e.Person = o.Person
	}
	return e
}

// Warnings implements warehouse.Reader.
func (s *Store) Warnings(ctx context.Context, f warehouse.WarningFilter) ([]warehouse.Warning, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from, err := f.Place()
	if err != nil {
		return nil, err
	}
	compare := func(a, b warehouse.Place) int {
		d := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Tie, b.Tie))
		if f.Oldest {
			return d
		}
		return -d
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []warning
	for _, w := range s.warnings {
		if w.Project == f.Project && compare(w.place, from) > 0 {
			found = append(found, w)
		}
	}
	slices.SortFunc(found, func(a, b warning) int { return compare(a.place, b.place) })
	var ws []warehouse.Warning
	for _, w := range found[:min(f.Most(), len(found))] {
		w.Key = w.place.Key()
		ws = append(ws, w.Warning)
	}
	return ws, nil
}

// warning is one that was kept.
type warning struct {
	warehouse.Warning
	place warehouse.Place
}

// Count implements warehouse.Reader.
func (s *Store) Count(ctx context.Context, project uuid.UUID) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if project == uuid.Nil {
		return int64(len(s.events)), nil
	}
	n := int64(0)
	for i := range s.events {
		if s.events[i].Project == project {
			n++
		}
	}
	return n, nil
}
