// Package notice is the role that tells processes which share a store that something in it has changed,
// so that they need not ask it again and again. A notice says that, and nothing else.
//
// A notice may be lost, where a process or a server ends between a change and its notice, and one may
// come though nothing changed. Who listens looks at the store after each, and from time to time without
// one.
//
// Backends: Signal in this process, redisnotice, postgresnotice; Polled where there is nothing else.
// Promises are cases of noticetest.
package notice

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Notices are the whole role.
type Notices interface {
	// Tell wakes all who listen, in all processes. It does not wait for them.
	Tell(ctx context.Context) error
	// Listen begins to listen: nothing that is told after it returns is missed.
	Listen(ctx context.Context) (Listener, error)
	// How says in words how a notice comes: by a notice of Redis.
	How() string
}

// Listener is used by one goroutine at a time.
type Listener interface {
	// Wait returns nil when something was told since Listen, or since Wait returned last, and the error
	// of ctx where that ends first. Another error says that notices may have been missed.
	Wait(ctx context.Context) error
	// Close lets go of what the listener holds.
	Close()
}

// Signal is Notices of one process. The zero value is ready to use.
type Signal struct {
	mu   sync.Mutex
	told chan struct{} // closed at the next Tell; nil: nobody listens
}

var _ Notices = (*Signal)(nil)

// Tell implements Notices.
func (s *Signal) Tell(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told != nil {
		close(s.told)
		s.told = nil
	}
	return ctx.Err()
}

// Listen implements Notices.
func (s *Signal) Listen(ctx context.Context) (Listener, error) {
	return &heard{s, s.next()}, ctx.Err()
}

// How implements Notices.
func (*Signal) How() string { return "by a signal in the process" }

func (s *Signal) next() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = make(chan struct{})
	}
	return s.told
}

// heard listens to a Signal.
type heard struct {
	s    *Signal
	told chan struct{}
}

func (h *heard) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-h.told:
		h.told = h.s.next()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*heard) Close() {}

// Polled has who listens look every so often, for nothing tells them.
type Polled struct {
	Every time.Duration // 0: a second
	Why   string        // in words, why nothing does
}

var _ Notices = Polled{}

// Tell implements Notices.
func (Polled) Tell(ctx context.Context) error { return ctx.Err() }

// Listen implements Notices.
func (p Polled) Listen(ctx context.Context) (Listener, error) { return p, ctx.Err() }

// How implements Notices.
func (p Polled) How() string { return fmt.Sprintf("by looking every %v, for %s", p.every(), p.Why) }

func (p Polled) every() time.Duration {
	if p.Every == 0 {
		return time.Second
	}
	return p.Every
}

// Wait implements Listener.
func (p Polled) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rest := time.NewTimer(p.every())
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close implements Listener.
func (Polled) Close() {}
