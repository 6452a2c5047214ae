// Package api is what the API for operators does: each operation with its request and its
// answer, declared once. The server (serve/admin) does them, the CLI calls them, and openapi.json
// and docs/api.md are made of them and of the comments here, by this package's tests.
//
// Names are in snake_case, times in RFC 3339 and UTC. What is not known is left out. Bytes that
// are no text stand in base64 beside the field that they would be in.
package api

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Of the instance as a whole.
var (
	GetStatus = operation.View[operation.None, Status]("getStatus", "status",
		"Show the systems that run here, their pipelines and how they stand.").For(caller.Viewer).OfEach()
	GetAudit = operation.View[AuditOf, Audits]("getAudit", "audit",
		"Read the books of all systems, or of one, and compare them: no event is missing where they balance.").For(caller.Viewer).OfEach()
	GetConfig = operation.View[operation.None, operation.Document]("getConfig", "config",
		"Show the configuration in force, as a file without secrets.").For(caller.Viewer)
	GetDoctor = operation.View[operation.None, Findings]("getDoctor", "doctor",
		"Check that everything is in order, and say what to do where it is not.").For(caller.Viewer)
	GetOpenAPI = operation.View[operation.None, operation.Document]("getOpenAPI", "openapi.json",
		"Describe this API in OpenAPI 3.1.").For(caller.Viewer).OfEach()
	GetOpenAPIYAML = operation.View[operation.None, operation.Document]("getOpenAPIYAML", "openapi.yaml",
		"Describe this API in OpenAPI 3.1, as YAML: the same document as openapi.json.").For(caller.Viewer).OfEach()
	ListProjects = operation.List[operation.None, Project]("listProjects", "projects",
		"List the projects.").For(caller.Viewer).OfEach()
	ListKeys = operation.List[OneProject, IngestKey]("listKeys", "projects/{project}/keys",
		"List the ingest keys of a project: what they are known by, not the keys.")
	MakeKey = operation.Act[OneProject, MadeKey]("makeKey", "projects/{project}/keys",
		"Make another ingest key for a project. The answer alone has it.").WithSecret()
	RevokeKey = operation.Act[OneKey, IngestKey]("revokeKey", "projects/{project}/keys/{key}/revoke",
		"Revoke an ingest key. It is refused within a minute. One that the configuration names is taken out there.")
	PausePipeline = operation.Act[OnePipeline, Steered]("pausePipeline", "pipelines/{name}/pause",
		"Pause a pipeline, or a system that is paused as a whole, in this instance: what has begun is finished, and events are still taken in, and wait.")
	ResumePipeline = operation.Act[OnePipeline, Steered]("resumePipeline", "pipelines/{name}/resume",
		"Resume a paused pipeline, or a system.")
)

// MakeBackup has every secret of the data folder in its answer.
var MakeBackup = operation.Act[operation.None, operation.Document]("makeBackup", "backup",
	"Make a backup of the data folder, as of one instant, while all goes on: an archive that tidemill restore takes. Its copy of the database lies in the data folder until it is sent.").WithSecret()

// Span is a time.
type Span struct {
	Since string `query:"since" json:"since,omitempty" help:"Only from this time on: 2026-01-31T12:00:00Z, 2026-01-31 (UTC), or how long ago: 24h, 7d." placeholder:"TIME"`
	Until string `query:"until" json:"until,omitempty" help:"Only before this time; a day without a time includes all of it." placeholder:"TIME"`
}

// Fixed is the same time however often it is asked for: no end of it is so and so long ago any
// more. What is no time stays, for the instance to refuse.
func (s Span) Fixed(now time.Time) Span {
	if t, err := when.Start(s.Since, now); err == nil {
		s.Since = t.Format(time.RFC3339Nano)
	}
	if t, err := when.End(s.Until, now); err == nil {
		s.Until = t.Format(time.RFC3339Nano)
	}
	return s
}

// Seen is what somebody has read of what they change.
type Seen struct {
	IfMatch string `header:"If-Match" name:"if-match" help:"Change it only if it still is what was read: its ETag then. Default: *, whatever is there." placeholder:"ETAG"`
}

// OrWhatever is the same, and of somebody who has read nothing whatever is there.
func (s Seen) OrWhatever() Seen { return Seen{cmp.Or(s.IfMatch, operation.Whatever)} }

// Status is an instance.
type Status struct {
	Data    string         `json:"data"` // its folder
	Started time.Time      `json:"started"`
	Systems []SystemStatus `json:"systems"`
	Uses    []string       `json:"uses"` // what it runs on, a line each
	Version string         `json:"version"`
}

// SystemStatus is a system that runs.
type SystemStatus struct {
	Name      string           `json:"name"`
	Pipelines []PipelineStatus `json:"pipelines"`
	Notes     []string         `json:"notes,omitempty"` // what an operator should know beside the numbers
}

