// Package instance is the role that knows which instances share stores: each says again and again
// that it is there, and how it stands.
//
// Backend: tableinstance, in any table. Promises are cases of instancetest.
package instance

import (
	"context"
	"time"
)

// Life is how long an instance is taken to be there after it last said so; Beat is how often it
// says so.
const (
	Life = 45 * time.Second
	Beat = 15 * time.Second
)

// Kept is how long an instance is listed after it last said that it was there: who looks sees that
// one is gone.
const Kept = 24 * time.Hour

// Instance is one process.
type Instance struct {
	ID      string    `json:"-"` // its own, made anew at each start; 1 to 100 bytes
	Host    string    `json:"host,omitempty"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"-"` // when it last said that it is there, by the clock of who lists; whole milliseconds
	Ended   bool      `json:"ended,omitempty"`
	Memory  uint64    `json:"memory"` // bytes that it holds of the system
	Systems []string  `json:"systems"`

	Pipelines []Pipeline `json:"pipelines"`

	Described Described `json:"described,omitzero"`
}

// Described says which version of the descriptions that instances share an instance has in force.
type Described struct {
	Applied uint64 `json:"applied,omitempty"` // nothing is at work any more by an older one
	Tried   uint64 `json:"tried,omitempty"`   // the last one that it has looked at
	Refused string `json:"refused,omitempty"` // why that one is not in force
}

// Pipeline is a pipeline of an instance.
type Pipeline struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	InFlight int    `json:"in_flight"` // messages that it holds
	Lanes    int    `json:"lanes"`
	Breaker  string `json:"breaker,omitempty"`
	Error    string `json:"error,omitempty"` // the last one
}

// Is reports whether an instance is there.
func (i *Instance) Is(now time.Time) bool { return !i.Ended && now.Sub(i.Seen) <= Life }

// Store is the whole role.
type Store interface {
	// Beat says that an instance is there, and how it stands: what it said before is replaced. Seen
	// is now. One that has Ended says so.
	Beat(ctx context.Context, i Instance) error
	// List are the instances that said so within Kept, the newest started first; at most 1,000.
	List(ctx context.Context) ([]Instance, error)
	// Sweep forgets those that have not.
	Sweep(ctx context.Context) error
}
