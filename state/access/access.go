// Package access is the role of keeping who may come in: users, tokens, sessions and one-time links.
// All instances of a store share them. No secret is kept, only hashes.
//
// Backend: tableaccess, on any table. Promises are cases of accesstest.
package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Kind is what a grant is.
type Kind string

// The kinds.
const (
	User    Kind = "user"    // somebody with a name and a password
	Token   Kind = "token"   // what a program shows with each request
	Session Kind = "session" // of somebody who logged in
	Link    Kind = "link"    // lets in once
	Login   Kind = "login"   // at a provider, which has let in and does so no more
)

// Admin is the role that at least one user keeps, where any has it.
const Admin = "admin"

// Errors that a caller can act on.
var (
	ErrUnknown   = errors.New("there is none")
	ErrTaken     = errors.New("there is one of that name already")
	ErrLastAdmin = errors.New("this is the last user with the role admin: give that to somebody else first")
)

// MaxName is how many bytes the name of a grant may have.
const MaxName = 256

// Grant is one that may come in, or is in.
type Grant struct {
	Kind Kind
	ID   string // of a user the name; else IDOf the secret
	Name string // whose it is: ada, token:ci, key:admin, local
	Role string // Admin, or other rights, in their one text: viewer operator:crm
	Hash string // of a user's password, in the form of PHC; of a session by the API's own token, of that token, and of one by a provider, of what is configured of it. Empty: none

	By      string    // who made it; of a session how they came in: token, password, link, key or oidc
	From    string    // the address that began a session
	Browser string    // that began a session, as it calls itself
	Made    time.Time // in whole milliseconds, like all times here
	Used    time.Time // about when it was last used; zero: never
	Until   time.Time // when it lets in no more; zero: never
	Entered time.Time // of a session, when whose it is last proved who they are
}

// IDOf is the id of what has a secret. It tells nothing of it.
func IDOf(secret string) string {
	sum := sha256.Sum256([]byte("tidemill grant\x00" + secret))
	return hex.EncodeToString(sum[:])
}

// ShortID is how many characters of an id are shown; Store.Get and the others find by them too.
const ShortID = 16

// Change is what becomes of a grant.
type Change struct {
	Do   func(*Grant) error // changes it, but for Kind, ID and Name; its error is returned, and nothing is changed
	Keep string             // the id of a session that stays when a change of a user's password ends the others
	Anew bool               // the password is the same, hashed anew: no session ends
}

// Store keeps grants. Ids may be shortened to ShortID characters. What a method says of sessions is
// done with it, or not at all.
type Store interface {
	// Add keeps a new grant. ErrTaken: there is one of its kind and id, or a token of its name.
	Add(ctx context.Context, g Grant) error
	// Get returns a grant; ErrUnknown if there is none. One whose end has come is one until Sweep
	// forgets it.
	Get(ctx context.Context, kind Kind, id string) (Grant, error)
	// List returns the grants of a kind, by name and then the oldest first; with a name only those
	// of it.
	List(ctx context.Context, kind Kind, name string) ([]Grant, error)
	// Change changes a grant and returns it; ErrUnknown if there is none. Do may be called again. When a user's password
	// changes their sessions end, but for Keep; when the role changes, all of them.
	// ErrLastAdmin: no user would have the role admin.
	Change(ctx context.Context, kind Kind, id string, c Change) (Grant, error)
	// Remove removes a grant and returns it, with the sessions of a user or token, and with the views that they saved
	// for themselves alone, where views are kept beside; ErrUnknown if there is none.
	// ErrLastAdmin: no user would have the role admin.
	Remove(ctx context.Context, kind Kind, id string) (Grant, error)
}

// Sweeper forgets grants whose end has come, up to so many, and says how many it were.
type Sweeper interface {
	Sweep(ctx context.Context, now time.Time, most int) (int, error)
}
