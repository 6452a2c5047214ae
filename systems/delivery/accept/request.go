package accept

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// MaxAnswer is how large an answer grows by what is wrong with events: beyond it, events
// are said to be refused without every reason.
const MaxAnswer = 256 << 10

// Request is what somebody sent. It is not kept, nor is anything in it.
type Request struct {
	Site  string
	Scope string // in which its keys are keys: those of one door say nothing to another's; at most 32 bytes
	Key   string // its idempotency key; empty only where every item that is not refused has its own, or needs none
	Body  []byte // of which Key is the key: with another body it is refused
	Items []Item

	Low    bool             // its sender says that it can wait
	Header []tidemill.Field // of every job

	// Admit is asked whether so many events that are new may come in, before they are put
	// into queues. Its error is Accept's then, and nothing is kept. Nil: they may.
	Admit func(events int) error
	// Return takes back what was admitted: the events were not put into queues, and Admit
	// may be asked again. Nil where Admit is.
	Return func()
}

// Item is an event of a request.
type Item struct {
	Raw     []byte // as received
	Event   event.Event
	Refused *event.Invalid // why it is not accepted; nil: it may be
	Note    []byte         // JSON that its answer carries under "partners" where it is accepted; nil: nothing
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
	Again   bool // the request was answered before, and this is that answer

	Accepted, Duplicate, Rejected int // items; all zero where Again is true

	Repeated []int // items whose own key was answered before: Results have those answers
}

// The longest parts of a ledger's key: what is longer goes in as its hash.
const maxPart = ledger.MaxKey - 150

// name makes a ledger's key of parts that have no zero byte, but for the last one.
func name(what, site, last string) string {
	if len(last) > maxPart {
		sum := sha256.Sum256([]byte(last))
		return what + "#\x00" + site + "\x00" + hex.EncodeToString(sum[:])
	}
	return what + "\x00" + site + "\x00" + last
}
