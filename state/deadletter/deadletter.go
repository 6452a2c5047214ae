// Package deadletter is the role that keeps dead letters: each with its payload as
// received, the reason and its history, until it is replayed or discarded by hand. A dead
// letter is the durable fate of a message; its source need not be settled yet.
//
// A dead letter is held; Replay makes it replaying. If its replay was delivered or skipped
// it is gone; else it is held again, with one more replay in its history. The books of a
// pipeline's dead letters: put = held and replaying + replayed + discarded (+ trimmed).
//
//	Put ──► held ──Replay──► replaying ──delivered, skipped──► gone
//	held ──Edit──► held, with another payload beside the original
//	held ──Delete──► gone
//	replaying ──dead, or Put again──► held
//
// Backends: tabledeadletter, in any table (memory, SQLite, PostgreSQL), and redisdeadletter, a
// stream that other programs read. Promises are cases of deadlettertest.
package deadletter

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// RowHeader names the header under which a replayed message carries its dead letter's Row.
const RowHeader = "tidemill-row"

// ErrFull is what Put returns (wrapped, kind rate_limit) when a pipeline has as many dead
// letters as it may: the lane waits, no message is lost.
var ErrFull = errors.New("dead letters are full: replay, delete, or raise the limit")

// What Edit returns (wrapped) for a dead letter that it leaves unchanged.
var (
	ErrNotFound  = errors.New("there is no such dead letter")                                                                   // kind not_found
	ErrReplaying = errors.New("the letter is being replayed: wait for the end, it is held again if it fails")                   // kind transient
	ErrChanged   = errors.New("the payload was changed since it was read: read the dead letter again, and edit what it is now") // kind transient
	ErrDamaged   = errors.New("the stored message is damaged: it can be looked at and deleted, nothing else")                   // kind validation
)

// Name identifies one dead letter in a store.
type Name struct{ Pipeline, Tenant, ID string }

// A Letter is a stored dead letter: one message given up.
type Letter struct {
	tidemill.Message        // as received, payload byte for byte (but see Edited); Mark is its position at the source
	Seq              int64  // the store's own number of it: growing, never reused
	Pipeline         string // that gave it up
	Kind             tidemill.Kind
	Cause            string // the last failure in words
	Row              []byte // the work's intermediate result; may be nil
	First, Last      time.Time
	Replays          int
	State            State
	// Edited is when the payload was last replaced by hand; zero: never. A replay then
	// sends Payload; Original is what was received.
	Edited   time.Time
	Original []byte
	History  []Failure // oldest first, the newest 20 kept
	// Damaged says what is wrong with a dead letter whose stored bytes differ from those
	// that were put. It is listed as far as it can be read, and never replayed. Empty:
	// intact.
	Damaged string
}

// Failure is one final failure of a message.
type Failure struct {
	At    time.Time     `json:"at"`
	Kind  tidemill.Kind `json:"kind"`
	Cause string        `json:"cause"`
	Tries int           `json:"tries"`
	// Answer is the destination's answer to a replay; empty: nothing, nil: see Letter.Answer.
	Answer []byte `json:"answer,omitempty"`
}

// Answer is the destination's last answer: to a replay, or as Row holds it.
func (l *Letter) Answer() []byte {
	for _, f := range slices.Backward(l.History) {
		if f.Answer != nil {
			return f.Answer
		}
	}
	return l.Row
}

// State of a dead letter.
type State string

const (
	Held      State = "held"
	Replaying State = "replaying"
)

// Store is the whole role.
type Store interface {
	// Put keeps one dead letter for each pipeline, tenant and message ID. An existing one
	// takes the new message, row and failure, and keeps its Seq, First and history; one
	// that is replaying is held again. Putting the same failure once more (same position,
	// time and cause: an answer was lost) changes nothing. All or none are put, and new ones are
	// numbered in their order. A message at another position is another message that died at
	// the source: the books count it as put too, and the one that it replaces as discarded.
	tidemill.DeadLetters
	// List yields dead letters in order of Seq, up or back, as they are when it begins. It reads
	// page by page and blocks nothing; it leaves out those that are gone by then. Of a Cause it
	// reads no others, unless IDs are named.
	List(ctx context.Context, f Filter) iter.Seq2[*Letter, error]
	// Count is how many dead letters match, without reading payloads.
	Count(ctx context.Context, f Filter) (int, error)
	// Groups says how many dead letters there are for each cause, its numbers aside, as they are
	// now. It reads counters, which change with the dead letters in one transaction. only says of
	// which pipelines; nil: of all.
	Groups(ctx context.Context, only func(pipeline string) bool) (Groups, error)
	// Owners says how many dead letters an owner has in a pipeline, as they are now: of each pipeline
	// the MaxOwners that have the most, these first. It reads counters like Groups.
	Owners(ctx context.Context, only func(pipeline string) bool) ([]Owner, error)
	// Replay marks matching held dead letters as replaying, durably, and says how many:
	// Open hands them out. Messages that die later are not among them.
	Replay(ctx context.Context, f Filter) (int, error)
	// Delete discards matching held dead letters, counts them in the books, and says how
	// many. Use Before and Max for retention by age.
	Delete(ctx context.Context, f Filter) (int, error)
	// Edit replaces the payload of a held dead letter. A replay then sends that, with the
	// whole work done anew (no Row, unless the Row is the payload itself). The received
	// payload is kept through all further edits, until a message with another payload than
	// the edited one dies under this name. The same payload again changes nothing, whatever
	// was seen. Otherwise the dead letter has to have the version that was seen; empty:
	// whatever it has. Of concurrent edits of one version, one is made. Errors: ErrNotFound,
	// ErrReplaying, ErrDamaged, ErrChanged.
	Edit(ctx context.Context, n Name, payload []byte, seen string) error
	// Open makes a source of a pipeline's replaying dead letters (tidemill.Bookkeeper, Keeper too;
	// traits Delays, Parks, Keep). It hands out their messages with Handed and Tries counted anew,
	// and RowHeader set where there is a Row (but see Edit); it drops a header of that name that
	// came from outside. Their position is the replay and Seq. Delivered or Skipped ends the dead
	// letter; Dead (and a refused decode) makes it held again, with one more replay; Again and
	// Left leave it replaying. Several sources may be open on one pipeline; they learn of replays
	// that were asked for at the store that opened them. Books: Accepted dead letters ever put,
	// Settled.Delivered replayed with success, Settled.Skipped discarded, replaced or skipped at
	// replay, Pending those stored, Lost those trimmed.
	Open(pipeline string) tidemill.Source
}
