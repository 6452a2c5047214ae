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

// Entry is one piece of work. A Key is at most 512 bytes.
type Entry struct {
	Key                     string
	Tenant                  string
	Type                    string
	Holder                  string // who works on it: the message's position; the same holder may begin again
	Token                   uint64 // fencing, set by Begin: an End under an older one is refused
	State                   State
	Result                  []byte    // of Done
	Payload                 []byte    // kept by the first Begin
	Tries                   int       // times begun
	Err                     string    // of the last failure
	Created, Started, Ended time.Time // set by the ledger
	Stale                   bool      // End's answer: the token was not the newest, nothing was changed
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
	// Begin opens each entry under a lease, durably, and sets State, Token, Tries and
	// (Done) Result and Holder as they are in the ledger. Of concurrent callers exactly
	// one gets Fresh; the same Holder gets Fresh again, with a newer token. A lease that
	// ran out is taken over. A key given twice in one call is Running the second time.
	// Anew opens entries that are Done or Held too (replay).
	Begin(ctx context.Context, es []*Entry, o Begin) error
	// End writes State (Done, Failed or Held), Result and Err of entries begun before,
	// durably; those with an older token are Stale and unchanged.
	End(ctx context.Context, es []*Entry) error
	// Range yields entries by time of creation.
	Range(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
	// Expire removes entries that ended before, at most max, and says how many.
	Expire(ctx context.Context, before time.Time, max int) (int, error)
}

// Begin tunes a call of Ledger.Begin.
type Begin struct {
	Lease time.Duration // 0 means 1 minute
	Anew  bool
}
