// Package bell lets sources wait until something may have come. Use it in a store that only
// this process changes: each change rings the bell.
package bell

import (
	"context"
	"sync"
	"time"
)

// Idle is how long to wait if nothing becomes due by itself: a ring ends it.
const Idle = 24 * time.Hour

// Bell wakes its waiters. The zero value is ready.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed and replaced by each ring; nil: no waiter since
}

// Ring makes all waiters look again.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

func (b *Bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

// Receive calls take until it takes something or ctx ends, whose error Receive then returns.
// take returns how much it took, and if nothing, how long to wait at most; a ring calls it
// again before that.
func (b *Bell) Receive(ctx context.Context, take func() (n int, wait time.Duration, err error)) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rung := b.next() // before looking, so as not to miss a ring meanwhile
		n, wait, err := take()
		if n > 0 || err != nil {
			return n, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-rung:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
