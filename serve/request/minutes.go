package request

import (
	"sync"
	"time"
)

// Minutes count what clients send, minute by minute. There are as many entries as names that
// were counted: of those who have a key, not of strangers. The zero value is ready to use, by
// any number of goroutines.
type Minutes struct {
	mu sync.Mutex // guards what follows
	of map[string]*minute
}

// minute is the current one of a name.
type minute struct {
	until time.Time
	count int
}

// Admit counts n under a name if its minute has room for all of them, at most most, and says
// when the minute ends. What is more than a whole minute's is let in where it is a minute's
// first.
func (m *Minutes) Admit(name string, n, most int, now time.Time) (ok bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*minute{}
	}
	t := m.of[name]
	if t == nil {
		t = &minute{}
		m.of[name] = t
	}
	if !now.Before(t.until) {
		*t = minute{until: now.Truncate(time.Minute).Add(time.Minute)}
	}
	if t.count > 0 && t.count+n > most {
		return false, t.until
	}
	t.count += n
	return true, t.until
}

// Return takes back what was admitted in the minute that ends then and came to nothing.
func (m *Minutes) Return(name string, n int, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.of[name]; t != nil && t.until.Equal(until) {
		t.count = max(t.count-n, 0)
	}
}
