// Package memoryqueue keeps queues in memory: the reference of a queue's meaning, for
// simulation, for tests, and for events that may be lost with the process.
//
// Everything lasts as long as the Store: a restarted pipeline opens a new source on the
// same Store, and gets its predecessor's jobs when the leases end. It is deterministic:
// sources that wait on one queue are served in the order in which they began to wait, and
// no decision depends on the order of a map.
package memoryqueue

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Options tune a store; the zero value is ready to use.
type Options struct {
	Capacity int              // jobs that one queue may hold; 0 means 1,000,000
	Now      func() time.Time // the clock; nil means time.Now
}

// Store holds queues in memory. It is a queue.Store, and safe for concurrent use.
type Store struct {
	o Options

	mu     sync.Mutex // guards the queues; held for short work in memory only
	queues map[string]*queueState
}

var _ queue.Store = (*Store)(nil)

// New makes an empty store.
func New(o Options) *Store {
	if o.Capacity <= 0 {
		o.Capacity = 1_000_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{o: o, queues: map[string]*queueState{}}
}

// state returns the queue of that name, and creates it at the first call.
func (s *Store) state(name string) *queueState {
	q := s.queues[name]
	if q == nil {
		q = newQueueState(name, uint32(len(s.queues)+1))
		s.queues[name] = q
	}
	return q
}

// Add implements queue.Intake.
func (s *Store) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if added != nil && len(added) != len(jobs) {
		return fmt.Errorf("add %d jobs: room for %d answers", len(jobs), len(added))
	}
	for _, m := range jobs {
		if err := queue.Check(m); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	var refused error
	for i, m := range jobs {
		q := s.state(m.To)
		q.look(now)
		became := q.add(m, now, s.o.Capacity)
		if added != nil {
			added[i] = became
		} else {
			refused = cmp.Or(refused, rules.Refused(became, m.To))
		}
	}
	return refused
}

// Knows implements queue.Register.
func (s *Store) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	if err := queue.CheckKnows(ctx, names, known); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for i, n := range names {
		if known[i] = false; s.queues[n.Queue] != nil {
			q := s.queues[n.Queue]
			q.look(now)
			_, known[i] = q.names[name{n.Tenant, n.ID}]
		}
	}
	return nil
}

// Open implements queue.Store.
func (s *Store) Open(name string, o queue.Options) tidemill.Source {
	if o.Lease <= 0 {
		o.Lease = queue.Lease
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &source{store: s, queue: s.state(name), lease: o.Lease, ordered: o.Ordered}
}

// clone copies the parts of a message that the queue keeps.
func clone(m *tidemill.Message, now time.Time) tidemill.Message {
	c := tidemill.Message{
		ID: m.ID, Tenant: m.Tenant, Type: m.Type, To: m.To, Key: bytes.Clone(m.Key), Payload: bytes.Clone(m.Payload),
		Header: cloneHeader(nil, m.Header), Time: queue.Millis(m.Time), Priority: m.Priority,
	}
	if m.Time.IsZero() {
		c.Time = queue.Millis(now)
	}
	c.Header = slices.DeleteFunc(c.Header, rules.OwnHeader)
	return c
}

func cloneHeader(into, h []tidemill.Field) []tidemill.Field {
	for _, f := range h {
		into = append(into, tidemill.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
	}
	return into
}
