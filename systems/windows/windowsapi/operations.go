package windowsapi

import (
	"encoding/json"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of windows, and of the index behind them. A window's id is its batch id and its revision with a
// slash between: both are a part of the path, or the id is one part with its slash escaped.
var (
	ListWindows = operation.List[WindowFilter, Window]("listWindows", "windows",
		"List windows.").For(caller.Viewer)
	GetWindows = operation.View[operation.None, Windows]("getWindows", "windows/status",
		"Show how windows stand: counts and ages by state, processors.").For(caller.Viewer)
	GetWindow = operation.View[OneWindow, StandingWindow]("getWindow", "windows/{id}",
		"Show one window, and why it is where it is.").For(caller.Viewer)
	GetRecords = operation.View[RecordsOf, RecordPage]("getRecords", "windows/{id}/records",
		"Show a page of a window's records, fewer than asked for where they are large.").For(caller.Viewer)
	GetRevision = operation.View[OneRevision, StandingWindow]("getRevision", "windows/{batch}/{revision}",
		"Show one window by batch id and revision.").For(caller.Viewer)
	GetRevisionRecords = operation.View[RecordsOfRevision, RecordPage]("getRevisionRecords", "windows/{batch}/{revision}/records",
		"Show a page of a window's records by batch id and revision.").For(caller.Viewer)
	CloseWindow = operation.Act[OneBatch, ClosedWindow]("closeWindow", "windows/{batch}/close",
		"Close the window of a batch id now: what is there is delivered.").For(caller.Operator)
	ReplayWindows = operation.Act[WindowMove, api.Counted]("replayWindows", "windows/replay",
		"Deliver parked windows again.").For(caller.Operator)
	SendRecords = operation.Act[SentRecords, StoredRecords]("sendRecords", "windows/records",
		"Put records into the window of a batch id without a key of the project: an array, one object, or one object a line. It answers when they are durable.").AsIngest()
	AdoptWindows = operation.Act[Adoption, AdoptedWindows]("adoptWindows", "windows/adopt",
		"Take over what the program that this replaces has collected in Redis.").WithLogin()
	ListFiles = operation.View[operation.None, Feeds]("listFiles", "windows/files",
		"Show where files come from, those that are being read, and why one cannot be.").For(caller.Viewer)
	GiveUpFile = operation.Act[FileToGiveUp, GivenUpFile]("giveUpFile", "windows/files/give-up",
		"Give up a file that cannot be read any more: its rows that have not ended are lost, and the books say so.")
	Search = operation.View[SearchQuery, Found]("search", "search",
		"Search the records that windows have delivered, the newest first.").For(caller.Operator)
)

// WindowFilter chooses windows.
type WindowFilter struct {
	IDs     []string `query:"id" kong:"-" help:"Only windows of these ids."`
	Batch   string   `query:"batch" help:"Only windows of this batch id." placeholder:"ID"`
	Project string   `query:"project" help:"Only windows of this project, by name or id." placeholder:"NAME"`
	State   string   `query:"state" help:"Only windows of this state: active, ready, leased or parked." enum:",active,ready,leased,parked" default:"" placeholder:"STATE"`
	operation.Page
	Max int `query:"max" kong:"-" help:"At most this many."`
}

// Window is a window. Ages are by the store's clock.
type Window struct {
	ID       string     `json:"id"`
	Batch    string     `json:"batch"`
	Project  string     `json:"project"` // its name; one that is not known any more by its id
	Revision uint64     `json:"revision"`
	State    string     `json:"state"` // active, ready, leased, parked
	Records  int64      `json:"records"`
	Bytes    int64      `json:"bytes"`            // of their bodies, about
	Expect   int64      `json:"expect,omitempty"` // records there are to be, where somebody told
	Lost     int64      `json:"lost"`             // records that were found missing
	Opened   time.Time  `json:"opened_at"`
	Age      float64    `json:"age_seconds"` // since it was opened
	Closed   *time.Time `json:"closed_at,omitempty"`
	Why      string     `json:"closed_by,omitempty"`    // time, count, hand
	Due      *time.Time `json:"due_at,omitempty"`       // active: it is closed then; ready: not handed out before
	Owner    string     `json:"owner,omitempty"`        // leased: who has it
	Lease    *time.Time `json:"leased_until,omitempty"` // leased: unless it is renewed
	Handed   int        `json:"handed"`                 // hand-outs since it was closed or replayed
	Tries    int        `json:"tries"`                  // failed, among them
	Replays  int        `json:"replays"`
	Failed   *time.Time `json:"failed_at,omitempty"` // the last failed try
	Kind     string     `json:"kind,omitempty"`      // of that
	Error    string     `json:"error,omitempty"`     // of that
	Position string     `json:"-"`                   // in a listing
}

// PageKey is its position.
func (w Window) PageKey() string { return w.Position }

// OneWindow names a window.
type OneWindow struct {
	ID      string `path:"id" kong:"-"`
	Project string `query:"project" help:"Project, by name or id. Needed only if several have windows of the id." placeholder:"NAME"`
}

// OneRevision names a window by its batch id and its revision.
type OneRevision struct {
	Batch    string `path:"batch"`
	Revision string `path:"revision"`
	Project  string `query:"project" help:"Project, by name or id. Needed only if several have windows of the id."`
}

// StandingWindow is a window with why it is where it is.
type StandingWindow struct {
	Window
	Waits   string           `json:"waits_for"` // records, retry, older, resume, start, topics, turn, delivery, lease, replay
	Until   *time.Time       `json:"waits_until,omitempty"`
	Behind  string           `json:"behind,omitempty"`  // the window that goes first
	Because string           `json:"because,omitempty"` // nothing can be sent
	Kinds   map[string]int64 `json:"kinds"`             // records by kind, of those that were counted
	Damaged int64            `json:"damaged"`           // of those, too
	Counted int64            `json:"counted"`           // records that were looked at: not all of a large window
}

// Page is a part of something long.
type Page struct {
	Size  int    `query:"size" help:"At most this many on a page; 0: the default."`
	After string `query:"after" help:"Where the page begins: next of the page before."`
}

// RecordsOf asks for records of a window.
type RecordsOf struct {
	OneWindow
	Page
}

// RecordsOfRevision is the same by batch id and revision.
type RecordsOfRevision struct {
	OneRevision
	Page
}

// RecordPage is a page of records.
type RecordPage struct {
	Records []operation.JSON[Record] `json:"records"`
	Next    string                   `json:"next,omitempty"` // after of the next page; none: that was the last
	Lost    int                      `json:"lost,omitempty"` // found missing; the last page alone says so
}

// Record is a record of a window, byte for byte as received.
type Record struct {
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	Qualifier     string `json:"qualifier,omitempty"`
	Payload       string `json:"payload,omitempty" covered:"payload"`
	PayloadBase64 string `json:"payload_base64,omitempty" covered:"payload"`
	Damaged       string `json:"damaged,omitempty"` // its stored bytes are not those that were put
}

// OneBatch names what collects under a batch id.
type OneBatch struct {
	Batch   string `path:"batch" arg:"" help:"Its batch id."`
	Project string `query:"project" help:"Project, by name or id. Needed only if several collect under the batch id." placeholder:"NAME"`
}

// ClosedWindow is a window that was closed.
type ClosedWindow struct {
	Batch   string `json:"batch"`
	Closed  bool   `json:"closed"`
	Project string `json:"project"`
}

// WindowMove chooses what is replayed. To mean all of them is to say so.
type WindowMove struct {
	IDs     []string `query:"id" arg:"" optional:"" name:"id" help:"Windows, as tidemill window list --state parked shows them."`
	Batch   string   `query:"batch" help:"Only windows of this batch id." placeholder:"ID"`
	Project string   `query:"project" help:"Only windows of this project, by name or id. Needed if several have matching windows." placeholder:"NAME"`
	State   string   `query:"state" kong:"-" help:"Only parked ones can be replayed." enum:",active,ready,leased,parked"`
	Max     int      `query:"max" help:"At most this many, the oldest first." short:"n"`
	All     bool     `query:"all" help:"All parked windows."`
	DryRun  bool     `query:"dry_run" help:"Only say how many."`
}

// SentRecords are records that are sent.
type SentRecords struct {
	Batch   string `query:"batch" help:"Batch id: its records belong together."`
	Kind    string `query:"kind" help:"What the records are: event or mention."`
	Project string `query:"project" help:"Project of the batch, by name or id. Default: windows.project of the configuration."`
	Expect  int    `query:"expect" help:"How many records the batch will have, all kinds together: its window closes when they are there."`
	Body    []byte `body:"application/json" mib:"8"`
}

// StoredRecords is what became of records.
type StoredRecords struct {
	Stored     int             `json:"stored"`     // in their window, durable
	Duplicates int             `json:"duplicates"` // their window had a record of that name, which they replace
	Refused    []RefusedRecord `json:"refused"`    // the others are not held up by them
}

// RefusedRecord is one that is wrong.
type RefusedRecord struct {
	Index int    `json:"index"` // its place in the request, from 0
	Error string `json:"error"`
}

// Adoption says what is taken over.
type Adoption struct {
	Prefix  string `query:"prefix" help:"The prefix of its keys, before active:batches and the others. Default: none." placeholder:"TEXT"`
	Project string `query:"project" help:"Project of the batches, by name or id. Default: windows.project of the configuration." placeholder:"NAME"`
	DryRun  bool   `query:"dry_run" help:"Only say how many."`
}

// AdoptedWindows is what was taken over of another program, or would be.
type AdoptedWindows struct {
	Batches int `json:"batches"`
	Records int `json:"records"`
	Lost    int `json:"lost"` // ids whose record was gone: they are booked as dead
}

// Windows is how the system stands.
type Windows struct {
	States     map[string]WindowDepth `json:"states"`   // active, ready, leased, parked
	Lost       uint64                 `json:"lost"`     // records ever found missing, booked as dead
	Closed     uint64                 `json:"closed"`   // windows that this instance closed because they were over
	Delivery   WindowDelivery         `json:"delivery"` // in this instance
	Processors []Processor            `json:"processors"`
}

// WindowDepth is how much there is in one state.
type WindowDepth struct {
	Windows int64      `json:"windows"`
	Records int64      `json:"records"`
	Oldest  *time.Time `json:"oldest_opened_at,omitempty"`
	Age     float64    `json:"oldest_age_seconds"` // 0: there is none
}

// WindowDelivery is whether the delivery goes on.
type WindowDelivery struct {
	State   string `json:"state"`
	Breaker string `json:"breaker"`
	Why     string `json:"breaker_why,omitempty"`
}

// Processor is what a processor has done since the start of this instance.
type Processor struct {
	Name    string  `json:"name"`
	Records uint64  `json:"records"`
	Skipped uint64  `json:"skipped"`
	Dead    uint64  `json:"dead"`
	Failed  uint64  `json:"failed"`
	Seconds float64 `json:"seconds"`
}

// Feeds are where files come from.
type Feeds struct {
	Feeds []Feed `json:"feeds"`
}

// Feed is how the reading of files stands.
type Feed struct {
	Feed   string     `json:"feed"`
	From   string     `json:"from"`
	Files  []FeedFile `json:"files"`       // that are being read
	Done   uint64     `json:"done"`        // files that were read, ever
	Broken uint64     `json:"refused"`     // files that were refused, ever
	Rows   uint64     `json:"rows"`        // records of files that were accepted, ever
	Idless uint64     `json:"idless_rows"` // rows without an id, which are skipped
	Lost   uint64     `json:"lost_rows"`   // that were given up with their files
	Unread int        `json:"unread"`      // in the folder that are no files, links for instance
}

// FeedFile is a file of which rows have not ended.
type FeedFile struct {
	Name    string `json:"name"`
	Batch   string `json:"batch"`
	Rows    uint64 `json:"rows"`
	Pending uint64 `json:"pending"`           // rows that have not ended
	Trouble string `json:"trouble,omitempty"` // why it cannot be read at the moment
}

// OneFile names a file.
type OneFile struct {
	File string `query:"file" arg:"" help:"Its name, as tidemill window files shows it."`
}

// FileToGiveUp is a file that is to be given up.
type FileToGiveUp struct {
	OneFile
	DryRun bool `query:"dry_run" help:"Only say how many rows would be lost."`
}

// GivenUpFile is a file that was given up, or would be.
type GivenUpFile struct {
	File string `json:"file"`
	Lost uint64 `json:"lost"` // rows
}

// SearchQuery asks the index.
type SearchQuery struct {
	Query  string `query:"q" help:"What to look for, in the search language; empty: all records." kong:"-"`
	Family string `query:"family" name:"in" help:"Where: events or mentions." default:"events" placeholder:"events|mentions"`
	api.Span
	Oldest bool   `query:"oldest" help:"The oldest first, not the newest."`
	Before string `query:"before" help:"Where the page ends: previous of the page after." kong:"-"`
	Page   `kong:"-"`
}

// Found is a page of hits.
type Found struct {
	Family  string                `json:"family"`
	Total   *int                  `json:"total,omitempty"`    // how many match; a page that is after or before another does not say it
	AtLeast bool                  `json:"at_least,omitempty"` // there may be more than total
	Hits    []operation.JSON[Hit] `json:"hits"`
	Next    string                `json:"next,omitempty"` // after of the next page; none: that was the last

	Previous string `json:"previous,omitempty"` // before of the page before; none: this is the first
}

// Hit is one document found.
type Hit struct {
	Day      string          `json:"day"`
	ID       string          `json:"id"`
	Document json.RawMessage `json:"document" covered:"document"`
}
