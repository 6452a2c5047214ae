package window

import (
	"math"
	"time"

	"github.com/tidemill/tidemill"
)

// State of a window.
type State string

// The states.
const (
	Active State = "active" // collects
	Ready  State = "ready"  // closed: waits to be handed out, at once, after a back-off, or behind an older one of its batch id
	Leased State = "leased" // handed out
	Parked State = "parked" // dead, as a whole, until it is replayed
)

// States are all states, in the order in which a window goes through them.
func States() []State { return []State{Active, Ready, Leased, Parked} }

// Why a window was closed.
type Why string

// The reasons.
const (
	ByTime  Why = "time"  // its time was over
	ByCount Why = "count" // as many records had come as announced
	ByHand  Why = "hand"  // CloseNow
)

// Info is a window without its records.
type Info struct {
	ID       string // batch id and revision: see ID
	Batch    string
	Revision uint64 // grows from window to window of a batch id
	State    State
	Records  int64     // records in it, each name once
	Bytes    int64     // of their bodies, about
	Expect   int64     // how many records were announced; 0: none
	Lost     int64     // records found missing so far
	Opened   time.Time // when its first record came
	Closed   time.Time // zero: not yet
	Why      Why       // it was closed
	Due      time.Time // Active: when its time is over; Ready: not to be handed out before, zero: at once; Leased: end of the lease
	Owner    string    // Leased: its owner
	Handed   int       // hand-outs since it was closed or replayed
	Tries    int       // failed tries among them
	Replays  int
	Failed   time.Time     // the last failed try; zero: none
	Kind     tidemill.Kind // of that failure
	Cause    string        // of that failure, in words
}

// Filter chooses windows; zero fields match all.
type Filter struct {
	State State
	Batch string
	IDs   []string
	After string // the ID of a listed window, whether it is still there or not: only those that follow it
	Back  bool   // from the newest to the oldest: older ones follow
	Max   int    // 0: no limit; the first ones
}

// Between says which revisions the filter chooses: greater than after, and smaller than before.
func (f *Filter) Between() (after, before uint64) {
	_, revision, ok := ParseID(f.After)
	switch {
	case !ok:
		return 0, math.MaxUint64
	case f.Back:
		return 0, revision
	}
	return revision, math.MaxUint64
}

// Stats of a store.
type Stats struct {
	Active, Ready, Leased, Parked Depth
	Lost                          uint64    // records ever found missing, which are booked as dead
	Now                           time.Time // by the store's clock: ages end then
}

// Depth is how much is in one state.
type Depth struct {
	Windows, Records int64
	Oldest           time.Time // when the oldest of them was opened; zero: none
}

// Of is the depth of a state.
func (s *Stats) Of(state State) *Depth {
	switch state {
	case Active:
		return &s.Active
	case Ready:
		return &s.Ready
	case Leased:
		return &s.Leased
	}
	return &s.Parked
}

// Swept is what a sweep did.
type Swept struct {
	Closed int // windows
	Lost   int // records found missing, of windows that had nothing left; booked as dead
	// Next is the time until there is a window to close again, if no more records come: 0,
	// there is one already; below 0, no window is active.
	Next time.Duration
}
