package accept

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// MaxAnswer is how large an answer grows by the reasons of refused events. Beyond it events are
// refused without every reason.
const MaxAnswer = 256 << 10

// Request is what a sender sent. The Acceptor keeps neither it nor anything in it.
type Request struct {
	Site  string
	Scope string // scope of its keys: keys of one endpoint mean nothing to another; at most 32 bytes
	Key   string // its idempotency key; empty only where every item that is not refused has its own key, or needs none
	Body  []byte // what Key belongs to: Key with another body is refused
	Items []Item

	Low    bool             // its sender says that it can wait
	Header []tidemill.Field // of every job

	// Admit is asked whether so many new events may come in, before they are put into queues.
	// Accept returns its error, and nothing is kept. Nil: they may.
	Admit func(events int) error
	// Return takes back what was admitted: the events were not put into queues, and Admit may
	// be asked again. Nil where Admit is nil.
	Return func()
}

// Item is an event of a request.
type Item struct {
	Raw     []byte // as received
	Event   event.Event
	Refused *event.Invalid  // why it is not accepted; nil: it may be
	Trace   *tidemill.Trace // its jobs go on under it; nil: under that of Header, if it has one
	Note    []byte          // JSON that the answer carries under "partners" if the item is accepted; nil: nothing
}

// Answer is what became of a request.
type Answer struct {
	// Results is a JSON array with an object for each item, in their order:
	//
	//	{"eventId":"…","status":"accepted"}
	//	{"eventId":"…","status":"duplicate","duplicateOf":"…"}
	//	{"eventId":"…","status":"rejected","error":"validation_failed","details":[…]}
	//
	// The same request gets the same bytes.
	Results []byte
	Again   bool // the request was answered before; this is that answer

	Accepted, Duplicate, Rejected int // items; all zero where Again is true

	Repeated []int // items whose own key was answered before: Results has those answers
}

// The longest part of a ledger's key. A longer part goes in as its hash.
const maxPart = ledger.MaxKey - 150

// name makes a ledger's key of parts. Only the last one may have a zero byte.
func name(what, site, last string) string {
	if len(last) > maxPart {
		sum := sha256.Sum256([]byte(last))
		return what + "#\x00" + site + "\x00" + hex.EncodeToString(sum[:])
	}
	return what + "\x00" + site + "\x00" + last
}
