package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Number reads the number of an event: the value of the last field of its JSON.
func Number(raw []byte) (int, error) {
	i := bytes.LastIndexByte(raw, ':')
	if i < 0 || raw[len(raw)-1] != '}' {
		return 0, fmt.Errorf("no number in %q", raw)
	}
	return strconv.Atoi(string(raw[i+1 : len(raw)-1]))
}

// Seen counts events by their numbers.
type Seen struct {
	once  []atomic.Bool
	n     atomic.Int64
	twice atomic.Int64
	all   chan struct{} // closed when each was seen
}

// NewSeen counts events with the numbers below n.
func NewSeen(n int) *Seen { return &Seen{once: make([]atomic.Bool, n), all: make(chan struct{})} }

// One counts an event, and returns its number. One with another number is an error.
func (s *Seen) One(raw []byte) (int, error) {
	i, err := Number(raw)
	if err != nil || i >= len(s.once) {
		return 0, errors.Join(err, fmt.Errorf("an event that nobody added: %q", raw))
	}
	if s.once[i].Swap(true) {
		s.twice.Add(1)
	} else if s.n.Add(1) == int64(len(s.once)) {
		close(s.all)
	}
	return i, nil
}

// N is how many events were seen, each counted once.
func (s *Seen) N() int { return int(s.n.Load()) }

// Of is how many there are.
func (s *Seen) Of() int { return len(s.once) }

// Twice is how many were seen more often than once.
func (s *Seen) Twice() int { return int(s.twice.Load()) }

// Wait waits until each was seen.
func (s *Seen) Wait(ctx context.Context) error {
	if err := Within(ctx, s.all, nil, "handle events"); err != nil {
		return fmt.Errorf("%d events of %d: %w", s.N(), len(s.once), err)
	}
	return nil
}

// Patience is how long any measurement may take.
const Patience = 2 * time.Minute

// Within waits until a channel is closed, for Patience at most. What ends before it, by a value in
// ended, is an error.
func Within(ctx context.Context, done <-chan struct{}, ended <-chan error, what string) error {
	select {
	case <-done:
		return nil
	case err := <-ended:
		return fmt.Errorf("%s: it ended before all was done: %w", what, err)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(Patience):
		return fmt.Errorf("%s: not all of it was done in %v", what, Patience)
	}
}

// Each does something with each of all, by so many callers at once, until one fails.
func Each[T any](callers int, all []T, do func(T) error) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		wait.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				errs[c] = do(all[i])
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// IDs counts events by their ids, each once.
type IDs struct {
	mu  sync.Mutex
	all map[uuid.UUID]struct{}
}

// Add counts an event by the UUID that a field of its JSON has, and says whether there is one.
func (s *IDs) Add(raw []byte, field string) bool {
	_, rest, _ := bytes.Cut(raw, []byte(`"`+field+`":"`))
	id, err := uuid.ParseBytes(rest[:min(len(rest), 36)])
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[uuid.UUID]struct{}{}
	}
	s.all[id] = struct{}{}
	return true
}

// Len is how many events were counted.
func (s *IDs) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
