package bridge

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
)

// ManyTimes is how often an entry has to be published without an answer to be among the
// Unanswered.
const ManyTimes = 3

// Unanswered are entries that this process published ManyTimes or more, counting redeliveries
// without an answer by any instance, and that no ack has ended since.
type Unanswered struct {
	Entries int    // how many; beyond 10,000 the rest is not known
	Times   int    // how often the most published one was published
	ID      string // the id of that one
}

// unanswered remembers them. It forgets an entry when an end of it is applied here, or when it
// was not published here for so long that another instance must have it, or its end.
type unanswered struct {
	keep time.Duration
	n    atomic.Int64 // number of entries: messages that are answered at once need no lock
	mu   sync.Mutex   // guards of
	of   map[string]publishing
}

// publishing is how often an entry was published, and when last.
type publishing struct {
	times int
	at    time.Time
}

// maxUnanswered bounds the memory.
const maxUnanswered = 10_000

// keepUnanswered is how long an entry that is not published again is remembered: it comes again
// once its lease has ended and a worker looked for it.
func keepUnanswered(t tidemill.Traits) time.Duration { return 3*3*t.Keep + 2*time.Minute } // a lease is three times Keep

// published notes a message, with the source's counts of its hand-outs and of its failed tries.
func (u *unanswered) published(id string, handed, failed int, now time.Time) {
	times := handed - failed
	if times < ManyTimes {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.of[id]; !known && len(u.of) >= maxUnanswered {
		return
	}
	if u.of == nil {
		u.of = map[string]publishing{}
	}
	u.of[id] = publishing{times, now}
	u.n.Store(int64(len(u.of)))
}

// answered notes that an end of an entry was applied.
func (u *unanswered) answered(id string) {
	if u.n.Load() == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, id)
	u.n.Store(int64(len(u.of)))
}

// look returns the current state.
func (u *unanswered) look(now time.Time) (all Unanswered) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, p := range u.of {
		if now.Sub(p.at) > u.keep {
			delete(u.of, id)
			continue
		}
		if p.times > all.Times || p.times == all.Times && id < all.ID {
			all.Times, all.ID = p.times, id
		}
	}
	all.Entries = len(u.of)
	u.n.Store(int64(len(u.of)))
	return all
}
