// Package trail is the role of the audit trail: who did what, from where, when, and what came of it.
// What is to be done is written before its effect, and what came of it after: of a process that died
// between them the trail says that nobody knows. It is only ever added to, and each entry has the
// hash of the one before, so that Check finds what was changed or taken away.
//
// Backend: tabletrail, on any table. Promises are cases of trailtest.
package trail

import (
	"context"
	"time"
)

// Outcomes of an entry.
const (
	Unknown = "unknown" // it has begun, and did not end, or has not ended yet
	Done    = "done"
	Refused = "refused" // nothing was done: by right, by state, or because it was asked wrongly
	Failed  = "failed"  // all, a part or nothing of it was done
)

// Entry is something that somebody did. Times are in whole milliseconds.
type Entry struct {
	Seq       uint64    `json:"seq"` // grows by one from entry to entry; ends of entries take one too
	At        time.Time `json:"at"`
	Who       string    `json:"who"`
	Role      string    `json:"role"`
	Via       string    `json:"via"`               // how they came in
	From      string    `json:"from,omitempty"`    // the address; empty: the process itself
	Session   string    `json:"session,omitempty"` // its id
	Operation string    `json:"operation"`
	Thing     string    `json:"thing,omitempty"`  // what it was done to: a queue, a user
	Filter    string    `json:"filter,omitempty"` // the parameters, without what is secret
	Request   string    `json:"request,omitempty"`
	Trace     string    `json:"trace,omitempty"` // that the request is part of

	End
}

// End is what came of an entry.
type End struct {
	Outcome string    `json:"outcome"`
	Ended   time.Time `json:"ended,omitzero"`
	Status  int       `json:"status,omitempty"` // of HTTP
	Detail  string    `json:"detail,omitempty"` // why it was refused or failed
	Before  string    `json:"before,omitempty"` // JSON, where it is known
	After   string    `json:"after,omitempty"`
}

// Most bytes of an entry's texts; longer ones are cut.
const Most = 4 << 10

// Filter chooses entries; the zero value all.
type Filter struct {
	Who       string
	Operation string
	Thing     string
	Outcome   string
	After     time.Time // at this time or later
	Before    time.Time // before this time
	Beyond    uint64    // beyond the entry of this number, in the order of the listing; 0: from its beginning
	Back      bool      // the newest first
	Most      int       // 1 or more
}

// Trail keeps the audit trail.
type Trail interface {
	// Begin writes an entry before its effect, and returns its number. Seq and End of e are ignored.
	Begin(ctx context.Context, e Entry) (uint64, error)
	// End writes what came of an entry. To end one again, or one that there is not, is an error.
	End(ctx context.Context, seq uint64, end End) error
	// List returns entries, the oldest first unless Back.
	List(ctx context.Context, f Filter) ([]Entry, error)
	// Check reads all of the trail, and says what is wrong with it: nothing where it is whole.
	Check(ctx context.Context) (Checked, error)
	// Expire forgets the oldest entries: those before a time, and those over so many, ends of entries
	// counted too. It forgets at most a thousand at once, and says how many. The newest one stays.
	Expire(ctx context.Context, before time.Time, over int) (int, error)
}

// Checked is what a check of the trail found.
type Checked struct {
	Entries int      // that were read, ends not counted
	First   uint64   // the oldest number; those before were forgotten by Expire
	Last    uint64   // the newest number
	Head    string   // the hash of the newest: kept elsewhere, it proves later that nothing was changed until it
	Wrong   []string // what is wrong, the first hundred of it
}
