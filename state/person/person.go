// Package person is the role that knows which person a distinct id belongs to, what is
// known of the person, and what happens when two turn out to be one.
//
// Applying the same changes and merges again, in another order, or from several instances
// at once gives the same persons. One case is different: where two users claim one id, or one
// user claims another's own id, the claim that is processed first decides.
//
// Backends: tableperson, in memory, SQLite, PostgreSQL or Redis; postgresperson, in the tables of other
// programs, and redisperson, a cache before it. Promises are cases of persontest.
package person

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrUnknown says that a distinct id belongs to no person.
var ErrUnknown = errors.New("no person has this distinct id")

// Namespace of person ids. It never changes.
var Namespace = uuid.MustParse("a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d")

// Ref names a person by one of its distinct ids.
type Ref struct {
	Project  uuid.UUID
	Distinct string
}

// ID is the person id of a distinct id that was not merged or stored under another: UUIDv5
// of "project:distinct_id".
func ID(r Ref) uuid.UUID {
	b := make([]byte, 0, 37+len(r.Distinct))
	b = append(b, r.Project.String()...)
	b = append(b, ':')
	return uuid.NewSHA1(Namespace, append(b, r.Distinct...))
}

// Op is what an event does to one property.
type Op uint8

const (
	Set   Op = iota + 1 // overwrites
	Once                // only where absent
	Unset               // removes
)

// Property is one operation of an event on one property.
type Property struct {
	Op    Op
	Key   string
	Value []byte // JSON as received; nil for Unset
}

// Change is what one event says about the person of its distinct id.
type Change struct {
	Ref
	Event      uuid.UUID // breaks ties of time and order
	At         time.Time // of the event
	Order      uint64    // breaks ties of time: the greater is the later
	Properties []Property
}

// Merge is one event's claim that Other is the same person as Ref, which survives.
type Merge struct {
	Ref
	Other string    // the other distinct id, of the same project
	Event uuid.UUID // that claims it
	At    time.Time // of the event; kept to the millisecond
	Force bool      // no guard ($merge_dangerously)
}

// Claims says whether o is the same event's claim: such merges are kept once.
func (m Merge) Claims(o Merge) bool {
	return m.Ref == o.Ref && m.Other == o.Other && m.Event == o.Event && m.Force == o.Force
}

// Outcome of a merge.
type Outcome uint8

const (
	Merged  Outcome = iota + 1 // the other's distinct ids moved to the survivor
	Same                       // they were one person already; it is identified now, unless Other is the distinct id itself
	Refused                    // the other is an identified person: nothing moved, the survivor is identified
)

// Person is one person as it is now.
type Person struct {
	ID         uuid.UUID
	Project    uuid.UUID
	Distinct   []string          // sorted
	Properties map[string][]byte // JSON values
	Identified bool
	Created    time.Time // of its earliest event
	Updated    time.Time // of its latest event, floored to the hour
}

// String returns the outcome as it is counted and logged.
func (o Outcome) String() string {
	return [...]string{"not done", "merged", "same", "refused"}[min(o, Refused)]
}

// Override says that events of a distinct id that are stored under another person id belong
// to Person. The higher Version wins; versions count per distinct id.
type Override struct {
	Seq int64 // its number in the outbox
	Ref
	Person  uuid.UUID
	Version uint64
}

// Persons is what events need.
type Persons interface {
	// Resolve writes the id of the person of each ref, whether the person is stored or not.
	Resolve(ctx context.Context, refs []Ref, into []uuid.UUID) error
	// Apply folds changes into their persons in one transaction, and creates persons that
	// are not stored; a change without effect is not written. Each Ref is followed to its
	// survivor.
	Apply(ctx context.Context, changes []Change) error
	// Merge makes each pair one person, in order, and returns the outcomes. Each merge is
	// one transaction: distinct ids moved, properties joined, identified set, the earlier
	// Created kept, and an Override in the outbox for every distinct id that moved (for
	// Other in any case, stored before or not). outcomes[i] is 0 for merges that were not
	// done when an error is returned.
	Merge(ctx context.Context, merges []Merge, outcomes []Outcome) error
}

// A Mover is Persons whose merges return what they moved, so that a cache in front of it
// need not read it.
type Mover interface {
	// MergeMoved is Merge. It also returns an Override for every distinct id that moved, in
	// the order of the moves; beside an error, those of the finished merges.
	MergeMoved(ctx context.Context, merges []Merge, outcomes []Outcome) ([]Override, error)
}

// Outbox is what the relay to the warehouse needs.
type Outbox interface {
	// Overrides returns the oldest overrides not relayed yet, at most max.
	Overrides(ctx context.Context, max int) ([]Override, error)
	// Relayed removes those up to and including seq.
	Relayed(ctx context.Context, seq int64) error
}

// Kept is the durable list of merges that could not be done; they are replayed until they
// succeed.
type Kept interface {
	// Keep adds merges that are not in the list yet. It returns ErrKeptFull, and adds none,
	// when the list would be longer than MaxKept.
	Keep(ctx context.Context, merges []Merge) error
	// Oldest returns at most max kept merges.
	Oldest(ctx context.Context, max int) ([]Merge, error)
	// Done removes merges from the list.
	Done(ctx context.Context, merges []Merge) error
}

// MaxKept is how many failed merges are kept.
const MaxKept = 1000

// ErrKeptFull says that the list of failed merges is full: flushing must wait.
var ErrKeptFull = errors.New("the list of failed merges is full")

// Directory is for people who look up persons.
type Directory interface {
	// Show returns the person of a distinct id, or ErrUnknown if none is stored.
	Show(ctx context.Context, r Ref) (*Person, error)
	// ShowID returns the person of that id in a project, or ErrUnknown if none is stored: also
	// one that was merged into another is not any more.
	ShowID(ctx context.Context, project, id uuid.UUID) (*Person, error)
}

// Store is the whole role.
type Store interface {
	Persons
	Outbox
	Kept
	Directory
}
