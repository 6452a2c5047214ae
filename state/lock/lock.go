// Package lock is the role of one owner at a time, for a time. The caller that acquires a
// name holds it until it is released or runs out. The lock carries a fencing number that
// grows with every owner, so that a resource can refuse a late one.
//
// Backends: tablelock, on any table, and redislock, in the form of other programs. Promises are cases
// of locktest.
package lock

import (
	"context"
	"errors"
	"time"
)

// ErrLost says that a lock is not held any more: it ran out, or another owner has it.
var ErrLost = errors.New("the lock is not held any more")

// Held is an acquired lock.
type Held struct {
	Name  string
	Owner string // random, unguessable
	Fence uint64 // greater than that of every earlier owner
}

// Locks is the role.
type Locks interface {
	// Acquire takes the lock for d if nobody holds it; false, nil if somebody does. The
	// time starts during the call: to be safe, count from before it.
	Acquire(ctx context.Context, name string, d time.Duration) (Held, bool, error)
	// Extend makes it run out d from now; ErrLost if h does not hold it any more.
	Extend(ctx context.Context, h Held, d time.Duration) error
	// Release gives it back; releasing a lock that h does not hold any more is ErrLost and
	// changes nothing.
	Release(ctx context.Context, h Held) error
}
