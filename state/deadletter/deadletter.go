// Package deadletter is the role that keeps what was given up: every letter with its
// payload as received, the reason and its history, until it is replayed or discarded by
// hand. A letter is the durable fate of a message; its source need not be settled yet.
//
// A letter is held, then (asked for by Replay) replaying, then gone if its replay was
// delivered or skipped, else held again with one replay more in its history. The books
// of a pipeline's letters: put = held and replaying + replayed + discarded (+ trimmed).
//
//	Put ──► held ──Replay──► replaying ──delivered, skipped──► gone
//	held ──Edit──► held, with another payload beside the original
//	held ──Delete──► gone
//	replaying ──dead, or Put again──► held
//
// Backends: memorydeadletter, sqlitedeadletter, redisdeadletter. Promises are cases of deadlettertest.
package deadletter

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// RowHeader names the header under which a replayed message carries the letter's Row.
const RowHeader = "tidemill-row"

// ErrFull is what Put returns (wrapped, kind rate_limit) when a pipeline has as many
// letters as it may: the lane waits, nothing is cut off.
var ErrFull = errors.New("dead letters are full: replay, delete, or raise the limit")

// What Edit returns (wrapped) for a letter that it leaves as it is.
var (
	ErrNotFound  = errors.New("there is no such dead letter")                                                 // kind not_found
	ErrReplaying = errors.New("the letter is being replayed: wait for the end, it is held again if it fails") // kind transient
	ErrDamaged   = errors.New("the stored message is damaged: it can be looked at and deleted, nothing else") // kind validation
)

// Name is what a store keeps one letter of.
type Name struct{ Pipeline, Tenant, ID string }

// A Letter is one message given up.
type Letter struct {
	tidemill.Message        // as it came, payload byte for byte (but see Edited); Mark is its position at the source
	Seq              int64  // the store's own number of it: growing, never reused
	Pipeline         string // that gave it up
	Kind             tidemill.Kind
	Cause            string // the last failure in words
	Row              []byte // what the work had made of it; may be nil
	First, Last      time.Time
	Replays          int
	State            State
	// Edited is when the payload was last replaced by hand; zero: never. Payload is what a
	// replay sends then, and Original what was received.
	Edited   time.Time
	Original []byte
	History  []Failure // oldest first, the newest 20 kept
	// Damaged says what is wrong with a letter whose stored bytes are not those that were
	// put: it is listed as far as it can be read and never replayed. Empty: sound.
	Damaged string
}

// Failure is one time a letter's message failed for good.
type Failure struct {
	At    time.Time     `json:"at"`
	Kind  tidemill.Kind `json:"kind"`
	Cause string        `json:"cause"`
	Tries int           `json:"tries"`
	// Answer is what the destination said to a replay; empty: nothing, nil: see Letter.Answer.
	Answer []byte `json:"answer,omitempty"`
}

// Answer is what the destination said the last time: to a replay, or what Row says of it.
func (l *Letter) Answer() []byte {
	for _, f := range slices.Backward(l.History) {
		if f.Answer != nil {
			return f.Answer
		}
	}
	return l.Row
}

// State of a letter.
type State string

const (
	Held      State = "held"
	Replaying State = "replaying"
)

// Store is all of the role.
type Store interface {
	// Put keeps one letter for each pipeline, tenant and message ID. A letter that is
	// there already takes the new message, row and failure, and keeps its Seq, First and
	// history; one that is replaying is held again. The same failure put once more (same
	// position, time and cause: an answer was lost) changes nothing. All or none are put.
	// A message at another position is another one that died at the source: the books
	// count it as put too, and the one it takes the place of as discarded.
	tidemill.DeadLetters
	// List yields letters in order of Seq: those that are there when it begins. It reads
	// page by page and holds nothing up; a letter that is gone by then is left out.
	List(ctx context.Context, f Filter) iter.Seq2[*Letter, error]
	// Count is how many letters match, without reading payloads.
	Count(ctx context.Context, f Filter) (int, error)
	// Replay marks matching held letters as replaying, durably, and says how many: they
	// come out of Open. Letters that die later are not among them.
	Replay(ctx context.Context, f Filter) (int, error)
	// Delete discards matching held letters, counted in the books, and says how many. It
	// is retention by age too: Before and Max.
	Delete(ctx context.Context, f Filter) (int, error)
	// Edit replaces the payload of a held letter: what a replay sends from then on, with the
	// whole work done anew (no Row, unless the Row is the payload itself). The payload as
	// received stays beside it through every further edit, until a message with another
	// payload than the edited one dies under this name. The same payload again changes
	// nothing. Errors: ErrNotFound, ErrReplaying, ErrDamaged.
	Edit(ctx context.Context, n Name, payload []byte) error
	// Open makes a source of a pipeline's replaying letters (tidemill.Bookkeeper, Keeper
	// too; traits Delays, Parks, Keep). Its messages are the letters' with Handed and Tries
	// counted anew and RowHeader set where there is a Row (but see Edit); a header of that
	// name that came from outside is left out. Their position is the replay and Seq.
	// Delivered or Skipped ends the letter; Dead (and a refused decode) makes it held again,
	// one replay more; Again and Left leave it replaying. Several sources may be open on one
	// pipeline; they hear of replays asked of the store that they were opened from.
	// Books: Accepted letters ever put, Settled.Delivered replayed with success,
	// Settled.Skipped discarded, replaced or skipped at replay, Pending those there are, Lost those
	// trimmed.
	Open(pipeline string) tidemill.Source
}
