package system

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/sleep"
)

// How often stores forget what is old, and how long the loop rests after a slice: so many times as
// long as that took, so that it takes a quarter of the time at most.
const (
	retainEvery = 10 * time.Minute
	retainRest  = 3
)

// A Slice forgets some of what a store has to forget, and says how much, and whether there is more. It
// holds up the store's writer for 50 ms at most.
type Slice func(ctx context.Context) (n int64, more bool, err error)

// retained is a store that forgets.
type retained struct {
	store string
	slice Slice

	mu   sync.Mutex // guards the rest
	sum  int64      // forgotten since the start
	last time.Time  // when something was; zero: never
	took time.Duration
	err  error // of the last time
}

// Retain has a store forget what is old, every ten minutes, in one loop with all others.
func (h *Host) Retain(store string, s Slice) {
	h.retained = append(h.retained, &retained{store: store, slice: s})
}

// Retention is the loop of all stores that forget; none: there are no such.
func (h *Host) Retention() []flow.Loop {
	if len(h.retained) == 0 {
		return nil
	}
	for _, r := range h.retained {
		h.Metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "tidemill_retention_removed_total", ConstLabels: prometheus.Labels{"store": r.store},
			Help: "What was removed because of its age, or for its size."}, func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return float64(r.sum)
		}))
	}
	return []flow.Loop{{Name: "retention", Every: retainEvery, AtStart: true, Do: h.forget}}
}

// forget has each store forget, one after the other. One that fails keeps none of the others from it.
func (h *Host) forget(ctx context.Context) (failed error) {
	for _, r := range h.retained {
		n, took, err := r.forget(ctx, h.Now)
		if n > 0 {
			// Logged when something of a store was removed, because of its age or to make room.
			h.Log.InfoContext(ctx, "what was old was removed", "store", r.store, "count", n, "took", took)
		}
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", r.store, err)
		}
	}
	return failed
}

// forget forgets all that is old, and says how much, and how long the store worked on it.
func (r *retained) forget(ctx context.Context, now func() time.Time) (sum int64, worked time.Duration, err error) {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return sum, worked, err
		}
		begun := time.Now()
		var n int64
		n, more, err = r.slice(ctx)
		took := time.Since(begun)
		sum, worked = sum+n, worked+took
		r.mu.Lock()
		r.sum += n
		if r.err = err; n > 0 {
			r.last, r.took = now(), r.took+took
		}
		r.mu.Unlock()
		if err != nil {
			return sum, worked, err
		}
		if more {
			_ = sleep.For(ctx, retainRest*took) // so that others have the store meanwhile
		}
	}
	return sum, worked, nil
}

// Retained says what was forgotten since the start.
func (h *Host) Retained() (all []preflight.Finding) {
	for _, r := range h.retained {
		r.mu.Lock()
		name := "retention: " + r.store
		switch {
		case r.err != nil:
			all = append(all, Finding(name, preflight.Warn, r.err.Error(), "old ones stay until it is mended; it is tried again every ten minutes"))
		case r.last.IsZero():
			all = append(all, Finding(name, preflight.OK, "nothing was old since the start", ""))
		default:
			all = append(all, Finding(name, preflight.OK, fmt.Sprintf("%d removed since the start, the last at %s, in %v of work", r.sum, r.last.UTC().Format(time.RFC3339), r.took.Round(time.Millisecond)), ""))
		}
		r.mu.Unlock()
	}
	return all
}
