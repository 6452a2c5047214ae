package api

import (
	"encoding/json"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of dead letters.
var (
	ListDead = operation.List[DeadFilter, ListedDead]("listDead", "dead",
		"List dead letters; with format=export in the form of programs outside.").For(caller.Viewer).OfEach().AsExport()
	GroupDead = operation.View[GroupsOf, DeadGroups]("groupDead", "dead/groups",
		"Count the dead letters by pipeline, kind and cause without its numbers, the largest groups first. They are read once for all who ask, every second, or every ten seconds where that takes long; and anew after a change.").For(caller.Viewer).OfEach()
	GetDead = operation.View[OneDead, DeadLetter]("getDead", "dead/{letter}",
		"Show one dead letter: payload as received, every failure.").For(caller.Viewer).OfEach()
	GetDeadPayload = operation.View[OneDead, operation.Payload]("getDeadPayload", "dead/{letter}/payload",
		"Get the payload of a dead letter alone, byte for byte: as received, or as it was edited. It is refused to those for whom something of it is covered.").For(caller.Viewer).OfEach()
	GetDeadOriginal = operation.View[OneDead, operation.Payload]("getDeadOriginal", "dead/{letter}/original",
		"Get the payload of a dead letter as received, byte for byte, also after an edit. It is refused to those for whom something of it is covered.").For(caller.Viewer).OfEach()
	EditDead = operation.Editing(operation.Put[DeadEdit, DeadLetter]("editDead", "dead/{letter}/payload",
		"Replace the payload of a dead letter by the body of the request; the original stays beside it. An empty body needs empty=true.").For(caller.Operator).OfEach(), GetDead.Description)
	ReplayDead = operation.Act[DeadMove, Moved]("replayDead", "dead/replay",
		"Send dead letters the whole way again.").For(caller.Operator).OfEach()
	DeleteDead = operation.Act[DeadMove, Moved]("deleteDead", "dead/delete",
		"Discard dead letters. They are counted as discarded. More than 10,000 need a login that is not older than 15 minutes.").For(caller.Operator).OfEach()
)

// Dead chooses dead letters.
type Dead struct {
	Seq      []int64  `query:"seq" json:"seq,omitempty" help:"Only the dead letters with these numbers." placeholder:"N"`
	Pipeline string   `query:"pipeline" json:"pipeline,omitempty" help:"Only dead letters of this pipeline." placeholder:"NAME"`
	Partner  string   `query:"partner" json:"partner,omitempty" help:"Only dead letters of this partner." placeholder:"NAME"`
	System   string   `query:"system" json:"system,omitempty" help:"Only dead letters of this system; needed if two systems have the same number." placeholder:"NAME"`
	Project  string   `query:"project" json:"project,omitempty" help:"Only dead letters of this project." placeholder:"NAME"`
	Site     string   `query:"site" json:"site,omitempty" help:"Only dead letters of this site." placeholder:"ID"`
	Tenant   string   `query:"tenant" json:"tenant,omitempty" help:"Only dead letters of this tenant of CRM." placeholder:"ID"`
	Kind     []string `query:"kind" json:"kind,omitempty" help:"Only failures of these kinds, which are more exact than reasons: validation, transient, timeout, internal, unknown…" placeholder:"KIND"`
	Reason   []string `query:"reason" json:"reason,omitempty" help:"Only these reasons: validation, timeout, rate_limit, partner_error, unknown." placeholder:"REASON"`
	Cause    string   `query:"cause" json:"cause,omitempty" help:"Only those that died of this: the whole of a cause, in which numbers do not count, as groups of dead letters have it." placeholder:"TEXT"`
	Span
	Max int `query:"max" json:"max,omitempty" help:"At most this many." short:"n"`
}

// DeadFilter chooses what is listed.
type DeadFilter struct {
	IDs []string `query:"id" kong:"-" help:"Only dead letters of these messages."`
	Dead
	operation.Page
	Text   string `query:"text" looks:"all" help:"Only those that have this text in their cause, or in their payload where the caller may see all of it, byte for byte. Other filters say where to look: at least one." placeholder:"TEXT"`
	State  string `query:"state" help:"Only dead letters that are held, or that are being replayed." enum:",held,replaying" default:"" placeholder:"held|replaying"`
	Format string `query:"format" kong:"-" help:"export: the form for other programs." enum:",export"`
}

// DeadMove chooses what is changed. To mean all of them is to say so.
type DeadMove struct {
	IDs []string `query:"id" arg:"" optional:"" name:"id" help:"Message ids of the dead letters, as dead list shows them."`
	Dead
	State  string `query:"state" kong:"-" help:"Only held ones can be changed, not those that are being replayed." enum:",held,replaying"`
	All    bool   `query:"all" help:"All dead letters."`
	DryRun bool   `query:"dry_run" help:"Only say how many."`
}

// Moved says how many were moved, or would be.
type Moved struct {
	AsOf    time.Time `json:"as_of"` // what died again in the replay has died later
	Count   int       `json:"count"`
	AtLeast bool      `json:"at_least,omitempty"` // there may be more: a dry run counts for two seconds
}

// OneDead names a dead letter.
type OneDead struct {
	Letter   string `path:"letter" arg:"" name:"id" help:"The message's id, as dead list shows it, or the dead letter's number."`
	Pipeline string `query:"pipeline" help:"The pipeline that it died in; needed if two pipelines have the id." placeholder:"NAME"`
	System   string `query:"system" help:"Its system; needed if two systems have the number." placeholder:"NAME"`
}

// GroupsOf chooses groups of dead letters.
type GroupsOf struct {
	Max int `query:"max" kong:"-" help:"At most this many, the largest."`
}

// DeadGroups are the dead letters by why they died.
type DeadGroups struct {
	Groups []DeadGroup `json:"groups"`         // at most 500, the largest first
	More   int         `json:"more,omitempty"` // groups that are left out, as no more were asked for
	Other  int         `json:"other"`          // dead letters that are in none of them
	AsOf   time.Time   `json:"as_of,omitzero"` // left out in the topic
}

// DeadGroup is how many dead letters are there for the same cause.
type DeadGroup struct {
	System   string `json:"system,omitempty"`
	Pipeline string `json:"pipeline"`
	Partner  string `json:"partner,omitempty"`
	Kind     string `json:"kind"`
	Reason   string `json:"reason"`
	Cause    string `json:"cause"` // with # for its numbers
	Count    int    `json:"count"` // held or being replayed
}

// InSystem is its system.
func (l DeadLetter) InSystem() string { return l.System }

// DeadEdit is a dead letter's new payload.
type DeadEdit struct {
	OneDead
	Seen
	operation.NewPayload
}

// DeadLetter is a message that was given up.
type DeadLetter struct {
	Seq             int64           `json:"seq"`
	ID              string          `json:"id"`
	Pipeline        string          `json:"pipeline"`
	System          string          `json:"system,omitempty"`     // whose pipeline it is
	Partner         string          `json:"partner,omitempty"`    // that did not take it
	Project         string          `json:"project_id,omitempty"` // whose it is, where that is a project of analytics
	Site            string          `json:"site,omitempty"`       // whose it is, anywhere else
	Tenant          string          `json:"tenant,omitempty"`     // whose it is, of events of CRM
	Type            string          `json:"type,omitempty"`
	State           string          `json:"state"`  // held, replaying
	Reason          string          `json:"reason"` // validation, timeout, rate_limit, partner_error, unknown
	Kind            string          `json:"kind"`
	Cause           string          `json:"cause"`
	Tries           int             `json:"tries"` // failed ones, the last included
	Replays         int             `json:"replays"`
	First           time.Time       `json:"first_failed_at"`
	Last            time.Time       `json:"last_failed_at"`
	ETag            string          `json:"etag" etagOf:"payload,payload_base64"` // of its payload: what an edit\'s If-Match is compared with
	Payload         string          `json:"payload,omitempty" covered:"payload"`
	PayloadBase64   string          `json:"payload_base64,omitempty" covered:"payload"`
	Covered         bool            `json:"covered,omitempty"`   // something of its payload is covered here
	Edited          *time.Time      `json:"edited_at,omitempty"` // the payload was replaced by hand; what was received is the original
	Original        string          `json:"original_payload,omitempty" covered:"payload"`
	OriginalBase64  string          `json:"original_payload_base64,omitempty" covered:"payload"`
	OriginalCovered bool            `json:"original_covered,omitempty"`      // something of the original is covered here
	Fields          []Field         `json:"fields,omitempty"`                // its headers, or the fields of a stream entry, as received
	Damaged         string          `json:"damaged,omitempty"`               // its stored bytes are not those that were put
	Row             json.RawMessage `json:"row,omitempty" covered:"payload"` // what the work had made of it, or the destination's answer
	Attempts        []Attempt       `json:"attempts,omitempty"`              // failed tries before the last one
	History         []Failure       `json:"history,omitempty"`               // each time it died
}

// Version is the ETag.
func (l DeadLetter) Version() string { return l.ETag }

// Failure is a time that a message died.
type Failure struct {
	Attempt
	Tries  int             `json:"tries"`
	Answer json.RawMessage `json:"answer,omitempty" covered:"payload"` // of the destination to a replay
}

// ListedDead is a dead letter of a listing, in one form or the other.
type ListedDead struct {
	DeadLetter
	Export   *ExportedDead
	Position string `json:"-"` // in the listing
}

// PageKey is its position.
func (l ListedDead) PageKey() string { return l.Position }

// OneOf are both forms.
func (ListedDead) OneOf() []any { return []any{DeadLetter{}, ExportedDead{}} }

// MarshalJSON writes the form that was asked for.
func (l ListedDead) MarshalJSON() ([]byte, error) {
	if l.Export != nil {
		return json.Marshal(l.Export)
	}
	return json.Marshal(&l.DeadLetter)
}

// UnmarshalJSON reads what is no export.
func (l *ListedDead) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &l.DeadLetter) }

