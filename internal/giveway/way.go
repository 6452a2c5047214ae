package giveway

import (
	"sync/atomic"
	"time"
)

const (
	// patience is how long requests take, on average, before work gives way: twice what one takes
	// beside nothing on Redis. The aim is that 99 of 100 are answered within 6 ms.
	patience = 3 * time.Millisecond
	// longestRest is how long a lane rests at most: one that waited for a slow receiver took little of
	// the machine.
	longestRest = 20 * time.Millisecond
	// inTime is how late rests end, on average, where a core is free; and one of some is made then, to
	// see whether it is so still.
	inTime = 500 * time.Microsecond
	some   = 8
	// recent is how many requests the average is of, and how many rests.
	recent = 16
	// stale is after how long without an answer the average says nothing of the next request.
	stale = 100 * time.Millisecond
)

// Way is what the endpoints and the pipelines of a process share. The zero value is ready to use, by
// any number of goroutines.
type Way struct {
	waiting atomic.Int64  // requests that are not answered
	average atomic.Int64  // nanoseconds, of those that were
	late    atomic.Int64  // nanoseconds, the average of how late rests ended
	left    atomic.Uint64 // rests that were left out, or made to see whether they end in time
	moved   atomic.Int64  // unix nanoseconds: when one was answered, or came where none waited
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
		learn(&w.late, late)
	}
	if w.waiting.Load() == 0 || w.average.Load() < int64(patience) && now.UnixNano()-w.moved.Load() < int64(patience) {
		return 0
	}
	if w.late.Load() < int64(inTime) && w.left.Add(1)%some != 0 {
		return 0
	}
	return min(rest(worked), longestRest)
}
