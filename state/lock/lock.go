// Package lock is the role of one owner at a time, for a time. The caller that acquires a
// name holds it until it is released or runs out. The lock carries a fencing number that
// grows with every owner, so that a resource can refuse a late one.
//
// Backends: memorylock, sqlitelock, redislock. Promises are cases of locktest.
package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrLost says that a lock is not held any more: it ran out, or another owner has it.
var ErrLost = errors.New("the lock is not held any more")

// Check refuses a lock without a name, or for no time: it could never be held.
func Check(name string, d time.Duration) error {
	if name == "" {
		return errors.New("a lock needs a name")
	}
	if d <= 0 {
		return fmt.Errorf("lock %q for %v: it must be held for some time", name, d)
	}
	return nil
}

// NewOwner makes an owner from 16 random bytes.
func NewOwner(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("take random bytes for the owner of a lock: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

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
