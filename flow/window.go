package flow

import (
	"cmp"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
)

// Where ends come from outside, a receiver slower than the source would get messages again
// and again, because its acks come after their leases have ended. So at most a little more is
// handed out than was acked lately. Each ack makes room for two messages, so the window soon
// is as wide as the receiver is fast. Messages count as handed out from the latest acked one
// on: older ones without an ack are for an absent receiver, and nothing waits for them. When
// the window is full and no ack comes for a while, all receivers are taken to be absent, and
// messages go out as they come until an ack does.
const (
	leastOut = 64      // may be out, however few acks came: a receiver of two a second has acked them before a lease of a minute ends
	mostOut  = 1 << 15 // and no more than that: many clients can have 65,535 messages under way, and lose acks beyond
	places   = 2 * mostOut

	lately = 10 * time.Second // acks count for this long, at most twice that, and are waited for this long; or a sixth of a lease
)

// window counts messages that are handed out and may be.
type window struct {
	lately, patience time.Duration

	mu    sync.Mutex // guards all below
	of    []handed   // a place for each of the last messages, by their ids
	last  uint64     // number of the latest message
	acked uint64     // number of the latest acked message, and one more for each that ended otherwise
	acks  [2]int     // in this period, and in the one before
	began time.Time  // start of this period
	full  time.Time  // since when there is no room, or since a later ack; zero: there is room
}

// handed is a message that was handed out.
type handed struct {
	id  uint64 // hash
	seq uint64 // its number; 0: none
}

func (w *window) init(t tidemill.Traits) {
	w.of = make([]handed, places)
	w.lately = cmp.Or(t.Keep/2, lately) // leases are three times as long as they are kept
	w.patience = min(w.lately, lately)
}

// out notes messages that were handed out.
func (w *window) out(tasks []*Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		id := hash(t.ID)
		w.of[id%places] = handed{id, t.seq}
		w.last = t.seq
	}
}

// ended notes that messages wait for no ack: their end is known.
func (w *window) ended(tasks []*Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tasks {
		if !t.deferred {
			w.acked = min(w.acked+1, w.last)
		}
	}
}

// heard notes acks, and says whether there may be room where there was none.
func (w *window) heard(now time.Time, acks []tidemill.Settlement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	for i := range acks {
		id := hash(acks[i].ID)
		h := &w.of[id%places]
		if h.seq == 0 || h.id != id { // of another message, or acked before, or long ago
			continue
		}
		w.acked = max(w.acked, h.seq)
		w.acks[0]++
		*h = handed{}
		if !w.full.IsZero() {
			w.full = now
		}
	}
	return !w.full.IsZero()
}

// room says how many more messages may be asked for; where none, how long to wait for acks.
func (w *window) room(now time.Time) (n int, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if n = min(leastOut+w.acks[0]+w.acks[1], mostOut) - int(w.last-w.acked); n > 0 {
		w.full = time.Time{}
		return n, 0
	}
	if w.full.IsZero() {
		w.full = now
	}
	if wait = w.patience - now.Sub(w.full); wait > 0 {
		return 0, wait
	}
	return mostOut, 0
}

// waits says whether acks are waited for.
func (w *window) waits(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.full.IsZero() && now.Sub(w.full) < w.patience
}

// turn begins a new period when one has passed.
func (w *window) turn(now time.Time) {
	switch took := now.Sub(w.began); {
	case took >= 2*w.lately:
		w.began, w.acks = now, [2]int{}
	case took >= w.lately:
		w.began, w.acks = now, [2]int{0, w.acks[0]}
	}
}
