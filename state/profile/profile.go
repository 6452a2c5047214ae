// Package profile is the role that knows the customers of business applications: which
// profile an event's external id, email and phone belong to, and what is known of it.
//
// A profile belongs to one tenant. Resolve gives it identities (identity.go says how they
// are written), which it keeps until it is deleted. It has attributes, a JSON object whose
// values stay the bytes that came (Updater says which of two values counts). It differs
// from analytics' person: nothing is merged, and a doubt is an error that a human settles.
//
// Package tableprofile keeps them in a table of any backend. Promises are cases of profiletest.
package profile

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Ask is what one event says about its customer.
type Ask struct {
	Tenant string // 1 to MaxName bytes of text
	Identities
	Create bool // make a profile where none has any of the identities
}

// Answer is the profile of an event.
type Answer struct {
	Profile uuid.UUID
	New     bool // made by this Ask
	// Err says why no profile was found, and then is set alone. By kind: validation for
	// invalid identities (ErrIdentity), not_found (ErrNotFound), business for an
	// *AmbiguousError and for ErrFull.
	Err error
}

// Resolver finds profiles by identities.
type Resolver interface {
	// Resolve answers each ask, as if they came one after the other in this order.
	//
	// The profile is the one that has the external id, else the email, else the phone. Those
	// of the three that no profile has are attached to it, whether Create is set or not.
	// Where they belong to different profiles the answer is an *AmbiguousError that names
	// them, and nothing is changed. Where no profile has any of them, Create makes one with
	// them; without Create the answer is ErrNotFound.
	//
	// Options.Externals is how many external ids a profile can have. A profile that has that
	// many, and not the one asked for, is somebody else: its email and phone are no evidence
	// and stay with it.
	//
	// The error of one ask is in its answer and concerns no other. A returned error fails
	// the whole call; profiles created then may be stored or not, and the same call again
	// gives the same profiles, not New. No identity ever belongs to two profiles, however
	// many calls run at once.
	Resolve(ctx context.Context, asks []Ask, answers []Answer) error
}

// Change is what one event does to the attributes of a profile.
type Change struct {
	Tenant  string
	Profile uuid.UUID
	// At is when the event happened, to the microsecond. A zero or future time counts as
	// now: no event may hold up those after it.
	At         time.Time
	Event      string // the event's id, which decides between events of the same time
	Attributes []Attribute
}

// Attribute is a change of one attribute. Each Key is once in a change.
type Attribute struct {
	Op    Op
	Key   string // 1 to MaxKey bytes of text
	Value []byte // JSON as received, at most MaxValue bytes; a number for Add, nil for Unset
	// Arrival makes the last arrival win, whatever time its event has. It does not hold for
	// Once and Add.
	Arrival bool
}

// Updater changes profiles.
type Updater interface {
	// Update applies each change, as if they came one after the other in this order. A
	// change is applied whole or not at all. A *tidemill.Partial names those that are not;
	// the others are durable. Their kinds: validation where the change cannot be read,
	// not_found where the tenant has no such profile (any more), business for a number to
	// be added to something else (ErrNumber) and for ErrFull.
	//
	// The value of an attribute is that of the latest Set, unless an Unset is later; else that
	// of the earliest Once after the Unset; and the sum of the Adds since is added to it. Later
	// is by the times of the events. A Once after an Add has no effect, whichever came first.
	// Set, Once and Unset may be sent again and late: the result is the same, except that an
	// Unset or Set with a time between those of two Adds keeps both, and that of three Onces or
	// more an Unset after the first leaves the last. An Add counts each time that it is sent: send it in the transaction that
	// ends its event's entry (Transactional), where it happens once.
	Update(ctx context.Context, changes []Change) error
}

// Profiles is what handlers of events need.
type Profiles interface {
	Resolver
	Updater
}

// Transactional is a store that shares its database with a ledger: a handler's effects and
// the end of its entry are committed together. Tx is the transaction of the backend's
// connection, as ledger.Transactor gives it.
type Transactional[Tx any] interface {
	// In returns Profiles whose changes belong to tx: durable with its commit, and gone if
	// it fails. Use them until then, in one goroutine, with one Resolve before one Update:
	// any other use may meet a deadlock, which the database resolves by a transient error.
	// After an error give up the transaction; after a *tidemill.Partial it can go on, its
	// other changes were made.
	In(tx Tx) Profiles
}

// Profile is one profile as it is now.
type Profile struct {
	ID         uuid.UUID
	Tenant     string
	Identities []Identity        // sorted by kind, then by value
	Attributes map[string][]byte // JSON values as received
	Created    time.Time         // by the store's clock, to the millisecond, UTC
	Updated    time.Time         // last change of the attributes; at first Created
}

// Object is the attributes as one JSON object, sorted by key, each value as it was received.
func (p *Profile) Object() []byte {
	b, sep := []byte{'{'}, ""
	for _, k := range slices.Sorted(maps.Keys(p.Attributes)) {
		b, _ = jsontext.AppendQuote(append(b, sep...), k) // fails only for bytes that are not UTF-8
		b = append(append(b, ':'), p.Attributes[k]...)
		sep = ","
	}
	return append(b, '}')
}

// Directory is for people who look up profiles.
type Directory interface {
	// Get returns a tenant's profile, or ErrNotFound (of that kind) if the tenant has none
	// with that id.
	Get(ctx context.Context, tenant string, id uuid.UUID) (*Profile, error)
	// Find returns the profile that has an identity. It returns ErrNotFound where no
	// profile has it, and ErrIdentity where it is invalid.
	Find(ctx context.Context, tenant string, by Identity) (*Profile, error)
	// List returns profiles of a tenant, sorted by id, with ids greater than after, at most
	// max (0 means 100, never more than MaxPage).
	List(ctx context.Context, tenant string, after uuid.UUID, max int) ([]*Profile, error)
}

// Eraser deletes profiles.
type Eraser interface {
	// Delete removes a tenant's profile with its identities and all that is known of it,
	// durably, and says whether it existed. An event with its identities afterwards belongs
	// to somebody new.
	Delete(ctx context.Context, tenant string, id uuid.UUID) (bool, error)
}

// Store is the whole role of every backend.
type Store interface {
	Profiles
	Directory
	Eraser
}
