package api

import (
	"io"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of any one thing, by its id.
var (
	Find = operation.View[FindQuery, FoundThings]("find", "find",
		"Find everything that has an id: events of all systems, jobs, dead letters, persons, windows, partners, queues, owners, operations. It makes point look-ups only, all systems at once, each for half a second at most, and says where it looked, where not, and why.").For(caller.Viewer).OfEach()
	Scan = operation.View[ScanQuery, Scanned]("scan", "find/scan",
		"Look through the jobs of all queues and owners for a text in their ids, and in their headers and payloads where the caller may see payloads. One request reads up to 100,000 jobs, for two seconds at most; next goes on.").For(caller.Operator).OfEach()
	Explain = operation.View[OneEvent, Explanation]("explain", "explain",
		"Explain the life of one event of a system: everything that happened to it, in order, its fate, what comes next, and what is no longer known. With format=text it is text to be pasted. It shows no payload.").For(caller.Viewer).OfEach()
)

// FindQuery says what is to be found.
type FindQuery struct {
	ID     string `query:"q" arg:"" name:"id" help:"The id: of an event, a job, an order, a dead letter (or its number), a person, a window or batch, a partner, a queue, an owner, an operation, a replay."`
	System string `query:"system" help:"Look in this system only." placeholder:"NAME"`
	Owner  string `query:"owner" help:"Only things of this owner: a site, a tenant, or a project by name or id." placeholder:"NAME"`
}

// FoundThings is what has an id.
type FoundThings struct {
	ID     string    `json:"id"`
	Hits   []Thing   `json:"hits"`   // what the form of the id hints at comes first
	Looked []Looked  `json:"looked"` // where it was looked for
	Missed []Looked  `json:"missed"` // where not, and why
	AsOf   time.Time `json:"as_of"`
}

// Thing is a thing that was found, or that another one is related to.
type Thing struct {
	Kind       string            `json:"kind"` // event, job, dead_letter, person, profile, order, window, entry, partner, queue, owner, operation, replay, audit_entry
	System     string            `json:"system,omitempty"`
	Owner      string            `json:"owner,omitempty"` // a site, a tenant, a project
	ID         string            `json:"id"`
	Text       string            `json:"text"`      // what it is, in a line
	Operation  string            `json:"operation"` // of this API, that shows it
	Parameters map[string]string `json:"parameters"`
}

// Looked is a place where something was looked for.
type Looked struct {
	System string `json:"system,omitempty"` // empty: it is of no single system
	Where  string `json:"where"`
	Why    string `json:"why,omitempty"` // it was not looked for there, or could not be
}

// ScanQuery says what is looked for, and where to go on.
type ScanQuery struct {
	Text   string `query:"q" arg:"" name:"text" help:"The text: part of an id, of a header's value, or of a payload."`
	Queue  string `query:"queue" help:"Look through this queue only." placeholder:"NAME"`
	Owner  string `query:"owner" help:"Only jobs of this owner, as queues name it." placeholder:"NAME"`
	Most   int    `query:"most" bounds:"1-100000" kong:"-" help:"Read at most so many jobs. Default: 100000."`
	Cursor string `query:"cursor" kong:"-" help:"Go on where another answer ended: its next."`
}

// Scanned is what a scan found.
type Scanned struct {
	Hits     []Thing `json:"hits"`           // at most 100
	Looked   int     `json:"looked"`         // jobs that were read
	Payloads bool    `json:"payloads"`       // headers and payloads were searched too
	Next     string  `json:"next,omitempty"` // goes on; left out: everything was looked through
}

// OneEvent names an event of a system.
type OneEvent struct {
	System string `query:"system" help:"The system that has it." placeholder:"NAME"`
	Owner  string `query:"owner" help:"Whose it is: a site, a tenant, or a project by name or id. Left out where it has none." placeholder:"NAME"`
	ID     string `query:"id" arg:"" name:"id" help:"The event's id; of a window batch/revision, of the bridge the entry's id."`
	Format string `query:"format" kong:"-" enum:",text" help:"text: as text, to be pasted into a ticket."`
}

// Fates of an event that is explained.
const (
	FateInFlight  = "in_flight"
	FateDelivered = "delivered"
	FateSkipped   = "skipped"
	FateDead      = "dead"
	FateUnknown   = "unknown" // what became of it is no longer known, or could not be asked
)

// Explanation is the life of an event.
type Explanation struct {
	System  string     `json:"system"`
	Kind    string     `json:"kind"` // event, window, entry
	Owner   string     `json:"owner,omitempty"`
	ID      string     `json:"id"`
	Type    string     `json:"type,omitempty"`
	Fate    string     `json:"fate"`    // in_flight, delivered, skipped, dead, unknown
	Summary string     `json:"summary"` // the fate in a sentence
	Steps   []Step     `json:"steps"`   // what happened, the oldest first; what has no time comes last
	Next    []string   `json:"next"`    // what comes next
	NextAt  *time.Time `json:"next_at,omitempty"`
	Unknown []string   `json:"unknown"` // what is not known, or no longer, and why
	Failed  []Looked   `json:"failed"`  // parts that could not be asked, and why
	AsOf    time.Time  `json:"as_of"`

	AsText bool `json:"-"` // answer with text
}

// Document is the explanation as text, where that was asked for.
func (e Explanation) Document() *operation.Document {
	if !e.AsText {
		return nil
	}
	return &operation.Document{Type: "text/plain; charset=utf-8", Write: func(w io.Writer) error {
		_, err := io.WriteString(w, e.Text())
		return err
	}}
}

// Step is one thing that happened, or that is the case now.
type Step struct {
	At      *time.Time `json:"at,omitempty"`      // left out: it is the case now, or its time is not known
	After   *float64   `json:"after,omitempty"`   // seconds since the step before
	What    string     `json:"what"`              // accepted, queued, waiting, running, routed, passed_over, published, tried, delivered, skipped, dead, edited, replaying, settled, record, closed, stored, person, merged
	Where   string     `json:"where"`             // the queue, partner, store or log that says so
	Text    string     `json:"text"`              // what happened, in a sentence
	Related []Thing    `json:"related,omitempty"` // things that it is about
}
