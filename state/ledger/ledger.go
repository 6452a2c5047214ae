// Package ledger is the role of work that must happen once: entries by key, under a
// lease while the work runs, done with a result afterwards. Idempotency keys, the sync
// log and purchases are ledgers; package flow/once wraps any work with one.
//
// Backends: memoryledger, sqliteledger. Promises are cases of ledgertest.
package ledger

import (
	"context"
	"iter"
	"time"
)

// State of an entry.
type State uint8

const (
	Fresh   State = iota + 1 // Begin's answer: nobody works on it, now the caller does
	Running                  // another holder works on it, its lease has not run out
	Done                     // finished, Result says how
	Held                     // its outcome is unknown: a person decides
	Failed                   // the last try failed; Begin makes it Fresh again
)

// MaxKey is the largest length of a key in bytes: a key comes from outside and is stored
// in indexes.
const MaxKey = 512

// Entry is one piece of work.
type Entry struct {
	// Key names the work: 1 to MaxKey bytes, any bytes. Whoever makes it scopes it (tenant,
	// route, pipeline), each part with its length or a separator that parts cannot hold.
	Key                     string
	Tenant                  string // with Type and Payload kept by the first Begin
	Type                    string
	Holder                  string // who works on it: the message's position; the same holder may begin again; empty: nobody's, never the same
	Token                   uint64 // fencing, set by Begin: an End under an older one is refused. Growing over the whole ledger, never reused
	State                   State
	Result                  []byte    // of Done
	Payload                 []byte    // what the work is about, or its fingerprint
	Tries                   int       // times begun
	Err                     string    // of the last failure; at most MaxErr bytes are kept
	Created, Started, Ended time.Time // set by the ledger, to the millisecond, UTC
	Stale                   bool      // End's answer: the token was not the newest, nothing was changed
	Broken                  bool      // Begin's answer beside Fresh: an earlier try began and never ended, so its effect may be there
}

// Filter chooses entries by time of creation, both ends included; zero fields match all.
type Filter struct {
	From, To     time.Time
	Tenant, Type string
	State        State
	Max          int
}

// Ledger is the role.
type Ledger interface {
	// Begin opens each entry under a lease, durably, and sets its fields as they are in
	// the ledger; Token is set where the answer is Fresh and zero elsewhere, Result where
	// it is Done. Of concurrent callers exactly one gets Fresh; the same Holder gets Fresh
	// again, with a newer token. A lease that ran out is taken over. A key given twice in
	// one call is Running the second time. Anew opens entries that are Done or Held too
	// (replay). A bad key fails the whole call before anything is changed: see Entry.Check.
	Begin(ctx context.Context, es []*Entry, o Begin) error
	// End writes State (Done, Failed or Held), Result and Err of entries begun before,
	// durably, and sets Ended; those that are gone or have a newer token are Stale and
	// unchanged. A lease that ran out and was not taken over still counts. What is Done
	// stays as it is: the same End sent again is not Stale and changes nothing, another
	// one is Stale. A Held entry can be ended by whoever has its token (a person, by
	// Range).
	End(ctx context.Context, es []*Entry) error
	// Range yields entries by time of creation, then by key. It holds nothing up: what
	// begins or ends meanwhile may or may not be seen.
	Range(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
	// Expire removes entries that ended before, and those whose lease ran out before and
	// that nobody took over, the oldest by creation first, at most max (0 means 1,000),
	// and says how many. Held ones stay until a person has decided.
	Expire(ctx context.Context, before time.Time, max int) (int, error)
}

// Begin tunes a call of Ledger.Begin.
type Begin struct {
	Lease time.Duration // 0 means 1 minute
	Anew  bool
}
