// Package description is the role that keeps descriptions of what is configured, such as partners,
// sites and handlers, beside those of the file: each of a list of settings, under a name. All
// instances that share it have the same, and see by one number that any has changed.
//
// Backend: tabledescription, in any table. Promises are cases of descriptiontest.
package description

import (
	"context"
	"errors"
	"time"
)

// What is kept at most.
const (
	Most     = 10_000   // descriptions
	MostText = 64 << 10 // bytes of one
	MostName = 200      // bytes of the path of a list, and of a name
)

// Description describes one element of a list of settings.
type Description struct {
	List    string // the path of the list: delivery.partners
	Name    string // in its list
	Text    []byte // what describes it
	Version uint64 // of the change that made it what it is
	Changed time.Time
	By      string // who did
}

// Kept are all descriptions at one moment.
type Kept struct {
	Version uint64        // of the last change; 0: there was none
	All     []Description // by list, then by name
}

// Store is the whole role. Changes are numbered: each is made of the descriptions of one version, and
// makes the next one.
type Store interface {
	// Version is that of the last change; 0: there was none. It reads one small record.
	Version(ctx context.Context) (uint64, error)
	// List are all descriptions.
	List(ctx context.Context) (Kept, error)
	// Put makes a description, or another one of it, and returns the new version, which is its own.
	// ErrChanged: the version is not of any more. ErrFull: there are Most others.
	Put(ctx context.Context, d Description, of uint64) (uint64, error)
	// Remove removes one, and returns the new version. ErrChanged is as of Put. ErrNone: it is not there.
	Remove(ctx context.Context, list, name string, of uint64) (uint64, error)
	// Await returns when the version is another than the one that is known, or may be: at once where it
	// is already, and else when somebody makes a change, in this process or another, as soon as Told
	// says. It returns the error of ctx where that ends first. A notice may be lost: who waits looks
	// from time to time too.
	Await(ctx context.Context, known uint64) error
	// Told says in words how Await learns of a change: by a stream of Redis.
	Told() string
}

// Errors of a Store.
var (
	ErrChanged = errors.New("the descriptions were changed meanwhile")
	ErrFull    = errors.New("no more descriptions are kept")
	ErrNone    = errors.New("it is not described here")
)
