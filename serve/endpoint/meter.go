package endpoint

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A Meter counts what is let in, by name, in windows of time that begin at multiples of
// their length (days at midnight, UTC). Its errors never keep anything out: what cannot be
// counted now is let in.
type Meter interface {
	// Admit counts n under a name if the current window has room for all of them, and says
	// how the window stands then.
	Admit(ctx context.Context, name string, n int, l Limit) (Standing, error)
	// Return takes back what was admitted and came to nothing.
	Return(ctx context.Context, name string, n int, l Limit, s Standing) error
}

// Limit is how many of something may come in a window.
type Limit struct {
	Count int
	Per   time.Duration
}

// Standing is how a window stands.
type Standing struct {
	Admitted bool
	Left     int       // that may still come in it
	Reset    time.Time // when the next one begins
}

// maxMetered is how many names a memoryMeter counts in windows of one length: some 15 MB.
// Those that were silent the longest are forgotten first.
const maxMetered = 100_000

// memoryMeter is the Meter of one process.
type memoryMeter struct {
	now func() time.Time

	mu sync.Mutex // guards what follows
	of map[time.Duration]*lru.Cache[string, *counting]
}

type counting struct {
	reset time.Time
	count int
}

// NewMeter makes the Meter of one process.
func NewMeter(now func() time.Time) Meter {
	return &memoryMeter{now: now}
}

// window is a name's current one; the lock is held.
func (m *memoryMeter) window(name string, per time.Duration) *counting {
	c := m.of[per]
	if c == nil {
		if m.of == nil {
			m.of = map[time.Duration]*lru.Cache[string, *counting]{}
		}
		c, _ = lru.New[string, *counting](maxMetered) // fails for a size that is none
		m.of[per] = c
	}
	now := m.now().UTC()
	w, ok := c.Get(name)
	if !ok {
		w = &counting{}
		c.Add(name, w)
	}
	if !now.Before(w.reset) {
		*w = counting{reset: now.Truncate(per).Add(per)}
	}
	return w
}

func (m *memoryMeter) Admit(_ context.Context, name string, n int, l Limit) (Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.window(name, l.Per)
	ok := w.count+n <= l.Count
	if ok {
		w.count += n
	}
	return Standing{ok, max(l.Count-w.count, 0), w.reset}, nil
}

func (m *memoryMeter) Return(_ context.Context, name string, n int, l Limit, s Standing) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.window(name, l.Per); w.reset.Equal(s.Reset) {
		w.count = max(w.count-n, 0)
	}
	return nil
}
