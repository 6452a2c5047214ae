package analytics

import (
	"context"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/lock"
)

// A Circuit shares between instances that replays fail, so that no instance goes on after
// another has found the destination down. Each instance also has its own breaker.
type Circuit interface {
	// IsOpen reports whether replays have to wait.
	IsOpen(ctx context.Context) (bool, error)
	// Trip opens it for d. If it is open it stays unchanged.
	Trip(ctx context.Context, d time.Duration) error
	// Failed counts replays that failed here; they may open the circuit.
	Failed(ctx context.Context, n int) error
	// Succeeded closes it and forgets failures: a replay has worked here.
	Succeeded(ctx context.Context) error
}

// lockCircuit is a Circuit made of a lock, which is held while the circuit is open, and
// expires. It counts nothing: the breaker that trips it has counted.
type lockCircuit struct{ locks lock.Locks }

const circuitLock = "dlq:replay:circuit"

func (c lockCircuit) IsOpen(ctx context.Context) (bool, error) {
	held, free, err := c.locks.Acquire(ctx, circuitLock, time.Minute)
	if err != nil || !free {
		return err == nil, err
	}
	return false, c.locks.Release(context.WithoutCancel(ctx), held)
}

func (c lockCircuit) Trip(ctx context.Context, d time.Duration) error {
	_, _, err := c.locks.Acquire(ctx, circuitLock, d)
	return err
}

func (lockCircuit) Failed(context.Context, int) error { return nil }

func (lockCircuit) Succeeded(context.Context) error { return nil }

// results are the results of replays that were not shared yet.
type results struct {
	mu     sync.Mutex // guards all below
	failed int        // since the last success
	worked bool
}

// settled counts a replayed batch: as failed, if the destination caused the failure of one of
// its dead letters; as worked, if none failed and one was delivered.
func (r *results) settled(ends []tidemill.Settlement) {
	failed, worked := false, false
	for i := range ends {
		e := &ends[i]
		switch {
		case e.Outcome != tidemill.Applied:
		case e.End == tidemill.Done && e.Fate == tidemill.Delivered:
			worked = true
		case (e.End == tidemill.Done && e.Fate == tidemill.Dead || e.End == tidemill.Again && e.CountTry) && policy.Table(nil).For(e.Kind).Blames:
			failed = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case failed:
		r.failed++
	case worked:
		r.failed, r.worked = 0, true
	}
}

// take returns the results to share, once.
func (r *results) take() (failed int, worked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed, worked = r.failed, r.worked
	r.failed, r.worked = 0, false
	return failed, worked
}

// shareCircuit tells the other instances how replays go here.
func (s *System) shareCircuit(ctx context.Context) error {
	failed, worked := s.replays.take()
	if worked {
		if err := s.parts.Circuit.Succeeded(ctx); err != nil {
			return err
		}
	}
	if failed > 0 {
		if err := s.parts.Circuit.Failed(ctx, failed); err != nil {
			return err
		}
	}
	st := s.Replayer.Stats()
	if left := st.Until.Sub(s.options.Now()); st.Breaker == policy.Open && left > 0 {
		return s.parts.Circuit.Trip(ctx, left)
	}
	return nil
}
