package giveway

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long requests take, on average, before work gives way. The aim is that 99 of 100
	// are answered within 6 ms. With 3 ms, CRM's requests beside a backlog on Redis and PostgreSQL had
	// 0.57 of their rate, with this 0.64.
	patience = 1500 * time.Microsecond
	// longestRest is how long a lane rests at most: one that waited for a slow receiver took little of
	// the machine.
	longestRest = 20 * time.Millisecond
	// inTime is how late rests end, on average, where a core is free; and one of some is made then, to
	// see whether it is so still.
	inTime = 500 * time.Microsecond
	some   = 8
	// A core is free where all together are idle for half of one's time, of a while.
	while = 100 * time.Millisecond
	// recent is how many requests the average is of, and how many rests.
	recent = 16
	// stale is after how long without an answer the average says nothing of the next request.
	stale = 100 * time.Millisecond
)

// Way is what the endpoints and the pipelines of a process share. The zero value is ready to use, by
// any number of goroutines.
type Way struct {
	Idle func() (time.Duration, bool) // see [Idle]; nil: only rests that end late tell that no core is free

	waiting atomic.Int64  // requests that are not answered
	average atomic.Int64  // nanoseconds, of those that were
	late    atomic.Int64  // nanoseconds, the average of how late rests ended
	left    atomic.Uint64 // rests that were left out, or made to see whether they end in time
	moved   atomic.Int64  // unix nanoseconds: when one was answered, or came where none waited

	taken  atomic.Bool // no core was free in the last while
	looked struct {
		sync.Mutex // guards the rest; held for a look at the machine's own books
		at         time.Time
		idle       time.Duration // until then
	}
}

// Gate is a gate before what takes cores. While requests take long, work has its share of them; no call
// for work waits longer than longest.
func (w *Way) Gate(longest time.Duration) *Gate {
	return &Gate{Way: w, Lanes: runtime.GOMAXPROCS(0), Longest: longest}
}

// Came notes that a request came.
func (w *Way) Came(now time.Time) {
	if w.waiting.Add(1) > 1 {
		return
	}
	at := now.UnixNano()
	if at-w.moved.Swap(at) > int64(stale) {
		w.average.Store(0)
	}
}

// Answered notes that one was answered, and when it came.
func (w *Way) Answered(came, now time.Time) {
	w.waiting.Add(-1)
	w.moved.Store(now.UnixNano())
	learn(&w.average, now.Sub(came))
}

// learn makes an average one of a value, too. Of two at once one may be lost.
func learn(average *atomic.Int64, value time.Duration) {
	was := average.Load()
	average.Store(was + (int64(value)-was)/recent)
}

// Rest is how long a lane is to rest whose last batch took so long. late is how much too late its last
// rest ended; below 0: it had none since it was asked. Where cores are free, rests end in time, and help
// nobody: most are left out.
func (w *Way) Rest(now time.Time, worked, late time.Duration) time.Duration {
	if late >= 0 {
		w.ended(late)
	}
	if !w.slow(now) || !w.short(now) && w.left.Add(1)%some != 0 {
		return 0
	}
	return min(rest(worked), longestRest)
}

// ended notes how much too late a rest ended.
func (w *Way) ended(late time.Duration) { learn(&w.late, late) }

// pressed says whether requests take long and no core is free.
func (w *Way) pressed(now time.Time) bool { return w.slow(now) && w.short(now) }

// slow says whether requests take long.
func (w *Way) slow(now time.Time) bool {
	return w.waiting.Load() > 0 && (w.average.Load() >= int64(patience) || now.UnixNano()-w.moved.Load() >= int64(patience))
}

// short says whether no core is free.
func (w *Way) short(now time.Time) bool {
	w.look(now)
	return w.taken.Load() || w.late.Load() >= int64(inTime)
}

// look finds out whether a core was free in the last while, once in it.
func (w *Way) look(now time.Time) {
	l := &w.looked
	if w.Idle == nil || !l.TryLock() {
		return
	}
	defer l.Unlock()
	passed := now.Sub(l.at)
	if passed < while {
		return
	}
	idle, known := w.Idle()
	w.taken.Store(known && passed < 2*while && idle >= l.idle && idle-l.idle < passed/2)
	l.at, l.idle = now, idle
}
