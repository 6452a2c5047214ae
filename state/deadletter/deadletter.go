// Package deadletter is the role that keeps what was given up: every letter with its
// payload as received, the reason and its history, until it is replayed or discarded by
// hand. A letter is the durable fate of a message; its source need not be settled yet.
//
// A letter is held, then (asked for by Replay) replaying, then gone if its replay was
// delivered or skipped, else held again with one replay more in its history. The books
// of a pipeline's letters: put = held + replayed + discarded.
//
// Backends: memorydeadletter, sqlitedeadletter. Promises are cases of deadlettertest.
package deadletter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemill/tidemill"
)

// RowHeader names the header under which a replayed message carries the letter's Row.
const RowHeader = "tidemill-row"

// ErrFull is what Put returns (wrapped, kind rate_limit) when a pipeline has as many
// letters as it may: the lane waits, nothing is cut off.
var ErrFull = errors.New("dead letters are full: replay, delete, or raise the limit")

// A Letter is one message given up.
type Letter struct {
	tidemill.Message        // as it came, payload byte for byte; Mark is its position at the source
	Seq              int64  // the store's own number of it: growing, never reused
	Pipeline         string // that gave it up
	Kind             tidemill.Kind
	Cause            string // the last failure in words
	Row              []byte // what the work had made of it; may be nil
	First, Last      time.Time
	Replays          int
	State            State
	History          []Failure // oldest first, the newest 20 kept
}

// Failure is one time a letter's message failed for good.
type Failure struct {
	At    time.Time     `json:"at"`
	Kind  tidemill.Kind `json:"kind"`
	Cause string        `json:"cause"`
	Tries int           `json:"tries"`
}

// State of a letter.
type State string

const (
	Held      State = "held"
	Replaying State = "replaying"
)

// Filter chooses letters; zero fields match all.
type Filter struct {
	Pipeline, Tenant string
	Kinds            []tidemill.Kind
	NotKinds         []tidemill.Kind
	IDs              []string  // message ids
	Before           time.Time // last died before
	Max              int       // 0: no limit; the oldest first
}

// Store is all of the role.
type Store interface {
	tidemill.DeadLetters
	// List yields letters in order of Seq, from a snapshot; it may be long.
	List(ctx context.Context, f Filter) iter.Seq2[*Letter, error]
	// Count is how many letters match, without reading payloads.
	Count(ctx context.Context, f Filter) (int, error)
	// Replay marks matching held letters as replaying, durably, and says how many: they
	// come out of Open. Letters that die later are not among them.
	Replay(ctx context.Context, f Filter) (int, error)
	// Delete discards matching held letters, counted in the books.
	Delete(ctx context.Context, f Filter) (int, error)
	// Open makes a source of a pipeline's replaying letters (tidemill.Bookkeeper, Parks,
	// Keeper too). Its messages are the letters' with Handed and Tries counted anew and
	// RowHeader set where there is a Row. Delivered or Skipped ends the letter; Dead (and
	// a refused decode) makes it held again, one replay more; Again leaves it replaying.
	// Books: Accepted letters ever put, Settled.Delivered replayed with success,
	// Settled.Skipped discarded or skipped at replay, Pending those there are.
	Open(pipeline string) tidemill.Source
}
