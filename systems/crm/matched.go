package crm

import (
	"sync"
	"time"
)

// The rate of matched events is over the last five minutes, in slices of half a minute.
const (
	slices5m = 10
	slice    = 30 * time.Second
)

// matched counts events by whether their profile existed.
type matched struct {
	now func() time.Time

	mu     sync.Mutex // guards slices; held for short work in memory only
	slices [slices5m]met
}

// met are the events of one slice.
type met struct {
	number  int64 // of the slice, since 1970
	yes, no int
}

func (m *matched) count(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.now().UnixNano() / int64(slice)
	c := &m.slices[n%slices5m]
	if c.number != n {
		*c = met{number: n}
	}
	if yes {
		c.yes++
	} else {
		c.no++
	}
}

// Matched is the percentage, 0 to 100, of this instance's events of the last five minutes whose
// profile existed already, each at its first try; false: there were no events.
func (s *System) Matched() (percent float64, ok bool) {
	m := &s.matched
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := m.now().UnixNano()/int64(slice) - slices5m
	yes, all := 0, 0
	for _, c := range m.slices {
		if c.number > oldest {
			yes, all = yes+c.yes, all+c.yes+c.no
		}
	}
	if all == 0 {
		return 0, false
	}
	return 100 * float64(yes) / float64(all), true
}
