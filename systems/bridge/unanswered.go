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

// Unanswered are entries that this process published ManyTimes or more, redeliveries
// without an answer counted wherever they happened, and that no ack has ended since.
type Unanswered struct {
	Entries int    // how many there are; of more than 10,000 the rest is not known
	Times   int    // how often the one was published that was published most
	ID      string // which one that is
}

// unanswered remembers them. An entry leaves it when an end of it is applied here, or when it
// was not published here for so long that another instance must have it, or its end.
type unanswered struct {
	keep time.Duration
	n    atomic.Int64 // of entries: messages that are answered at once need no lock
	mu   sync.Mutex   // guards of
	of   map[string]publishing
}

// publishing is how often an entry was published, and when last.
type publishing struct {
	times int
	at    time.Time
}

// maxUnanswered bounds what is remembered.
const maxUnanswered = 10_000

// keepUnanswered is how long an entry is remembered that is not published again: it comes
// again when its lease has ended and somebody looked for it.
func keepUnanswered(t tidemill.Traits) time.Duration { return 3*3*t.Keep + 2*time.Minute } // a lease is three times Keep

// published notes a message, of which the source says how often it was handed out and how
// many of these tries failed.
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

// look says how they stand.
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