// PipelineStatus is how a pipeline stands, with its counts since this instance started.
type PipelineStatus struct {
	Name     string            `json:"name"`
	State    string            `json:"state"`
	Received uint64            `json:"received"`
	Settled  Settled           `json:"settled"`
	Retried  uint64            `json:"retried"`
	Returned uint64            `json:"returned"`                // given back to the source, untried
	Left     uint64            `json:"left"`                    // to the source at the end
	Stale    uint64            `json:"stale"`                   // settled by somebody else meanwhile
	Failures map[string]uint64 `json:"failures"`                // by kind
	InFlight int               `json:"in_flight"`               // held by the engine
	Pending  *uint64           `json:"pending,omitempty"`       // accepted and not ended, wherever they are; what the books call in flight
	Unread   string            `json:"pending_error,omitempty"` // why that cannot be read now
	Buffered int               `json:"buffered"`
	Lanes    int               `json:"lanes"`
	Breaker  string            `json:"breaker"`
	Why      string            `json:"breaker_why,omitempty"`
	Errors   int               `json:"errors_in_a_row"`
	Failure  string            `json:"last_failure,omitempty"` // of a message
	FailedAt *time.Time        `json:"last_failure_at,omitempty"`
	Last     string            `json:"last_error,omitempty"` // of the source, dead letters or what is emitted
	LastAt   *time.Time        `json:"last_error_at,omitempty"`
	LastDone *time.Time        `json:"last_settled_at,omitempty"`
}

// Settled are messages that have ended, by how.
type Settled struct {
	Delivered uint64 `json:"delivered"`
	Skipped   uint64 `json:"skipped"`
	Dead      uint64 `json:"dead"`
}

// OneSystem names a system.
type OneSystem struct {
	System string `query:"system" help:"One system only." arg:"" optional:""`
}

// AuditOf chooses audits.
type AuditOf struct {
	OneSystem
	Kept bool `query:"kept" kong:"-" cost:"true=normal" help:"The last audit that was asked for so, if it is younger than a minute: what takes long is not read for each who looks."`
}

// Audits are the audits of systems.
type Audits struct {
	AsOf     time.Time               `json:"as_of"`    // the oldest of them
	Balanced bool                    `json:"balanced"` // all of them
	Systems  []operation.JSON[Audit] `json:"systems"`
}

// Audit is the proof of a system that nothing is missing. The books of a system of several queues or
// pipelines are theirs.
type Audit struct {
	System   string `json:"system"`
	Balanced bool   `json:"balanced"`
	*Books
	Damaged   uint64   `json:"damaged,omitempty"`   // dead without a dead letter: found damaged at the source, and kept apart there
	Stored    *int64   `json:"stored,omitempty"`    // rows in the warehouse, counted there
	Removed   int64    `json:"removed,omitempty"`   // rows that the warehouse had, and removed by age or size
	Emitted   uint64   `json:"emitted,omitempty"`   // jobs of partners
	Queues    []Books  `json:"queues,omitempty"`    // of a system of several
	Pipelines []Books  `json:"pipelines,omitempty"` // of a system of several
	Faults    []string `json:"faults"`              // what does not add up, in words
}

// Books are those of one queue or pipeline, and of its dead letters: accepted = delivered +
// skipped + dead + in flight + lost.
type Books struct {
	Queue    string `json:"queue,omitempty"`
	Pipeline string `json:"pipeline,omitempty"`
	deadletter.Audit
}

// Findings are what the doctor found.
type Findings struct {
	Findings []preflight.Finding `json:"findings"`
}

// Project is a project.
type Project struct {
	ID   uuid.UUID `json:"id"`
	Name string    `json:"name"`
}

// OneProject names a project.
type OneProject struct {
	Project string `path:"project" arg:"" help:"Its name or id."`
}

// OneKey names an ingest key of a project.
type OneKey struct {
	OneProject
	Key string `path:"key" arg:"" help:"What it is known by: the first 16 digits of its SHA-256."`
}

// IngestKey is a key of a project.
type IngestKey struct {
	ID         string `json:"id"`         // the first 16 hexadecimal digits of its SHA-256
	Configured bool   `json:"configured"` // the configuration names it
}

// MadeKey is a key with its secret.
type MadeKey struct {
	IngestKey
	Secret string `json:"secret"` // nobody can see it later
}

// OnePipeline names a pipeline, or a system that is paused as a whole.
type OnePipeline struct {
	Name string `path:"name" help:"Its name, as tidemill status shows it." arg:"" name:"pipeline"`
}

// Steered is a pipeline that was paused or resumed.
type Steered struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Counted says how many were moved, or would be.
type Counted struct {
	Count   int  `json:"count"`
	AtLeast bool `json:"at_least,omitempty"` // there may be more: a dry run counts for two seconds
}

// InProject names a project.
type InProject struct {
	Project string `query:"project" help:"Project, by name or id. May be left out where there is one." placeholder:"NAME"`
}
