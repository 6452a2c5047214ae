// Package bulk is the role that keeps operations on many things: a replay of all dead letters of a
// partner, a removal of all jobs of a tenant. Each is one record: what was asked and by whom, how far
// it is, who runs it. So an operation outlives the process that began it, and is seen by all.
//
//	previewed ──Start──► scheduled ──Claim──► running ──► done, failed
//	                         └──────Stop────────┴──► stopped
//
// What waits in scheduled has changed nothing. A running operation has one owner, under a lease that
// each Claim renews; when it runs out, another instance claims the operation and goes on from its
// cursor. Of each kind one operation is active in a scope at a time.
//
// The backend is tablebulk, on any table. Promises are cases of bulktest.
package bulk

import (
	"context"
	"errors"
	"time"
)

const (
	// PreviewFor is how long a previewed operation can be started.
	PreviewFor = 10 * time.Minute
	// KeptFor is how long an operation is kept after its end.
	KeptFor = 30 * 24 * time.Hour
	// MaxFailures is how many things that could not be changed an operation names: the first.
	MaxFailures = 100
)

// Errors of a Store and of the rules.
var (
	ErrNotFound = errors.New("there is no such operation")
	ErrBusy     = errors.New("an operation of this kind is scheduled or running there: wait for its end, or stop it")
	ErrState    = errors.New("the operation is not in a state for that")
	ErrTooOld   = errors.New("the preview is older than 10 minutes: make another one")
	ErrHeld     = errors.New("another instance runs the operation")
)

// State of an operation.
type State string

// The states. Those that are active are Scheduled and Running.
const (
	Previewed State = "previewed" // shown to somebody, and not asked for
	Scheduled State = "scheduled" // begins at Starts; nothing is changed yet
	Running   State = "running"
	Done      State = "done"
	Stopped   State = "stopped"
	Failed    State = "failed" // it cannot go on
)

// Operation is one change of many things.
type Operation struct {
	ID      string
	Kind    string    // what is done: dead.replay
	Scope   string    // where one of the kind is active at a time
	Systems string    // whose things they are: names with spaces between; empty: any
	Filter  []byte    // which things, as its maker reads it: no part of it depends on the clock
	Instant time.Time // what came or changed since is not part of it
	By      string    // who asked for it
	State   State
	Rate    Rate // 0: the limits of the things alone
	Most    int  // at most so many; 0: all that match
	Total   int  // that matched at Instant
	AtLeast bool // that were more than Total

	Made, Starts, Begun, Ended time.Time

	Progress
	Cursor string // behind the last thing that is done with
	Slice  Slice
	Waits  string // why it does not go on just now; empty: it does
	Why    string // it has failed

	StoppedBy string
	Owner     string    // who runs it
	Until     time.Time // end of the owner's lease
}

// Progress is what has become of the things of an operation.
type Progress struct {
	Changed  int            // by it
	Gone     int            // were changed by somebody else since the preview, and are left alone
	Failed   map[string]int // could not be changed, by reason
	Failures []Failure      // the first of those
}

// Failure is a thing that could not be changed.
type Failure struct {
	Key    string `json:"key"` // the cursor at it
	ID     string `json:"id"`
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"reason"`
}

// Slice are things that are being changed. It is durable before they are, so that an instance that goes on
// after a crash can count what was done of it.
type Slice struct {
	To string // the cursor behind them
	N  int    // 0: none are
}

// Filter chooses operations of a list; zero fields match all.
type Filter struct {
	States []State
	Sees   func(systems string) bool // of the Systems of an operation, whether it is chosen; nil: any is
	After  *Operation                // the list begins after it: its Made and ID count
	Back   bool                      // the newest first
	Max    int                       // 0: 1000
}

// Store is the role.
type Store interface {
	// Add keeps a new operation. One that is active is refused with ErrBusy where another of its
	// kind and scope is.
	Add(ctx context.Context, o *Operation) error
	// Get is the operation of an id, or ErrNotFound.
	Get(ctx context.Context, id string) (*Operation, error)
	// Change lets do alter an operation in a transaction, and returns what it is then. An error of
	// do changes nothing. It may call do again. ErrNotFound; ErrBusy: do makes it active, and
	// another one of its kind and scope is.
	Change(ctx context.Context, id string, do func(*Operation) error) (*Operation, error)
	// List are operations by the time when they were made, then by id.
	List(ctx context.Context, f Filter) ([]*Operation, error)
	// Sweep forgets previews and ended operations whose time is over, and says how many.
	Sweep(ctx context.Context, now time.Time) (int, error)
}
