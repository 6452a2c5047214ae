package access

import (
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/recent"
)

const (
	triesFree = 10               // wrong ones in triesFor that delay nothing
	triesFor  = 15 * time.Minute // after it a wrong one counts no more, and the longest delay
	triesKept = 8192             // names and addresses that are remembered: about 1 MB
)

// tries delays those who guess. Each name and each address has its own; nobody is locked out for
// longer than triesFor.
type tries struct {
	now func() time.Time

	mu sync.Mutex // guards of and what is in it
	of recent.Cache[string, tried]
}

type tried struct {
	wrong int
	last  time.Time // when the last one was
	until time.Time // no other one before
}

func newTries(now func() time.Time) *tries {
	return &tries{now: now, of: recent.New[string, tried](triesKept)}
}

// begin counts a try as a wrong one, until forgive says that it was not. It returns how long there
// can be none yet; then nothing is counted.
func (t *tries) begin(keys ...string) time.Duration {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait time.Duration
	for _, key := range keys {
		if of, ok := t.of.Get(key); ok {
			wait = max(wait, of.until.Sub(now))
		}
	}
	if wait > 0 {
		return wait.Round(time.Second) + time.Second
	}
	for _, key := range keys {
		of, ok := t.of.Get(key)
		if !ok || now.Sub(of.last) >= triesFor {
			of = new(tried)
			t.of.Add(key, of)
		}
		of.wrong, of.last = of.wrong+1, now
		if more := of.wrong - triesFree; more >= 0 {
			of.until = now.Add(min(time.Second<<min(more, 20), triesFor))
		}
	}
	return 0
}

// forgive takes a try back that was not wrong. After a right one all wrong ones of a name are
// forgotten; those of an address, the first key, are not: it may have an account of its own.
func (t *tries) forgive(right bool, keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range keys {
		of, ok := t.of.Get(key)
		switch {
		case !ok:
		case right && i > 0:
			t.of.Remove(key)
		default:
			of.wrong, of.until = max(of.wrong-1, 0), time.Time{}
		}
	}
}
