package request

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// RefusalsEvery is how often refused keys are logged at most.
const RefusalsEvery = time.Minute

// Refusals logs requests that are refused because nobody knows their key: the first at once,
// then one record in RefusalsEvery, with how many there were since the one before. A flood of
// them fills no disk. The key is not logged.
type Refusals struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex // guards what follows; held for work in memory only
	logged time.Time  // zero: never
	since  int        // refused after that
}

// NewRefusals makes one that logs to log, which says by its attributes what was asked for.
func NewRefusals(log *slog.Logger, now func() time.Time) *Refusals {
	return &Refusals{log: log, now: now}
}

// Refused notes a request from an address.
func (r *Refusals) Refused(from netip.Addr) {
	r.mu.Lock()
	r.since++
	n, now := r.since, r.now()
	due := r.logged.IsZero() || now.Sub(r.logged) >= RefusalsEvery
	if due {
		r.logged, r.since = now, 0
	}
	r.mu.Unlock()
	if due {
		r.log.Warn("requests were refused: nobody knows their key", "count", n, "last_from", from.String())
	}
}
