package api

import (
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of operations, which change many things.
var (
	PreviewOperation = operation.Act[OperationAsked, OperationPreview]("previewOperation", "operations/preview",
		"Show what an operation would change: how many, which, how long it takes, what it does not undo. Nothing is changed. The preview's id starts it for 10 minutes.").For(caller.Operator).OfEach().AsRead()
	StartOperation = operation.Act[OperationStart, Operation]("startOperation", "operations",
		"Start an operation: the one of a preview, or with what and a filter, all that match now. It runs in the instances, slice by slice, and outlives this request. One that discards more than 10,000 needs a login that is not older than 15 minutes.").For(caller.Operator).OfEach().WithKey()
	ListOperations = operation.List[OperationFilter, Operation]("listOperations", "operations",
		"List operations: scheduled, running, and for 30 days those that have ended.").For(caller.Viewer).OfEach()
	GetOperation = operation.View[OneOperation, Operation]("getOperation", "operations/{id}",
		"Show one operation: progress, rate, failures.").For(caller.Viewer).OfEach()
	StopOperation = operation.Act[OneOperation, Operation]("stopOperation", "operations/{id}/stop",
		"Stop an operation. One that has not begun changes nothing; of one that runs, what is changed stays changed.").For(caller.Operator).OfEach()
)

// What operations do.
const (
	DeadReplay  = "dead.replay"
	DeadDelete  = "dead.delete"
	JobsRetry   = "jobs.retry"
	JobsPromote = "jobs.promote"
	JobsRemove  = "jobs.remove"
	JobsClean   = "jobs.clean"
)

// OperationAsked says what is to be done with what.
type OperationAsked struct {
	What string `query:"what" arg:"" enum:"dead.replay,dead.delete,jobs.retry,jobs.promote,jobs.remove,jobs.clean" help:"What is done: dead.replay, dead.delete, jobs.retry, jobs.promote, jobs.remove or jobs.clean."`
	OperationThings
	Rate string `query:"rate" help:"How many are changed in a second (50/s), a minute (50/m) or an hour (50/h). Default: as many as the limits of their queue and an open circuit allow." placeholder:"N/s"`
}

// OperationThings choose what an operation changes: dead letters or jobs, by the parameters of their
// listings. Times that are ages are fixed at the preview.
type OperationThings struct {
	Queue string   `query:"queue" json:"queue,omitempty" help:"The queue of the jobs." placeholder:"NAME"`
	IDs   []string `query:"id" json:"id,omitempty" name:"id" help:"Only those of these messages." placeholder:"ID"`
	Dead
	Type  string `query:"type" json:"type,omitempty" help:"Only jobs of this type." placeholder:"TYPE"`
	State string `query:"state" json:"state,omitempty" help:"Only jobs of this state, one that the operation is for." placeholder:"STATE"`
	All   bool   `query:"all" json:"all,omitempty" help:"All that the operation is for; needed where nothing else chooses."`
}

// Things are the jobs that a request chooses, as an operation chooses them.
func (q *JobMove) Things() OperationThings {
	return OperationThings{Queue: q.Queue, IDs: q.IDs, Type: q.Type, State: q.State, All: q.All, Dead: Dead{Tenant: q.Tenant, Max: q.Max, Span: Span{Until: q.Until}}}
}

// Things are the dead letters that a request chooses, as an operation chooses them.
func (q *DeadMove) Things() OperationThings {
	return OperationThings{IDs: q.IDs, Dead: q.Dead, State: q.State, All: q.All}
}

// OperationStart starts an operation, of a preview or at once.
type OperationStart struct {
	Preview string `query:"preview" help:"The id of a preview: what it showed is changed, and what is neither rate nor this is left out."`
	What    string `query:"what" enum:",dead.replay,dead.delete,jobs.retry,jobs.promote,jobs.remove,jobs.clean" help:"What is done; without a preview."`
	OperationThings
	Rate         string `query:"rate" help:"How many are changed in a second (50/s), a minute (50/m) or an hour (50/h). Default: that of the preview, or as many as the limits of their queue and an open circuit allow." placeholder:"N/s"`
	ExpectAtMost int    `query:"expect_at_most" help:"Refuse to start if more match; needed without a preview."`
}

// OperationPreview is what an operation would change.
type OperationPreview struct {
	ID      string          `json:"id"`
	What    string          `json:"what"`
	Filter  OperationThings `json:"filter"`            // as it was understood, its times fixed
	Systems []string        `json:"systems,omitempty"` // whose things alone are meant; left out: those of all
	AsOf    time.Time       `json:"as_of"`             // what comes or changes later is not part of it
	Expires time.Time       `json:"expires_at"`
	Count   int             `json:"count"`
	AtLeast bool            `json:"at_least,omitempty"` // there are more: counting stops at 10,000 and after a second
	Looked  int             `json:"looked"`             // things that kinds, owners and sample are of, the first
	Kinds   map[string]int  `json:"kinds"`              // of those, by the kind of failure, or the type
	Owners  map[string]int  `json:"owners"`             // of those, by project, site or tenant
	Sample  []OperationItem `json:"sample"`             // the first 20
	Does    string          `json:"does"`               // what it does
	Undo    string          `json:"undo"`               // what it does not undo
	After   int             `json:"starts_after"`       // seconds in which it can be stopped and nothing is changed
	Rate    string          `json:"rate,omitempty"`
	Takes   float64         `json:"takes_seconds,omitempty"` // at that rate, or at the limit of the queue; left out: no limit is known
	Command string          `json:"command"`                 // that does the same
	Request string          `json:"request"`                 // of the API that does the same
}

// OperationItem is one of the things that an operation would change.
type OperationItem struct {
	ID    string    `json:"id"`
	Owner string    `json:"owner,omitempty"`
	Kind  string    `json:"kind,omitempty"` // of its failure, or its type
	Group string    `json:"group"`          // its pipeline or queue
	Cause string    `json:"cause,omitempty"`
	At    time.Time `json:"at"` // when it died, ended or was added
	Why   string    `json:"refused,omitempty"`
}

// OperationFilter chooses what is listed.
type OperationFilter struct {
	State string `query:"state" enum:",active,scheduled,running,done,stopped,failed" default:"" help:"Only those that are active (scheduled or running), scheduled, running, done, stopped or failed." placeholder:"STATE"`
	operation.Page
}

// OneOperation names an operation.
type OneOperation struct {
	ID string `path:"id" arg:"" help:"Its id, as tidemill operations list shows it."`
}

// Operation is a change of many things.
type Operation struct {
	ID        string             `json:"id"`
	What      string             `json:"what"`
	State     string             `json:"state"` // previewed, scheduled, running, done, stopped, failed
	By        string             `json:"by"`
	Filter    OperationThings    `json:"filter"`
	Systems   []string           `json:"systems,omitempty"` // whose things alone are meant; left out: those of all
	AsOf      time.Time          `json:"as_of"`             // what came or changed later is not part of it
	Count     int                `json:"count"`             // that matched then
	AtLeast   bool               `json:"at_least,omitempty"`
	Changed   int                `json:"changed"`
	Failed    map[string]int     `json:"failed"`             // by reason
	Gone      int                `json:"gone"`               // changed by somebody else meanwhile, known at the end
	Uncertain int                `json:"uncertain"`          // being changed; of a stopped one: nobody knows whether they were
	Failures  []OperationFailure `json:"failures,omitempty"` // the first 100
	Again     *OperationThings   `json:"again,omitempty"`    // the filter that does the same for those
	Rate      string             `json:"rate,omitempty"`     // asked for
	PerSecond float64            `json:"per_second"`         // so far
	Waits     string             `json:"waits,omitempty"`    // why it does not go on now
	Why       string             `json:"why,omitempty"`      // it has failed
	StoppedBy string             `json:"stopped_by,omitempty"`
	Instance  string             `json:"instance,omitempty"` // that runs it
	Made      time.Time          `json:"made_at"`
	Starts    time.Time          `json:"starts_at"` // until then nothing is changed
	Begun     *time.Time         `json:"begun_at,omitempty"`
	Ended     *time.Time         `json:"ended_at,omitempty"`
	Position  string             `json:"-"` // in a listing
}

// PageKey is its position.
func (o Operation) PageKey() string { return o.Position }

// OperationFailure is a thing that could not be changed.
type OperationFailure struct {
	ID     string `json:"id"`
	Owner  string `json:"owner,omitempty"`
	Reason string `json:"reason"` // damaged, not_changed
}
