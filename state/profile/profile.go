// Package profile is the role that knows the customers of business applications: which
// profile an event's external id, email and phone belong to, and what is known of it.
//
// A profile belongs to one tenant and has identities (identity.go says how they are
// written), which it gets by Resolve and keeps until it is deleted, and attributes, a JSON
// object whose values stay the bytes that came (register.go says which of two values
// counts). It is not analytics' person: nothing is merged, and a doubt is an error that a
// human settles.
//
// Backends: memoryprofile (the reference), sqliteprofile, postgresprofile. Promises are
// cases of profiletest.
package profile

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Ask is what one event says of whom it is about.
type Ask struct {
	Tenant string // 1 to MaxName bytes of text
	Identities
	Create bool // make a profile where none has any of the identities
}

// Answer is whom an event is about.
type Answer struct {
	Profile uuid.UUID
	New     bool // made by this very Ask
	// Err says why there is no profile, and comes alone. By kind: validation for identities
	// that cannot be (ErrIdentity), not_found (ErrNotFound), business for an
	// *AmbiguousError and for ErrFull.
	Err error
}

// Resolver finds profiles by identities.
type Resolver interface {
	// Resolve answers each ask, as if they came one after the other in this order.
	//
	// The profile is the one that has the external id, else the email, else the phone. Those
	// of the three that nobody has are attached to it, whether Create is set or not. Where
	// they belong to different profiles the answer is an *AmbiguousError that names them,
	// and nothing is changed. Where nobody has any, a profile with them is created if that
	// is allowed, else it is ErrNotFound.
	//
	// Options.Externals is how many external ids a profile can have. Who has that many, and
	// not the one asked for, is somebody else, whose email and phone are no sign and stay
	// with it.
	//
	// What is wrong with one ask is in its answer and concerns no other. An error fails the
	// whole call; what was created then may be stored or not, and the same call again gives
	// the same profiles, not New. No identity ever belongs to two profiles, however many
	// resolve at once.
	Resolve(ctx context.Context, asks []Ask, answers []Answer) error
}

// Change is what one event does to the attributes of a profile.
type Change struct {
	Tenant  string
	Profile uuid.UUID
	// At is when the event happened, to the microsecond. None, and one that is still to
	// come, is now: no event may hold up those after it.
	At         time.Time
	Event      string // its id, decides between events of the same time
	Attributes []Attribute
}

// Attribute is what a change does to one attribute. Each Key is once in a change.
type Attribute struct {
	Op    Op
	Key   string // 1 to MaxKey bytes of text
	Value []byte // JSON as received, at most MaxValue bytes; a number for Add, nil for Unset
	// Arrival makes what comes last win, whatever time its event has. It does not hold for
	// Once and Add.
	Arrival bool
}

// Updater changes profiles.
type Updater interface {
	// Update applies each change, as if they came one after the other in this order. A
	// change is applied whole or not at all. Those that are not are named by a
	// *tidemill.Partial, the others are durable: validation where the change cannot be
	// read, not_found where the tenant has no such profile (any more), business for a
	// number to be added to what is no number (ErrNumber) and for ErrFull.
	//
	// Set, Once and Unset may be sent again and late: register.go says why they end the
	// same. An Add counts each time that it is sent: send it in the transaction that ends
	// its event's entry (Transactional), where it happens once.
	Update(ctx context.Context, changes []Change) error
}

// Profiles is what handlers of events need.
type Profiles interface {
	Resolver
	Updater
}

// Transactional is what a store can do besides where it shares its database with a ledger:
// a handler's effects and the end of its entry are committed together. Tx is the
// transaction of the backend's connection, as ledger.Transactor gives it.
type Transactional[Tx any] interface {
	// In returns Profiles whose changes are those of tx: durable with its commit, and gone
	// if it fails. They may be used until then, by one goroutine, one Resolve before one
	// Update: who does otherwise may meet a deadlock, which the database resolves by an
	// error that is transient. After an error the transaction must be given up; not after a
	// *tidemill.Partial, whose other changes were made.
	In(tx Tx) Profiles
}

// Profile is one profile as it is now.
type Profile struct {
	ID         uuid.UUID
	Tenant     string
	Identities []Identity        // sorted by kind, then by value
	Attributes map[string][]byte // JSON values as received
	Created    time.Time         // by the store's clock, to the millisecond, UTC
	Updated    time.Time         // when attributes changed last; at first Created
}

// Directory is for people who ask.
type Directory interface {
	// Get returns a tenant's profile, ErrNotFound (of that kind) if it has none of that id.
	Get(ctx context.Context, tenant string, id uuid.UUID) (*Profile, error)
	// Find returns the profile that has an identity. It is ErrNotFound where nobody has it,
	// ErrIdentity where nobody can.
	Find(ctx context.Context, tenant string, by Identity) (*Profile, error)
	// List returns profiles of a tenant by id, the next greater ones than after, at most
	// max (0 means 100, never more than MaxPage).
	List(ctx context.Context, tenant string, after uuid.UUID, max int) ([]*Profile, error)
}

// Eraser forgets.
type Eraser interface {
	// Delete removes a tenant's profile with its identities and all that is known of it,
	// durably, and says whether it was there. Who comes with its identities afterwards is
	// somebody new.
	Delete(ctx context.Context, tenant string, id uuid.UUID) (bool, error)
}

// Store is all that every backend can do.
type Store interface {
	Profiles
	Directory
	Eraser
}
