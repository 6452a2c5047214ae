// Package seldom says when to log what strangers can cause at any rate: the first time at once, then
// once in a while with the count since then. A flood does not fill the disk.
package seldom

import (
	"sync"
	"time"
)

// Every is the shortest time between two records.
const Every = time.Minute

// Counter counts occurrences, one of which is logged in Every. It is safe for concurrent use.
type Counter struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows; held for work in memory only
	last  time.Time  // zero: never
	since int        // occurrences after that
}

// New makes one.
func New(now func() time.Time) *Counter { return &Counter{now: now} }

// Note counts an occurrence. If due, it is to be logged, with the count of those since the last one
// that was; else count is 0.
func (c *Counter) Note() (count int, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since++
	now := c.now()
	if !c.last.IsZero() && now.Sub(c.last) < Every {
		return 0, false
	}
	count, c.last, c.since = c.since, now, 0
	return count, true
}