// ExportedDead is a dead letter in the form that programs outside read, all of what they need
// to deliver or to explain it. The payload is text, byte for byte as received.
type ExportedDead struct {
	Original       string    `json:"originalPayload" covered:"payload"`
	OriginalBase64 string    `json:"originalPayloadBase64,omitempty" covered:"payload"` // where it is no text
	Error          string    `json:"error"`
	Attempts       int       `json:"attempts"` // all tries there ever were
	First          time.Time `json:"firstFailure"`
	Last           time.Time `json:"lastFailure"`
	Queue          string    `json:"queue"`
	Reason         string    `json:"reason"`
	ID             string    `json:"id"`
	Kind           string    `json:"kind"`
	Partner        string    `json:"partner,omitempty"`
	Site           string    `json:"site,omitempty"`
	Edited         *string   `json:"editedPayload,omitempty" covered:"payload"`
	EditedBase64   string    `json:"editedPayloadBase64,omitempty" covered:"payload"`
	Response       *Response `json:"response,omitempty"`
}

// Response is what the destination answered the last time. The delivery pipelines keep it as the
// letter's row in this very form.
type Response struct {
	Status     int    `json:"status"`
	Body       string `json:"body" covered:"payload"`
	BodyBase64 string `json:"bodyBase64,omitempty" covered:"payload"` // where it is no text
}
