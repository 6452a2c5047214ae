// Package bell lets sources wait until something may have come. Use it in a store whose
// changes are made in this process: who changes it rings.
package bell

import (
	"context"
	"sync"
	"time"
)

// Idle is how long to wait where nothing will come due by itself: a ring ends it.
const Idle = 24 * time.Hour

// Bell wakes all who wait for it. The zero value is ready.
type Bell struct {
	mu   sync.Mutex
	rung chan struct{} // closed and replaced by each ring; nil: nobody has waited since
}

// Ring lets all who wait look again.
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

// Receive takes until there is something or ctx ends, whose error it returns then. take says
// how much it took, and if nothing, how long to wait at the most; where the bell rings it is
// asked again before that.
func (b *Bell) Receive(ctx context.Context, take func() (n int, wait time.Duration, err error)) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rung := b.next() // before looking: a ring meanwhile is not missed
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
