package api

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/queue"
)

// Of the audit trail.
var (
	ListAuditTrail = operation.List[TrailFilter, TrailEntry]("listAuditTrail", "audit-trail",
		"List who did what: each change through the API, also those that were refused or failed, and each login. Taking in events is not among them.").AsExport()
	CheckAuditTrail = operation.View[operation.None, TrailCheck]("checkAuditTrail", "audit-trail/check",
		"Read all of the audit trail, and say whether something in it was changed or taken away.")
	ListChanges = operation.List[ChangesOf, Change]("listChanges", "changes",
		"List the last changes by people, or those of one thing. Where very many entries of the audit trail are none that the caller may see, the last line says in looked how many were looked at: older ones were not.").For(caller.Viewer).OfEach()
)

// TrailFilter chooses entries of the audit trail.
type TrailFilter struct {
	Who       string `query:"who" help:"Only what this person or token did: ada, token:ci, key:admin." placeholder:"NAME"`
	Operation string `query:"operation" help:"Only this operation: pauseQueue, login." placeholder:"NAME"`
	Thing     string `query:"thing" help:"Only what was done to this: the name of a queue, of a user." placeholder:"NAME"`
	Outcome   string `query:"outcome" help:"Only entries of this outcome: done, refused, failed, or unknown, of those that did not end." enum:",done,refused,failed,unknown" default:"" placeholder:"OUTCOME"`
	Span
	operation.Page
	Max int `query:"max" help:"At most this many." short:"n"`
}

// TrailEntry is something that somebody did.
type TrailEntry struct {
	Seq       uint64          `json:"seq"`
	At        time.Time       `json:"at"`
	Who       string          `json:"who"`
	Role      string          `json:"role,omitempty"`
	Via       string          `json:"via"`            // how they came in
	From      string          `json:"from,omitempty"` // the address; left out: the process itself
	Session   string          `json:"session,omitempty"`
	Operation string          `json:"operation"`
	Thing     string          `json:"thing,omitempty"`      // what it was done to
	Filter    string          `json:"filter,omitempty"`     // the parameters
	Request   string          `json:"request_id,omitempty"` // as in logs and problems
	Trace     string          `json:"trace_id,omitempty"`   // that the request is part of, as its traceparent says
	Outcome   string          `json:"outcome"`              // done, refused, failed, unknown
	Ended     *time.Time      `json:"ended_at,omitempty"`
	Status    int             `json:"status,omitempty"` // of HTTP
	Detail    string          `json:"detail,omitempty"` // why it was refused or failed
	Before    json.RawMessage `json:"before,omitempty"` // what was changed, where it is known
	After     json.RawMessage `json:"after,omitempty"`  // what it is now
}

// PageKey is its number.
func (e TrailEntry) PageKey() string { return strconv.FormatUint(e.Seq, 10) }

// TrailCheck is what a check of the audit trail found.
type TrailCheck struct {
	Whole   bool     `json:"whole"`
	Entries int      `json:"entries"`
	First   uint64   `json:"first"` // the oldest number: those before were forgotten for their age
	Last    uint64   `json:"last"`
	Head    string   `json:"head"`  // the hash of the newest: kept elsewhere, it proves later that nothing before was changed
	Wrong   []string `json:"wrong"` // the first hundred findings
}

// ChangesOf chooses changes.
type ChangesOf struct {
	Thing     string   `query:"thing" help:"Only changes of this: the name of a queue, of a pipeline, of a project; beside operation also of what is in it, as a key of a project." placeholder:"NAME"`
	Operation []string `query:"operation" help:"Only changes by these operations: pausePipeline; of login, logout and those of saved views, which are no changes, too." placeholder:"NAME"`
	Owner     string   `query:"owner" help:"Only changes of the limit that this owner has of its own in a queue." placeholder:"NAME"`
	Max       int      `query:"max" bounds:"1-100" help:"At most so many, the newest first, up to 100. Default: 20." short:"n"`
}

// Change is a change that somebody made.
type Change struct {
	At        time.Time `json:"at"`
	Who       string    `json:"who"`
	Operation string    `json:"operation"`
	Thing     string    `json:"thing,omitempty"`
	Outcome   string    `json:"outcome"`

	Before *queue.Settings `json:"before,omitempty"` // of a queue, where its settings were changed
	After  *queue.Settings `json:"after,omitempty"`
}
