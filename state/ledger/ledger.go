// Package ledger is the role of work that must happen once: entries by key, under a lease
// while the work runs, done with a result afterwards. Idempotency keys, the sync log and
// purchases are separate ledgers; package flow/once wraps any work with one.
//
// The states of an entry, and who changes them when:
//
//	           ┌───────────── Begin (lease over, or the same holder) ──┐
//	        Begin                                                      │
//	nothing ────────► Running ────────────────────────────────────────►┘
//	   ▲                 │ End
//	   │ Dropped         ├──► Done     Begin answers with the result; Anew opens it
//	   ├─────────────────┤
//	   │                 ├──► Failed   Begin opens it
//	   │ Expire          │
//	   └─── all but Held └──► Held     a person ends it, or Anew opens it
//
// Backends: tableledger, on any table (in memory, in SQLite and elsewhere), and redisledger and
// postgresledger, with scripts and statements of their own. Promises are cases of ledgertest.
package ledger

import (
	"context"
	"iter"
	"time"
)

// State of an entry.
type State uint8

const (
	Fresh    State = iota + 1 // Begin's answer: nobody worked on it, now the caller does
	Running                   // another holder works on it, its lease has not run out
	Done                      // finished, Result says how
	Held                      // its outcome is unknown: a person decides
	Failed                    // the last try failed; Begin makes it Fresh again
	Conflict                  // Begin's answer: the key stands for something else, the fingerprints differ
	Dropped                   // an End: nothing happened, the entry is removed as if never begun
)

// The largest lengths in bytes: these values come from outside, and are stored and indexed.
const (
	MaxKey   = 512 // of Key, and of Tenant, Type and Holder
	MaxPrint = 64  // of Print: a SHA-512
)

// Entry is one piece of work.
type Entry struct {
	// Key names the work: 1 to MaxKey bytes, any bytes. The caller that makes it scopes it
	// (tenant, route, pipeline), each part with its length or a separator that parts cannot
	// hold.
	Key    string
	Tenant string // with Type, Print and Payload kept by the first Begin
	Type   string
	Holder string // who works on it: the message's position; the same holder may begin again; empty: never the same holder
	// Call is a random number that names a Begin, so that it can be sent again when its
	// answer was lost: an entry that it had opened is Fresh again under the same token, not
	// Broken because of that, and its lease runs from now. 0: no name.
	Call                    uint64
	Token                   uint64 // fencing, set by Begin: an End under an older one is refused. Growing from call to call, never reused
	State                   State
	Result                  []byte    // of Done
	Payload                 []byte    // what the work is about
	Print                   []byte    // fingerprint of the request: another one under the same key is a Conflict; empty: not compared
	Tries                   int       // times begun
	Err                     string    // of the last failure; at most MaxErr bytes are kept
	Created, Started, Ended time.Time // set by the ledger, to the millisecond, UTC
	Stale                   bool      // End's answer: the token was not the newest, nothing was changed
	Broken                  bool      // Begin's answer beside Fresh: an earlier try began and never ended, so its effect may have happened
	// LastResult and LastErr are Begin's answer beside Fresh: Result and Err of the End
	// before this Begin, by any holder; empty without one. They are kept until the next End,
	// so that work which builds on earlier work finds it after its holder dies.
	LastResult []byte
	LastErr    string
}

// Filter chooses entries by time of creation, both ends included; zero fields match all.
type Filter struct {
	From, To     time.Time
	Back         bool   // from the newest to the oldest
	After        string // among those created in the millisecond of From only greater keys: From and After of the last entry give the next page. With Back of To, and lesser ones
	Tenant, Type string
	State        State
	Max          int
}

// Ledger is the role: what work that must happen once needs.
type Ledger interface {
	// Begin opens each entry under a lease, durably, and sets its fields as they are in the
	// ledger. Token is set where the answer is Fresh and zero elsewhere; Result is set where
	// it is Done. Of concurrent callers exactly one gets Fresh; the same Holder gets Fresh
	// again, with a newer token. A lease that ran out is taken over. Where the answer is
	// Fresh, LastResult and LastErr say what the End before wrote. A key given twice in one
	// call is Running the second time. Anew also opens entries that are Done or Held (replay).
	// Where both have a Print and these differ the answer is Conflict, whatever the entry's
	// state, and tells nothing else of it: the entry is not the caller's. An invalid entry
	// fails the whole call before anything is changed: see Entry.Check. After any other error
	// entries may be open or not: the same Begin again, with its Calls, finds out.
	Begin(ctx context.Context, es []*Entry, o Begin) error
	// End writes State (Done, Failed or Held), Result and Err of entries begun before,
	// durably, and sets Ended. Entries that are gone or have a newer token are Stale and
	// unchanged. A lease that ran out and was not taken over still counts. A Done entry
	// stays as it is: the same End sent again is not Stale and changes nothing, another one
	// is Stale. A Held entry can be ended by anyone with its token (a person, by Range or
	// Find). State Dropped removes the entry; one that is gone by then is not Stale.
	End(ctx context.Context, es []*Entry) error
}

// Begin tunes a call of Ledger.Begin.
type Begin struct {
	Lease time.Duration // 0 means 1 minute
	Anew  bool
}

// Log lets people read a ledger.
type Log interface {
	// Find sets each entry as it is in the ledger and opens nothing; State is zero for an
	// entry that does not exist.
	Find(ctx context.Context, es []*Entry) error
	// Range yields entries by time of creation, then by key, with Filter.Back in the opposite
	// order. It blocks nothing: it may or may not see what begins or ends meanwhile.
	Range(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
}

// Expirer keeps a ledger bounded.
type Expirer interface {
	// Expire removes entries that ended before the time, and those whose lease ran out
	// before it without a new holder. It removes the oldest by creation first, at most max
	// (0 means 1,000), and says how many. Held ones stay until a person has decided.
	Expire(ctx context.Context, before time.Time, max int) (int, error)
}

// Store is the whole role of every backend.
type Store interface {
	Ledger
	Log
	Expirer
}

// Transactor is a ledger in the same database as the handlers' data: effects and their End
// are committed together, or not at all. Tx is the transaction of the backend's connection.
type Transactor[Tx any] interface {
	// Within calls do with a transaction and ends the entries in it as End does, by the
	// State, Result and Err that they have when do returns. Where an entry is Stale nothing
	// is changed and the error is ErrStale: do is called only if the caller holds all
	// entries. An error of do is returned; then nothing is changed and the entries go on
	// running.
	//
	// After any other error, where the commit's answer was lost, it is not known whether it
	// happened. The same call again finds out: where all entries are Done under their
	// tokens do is not called, and that is success.
	Within(ctx context.Context, es []*Entry, do func(ctx context.Context, tx Tx) error) error
}
