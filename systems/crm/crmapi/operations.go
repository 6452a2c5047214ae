package crmapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of CRM.
var (
	GetCRM = operation.View[operation.None, CRM]("getCRM", "crm/status",
		"Show how CRM stands: queue, dead letters, matched profiles, replays.").For(caller.Viewer)
	GetCRMEvent = operation.View[OneCRMEvent, CRMEvent]("getCRMEvent", "crm/events",
		"Explain where an event is: all that sync log, queue and dead letters have of it.").For(caller.Viewer)
	GetCRMPayload = operation.View[OneCRMEvent, operation.Payload]("getCRMPayload", "crm/events/payload",
		"Get an event alone, byte for byte: as received, or as it was edited, from whatever still has it. It is refused to those for whom something of it is covered.").For(caller.Viewer)
	SendCRM = operation.Act[api.EventsBody, api.EventResults]("sendCRM", "crm/events",
		"Take in events of any tenant, an array or one object, without a key of the tenant. It answers 202 when they are durable, and 200 where all were judged and none was taken.").AsIngest()
	RetryCRM = operation.Act[OneCRMEvent, api.Counted]("retryCRM", "crm/retry",
		"Open the job of one dead event again.").For(caller.Operator)
	ListSyncLog = operation.List[SyncLogFilter, SyncRecord]("listSyncLog", "crm/log",
		"List the sync log: what became of which event, by time of first receipt.").For(caller.Viewer).AsExport()
	GetProfile = operation.View[OneProfile, Profile]("getProfile", "crm/profiles",
		"Show the profile that has an identity, in any form that the same identity has in events.").For(caller.Viewer)
	GetHandlers = operation.View[operation.None, Handlers]("getHandlers", "crm/handlers",
		"Show the handlers, and how many events of the last 24 hours each has failed; of the newest 1,000 that failed.").For(caller.Viewer)
	ListReplays = operation.List[operation.None, Replay]("listReplays", "crm/replays",
		"List the replays, the newest first.").For(caller.Viewer)
	StartReplay = operation.Act[ReplayStart, StartedReplay]("startReplay", "crm/replays",
		"Let CRM's handlers run again for events of the sync log. It answers 201, or 200 where the replay was asked for before under the same id; a dry run is answered with a count.").For(caller.Operator)
	GetReplay = operation.View[OneReplay, Replay]("getReplay", "crm/replays/{id}",
		"Show how far a replay has come.").For(caller.Viewer)
	StopReplay = operation.Act[OneReplay, Replay]("stopReplay", "crm/replays/{id}/stop",
		"Stop a replay: no more of its events are handled. One that has ended stays as it is.").For(caller.Operator)
)

// CRM is how the system stands.
type CRM struct {
	Queue      string              `json:"queue"`
	Paused     bool                `json:"paused"`
	Closed     bool                `json:"closed"` // being drained
	Waiting    int64               `json:"waiting"`
	Delayed    int64               `json:"delayed"`
	Leased     int64               `json:"leased"`
	Completed  uint64              `json:"completed"` // a handler took them
	Skipped    uint64              `json:"skipped"`   // by what status and log say: completed before, no handler, not valid, removed
	Failed     uint64              `json:"failed"`    // they died
	Kept       Kept                `json:"kept"`
	Oldest     *time.Time          `json:"oldest_added_at,omitempty"`
	Age        float64             `json:"oldest_age_seconds"` // of the oldest that has not ended; 0: none
	Priorities []api.PriorityDepth `json:"priorities"`
	Dead       int                 `json:"dead"`            // dead letters
	Expired    uint64              `json:"expired"`         // dead letters deleted for their age, by this instance
	Matched    *float64            `json:"matched_percent"` // of this instance's events of the last five minutes; null: there were none
	Replays    int                 `json:"open_replays"`
}

// Kept are jobs that are shown after their end.
type Kept struct {
	Completed int64 `json:"completed"` // or skipped
	Failed    int64 `json:"failed"`
}

// OneCRMEvent names an event.
type OneCRMEvent struct {
	Tenant string `query:"tenant" arg:"" help:"The event's tenant."`
	Event  string `query:"id" arg:"" name:"id" help:"The event's id."`
}

// CRMEvent is where an event is.
type CRMEvent struct {
	Tenant   string          `json:"tenant"`
	ID       string          `json:"id"`
	Type     string          `json:"type,omitempty"`
	State    string          `json:"state"` // queued, processing, retrying, completed, skipped, failed, dead
	Received *time.Time      `json:"received_at,omitempty"`
	Attempts []api.Attempt   `json:"failed_attempts"`  // the oldest first, of all jobs it had as far as they are known
	Record   *SyncRecord     `json:"record,omitempty"` // of the sync log
	Job      *api.Job        `json:"job,omitempty"`    // its first
	Others   []api.Job       `json:"other_jobs"`       // of retries and replays, those that have not ended
	Letter   *api.DeadLetter `json:"letter,omitempty"`
	Covered  bool            `json:"covered,omitempty"` // something of its payload, which is alone at payload, is covered here
}

// SyncLogFilter chooses records of the sync log. Both ends of its time are included.
type SyncLogFilter struct {
	Tenant string `query:"tenant" help:"Only events of this tenant." placeholder:"ID"`
	Type   string `query:"type" help:"Only events of this type." placeholder:"TYPE"`
	State  string `query:"state" help:"Only events of this state: processing, completed or failed." enum:",processing,completed,failed" default:"" placeholder:"STATE"`
	api.Span
	operation.Page
	Max     int  `query:"max" kong:"-" help:"At most this many, the oldest first."`
	Payload bool `query:"payload" kong:"-" help:"Include the events themselves."`
}

// SyncRecord is what the sync log has of an event.
type SyncRecord struct {
	Tenant        string     `json:"tenant"`
	ID            string     `json:"id"`
	Type          string     `json:"type"`
	State         string     `json:"state"` // PROCESSING, COMPLETED, FAILED
	Kind          string     `json:"kind,omitempty"`
	Error         string     `json:"error,omitempty"`
	Attempts      int        `json:"attempts"`
	Created       time.Time  `json:"created_at"` // when it was first taken up
	Started       *time.Time `json:"started_at,omitempty"`
	Completed     *time.Time `json:"completed_at,omitempty"`
	Failed        *time.Time `json:"failed_at,omitempty"`
	Payload       string     `json:"payload,omitempty" covered:"payload"`
	PayloadBase64 string     `json:"payload_base64,omitempty" covered:"payload"`
	Position      string     `json:"-"` // in the log
}

// PageKey is its position.
func (r SyncRecord) PageKey() string { return r.Position }

// OneProfile names a profile: by a tenant and one of the others.
type OneProfile struct {
	Tenant   string `query:"tenant" arg:"" help:"The customer's tenant."`
	External string `query:"externalId" name:"external-id" help:"Its external id." placeholder:"ID"`
	Email    string `query:"email" help:"Its email, in any spelling." placeholder:"EMAIL"`
	Phone    string `query:"phone" help:"Its phone, in any spelling." placeholder:"PHONE"`
}

// Profile is a profile.
type Profile struct {
	ID         uuid.UUID                  `json:"id"`
	Tenant     string                     `json:"tenant"`
	Identities []Identity                 `json:"identities"`
	Attributes map[string]json.RawMessage `json:"attributes" covered:"attributes"` // as received
	Created    time.Time                  `json:"created_at"`
	Updated    time.Time                  `json:"updated_at"` // when attributes changed last
}

// Identity is one of a profile's identities, as it is kept.
type Identity struct {
	Kind  string `json:"kind"` // externalId, email, phone
	Value string `json:"value" covered:"identities" by:"kind"`
}

// Handlers are those that events are given to.
type Handlers struct {
	Handlers []Handler `json:"handlers"`
	Since    time.Time `json:"since"`    // failures of events that were first taken up since then
	Looked   int       `json:"looked"`   // failed events that were looked at, the newest
	AtLeast  bool      `json:"at_least"` // there are more that were not
	Unknown  int       `json:"unknown"`  // of these, no handler is for their types
}

// Handler is a handler, and what it failed.
type Handler struct {
	Name   string     `json:"name"`
	Types  []string   `json:"types"`  // the events that it is for
	Failed int        `json:"failed"` // events whose last try failed
	Last   *time.Time `json:"last_failed_at,omitempty"`
	Kind   string     `json:"last_kind,omitempty"`
	Error  string     `json:"last_error,omitempty"`
}

// Replay is a replay with how far it has come.
type Replay struct {
	ID      string     `json:"id"`
	State   string     `json:"state"` // running, stopping, stopped, done
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Tenant  string     `json:"tenant,omitempty"`
	Type    string     `json:"type,omitempty"`
	Asked   time.Time  `json:"asked_at"`
	Ended   *time.Time `json:"ended_at,omitempty"`
	Queued  int        `json:"queued"`                 // jobs put into the queue
	Reached *time.Time `json:"reached_at,omitempty"`   // when the last event of these was first taken up
	Share   float64    `json:"share"`                  // how far it has come in its time, 0 to 1
	Known   bool       `json:"known_before,omitempty"` // it was asked for before, and this is it
}

// ReplayStart asks for a replay.
type ReplayStart struct {
	Body ReplayRequest `body:"application/json"`
}

// ReplayRequest says what is to be replayed.
type ReplayRequest struct {
	ID     string `json:"id,omitempty"` // a name: the same one started again is the same replay, and runs once
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	Type   string `json:"type,omitempty"`
	All    bool   `json:"all,omitempty"`     // the whole sync log is meant
	DryRun bool   `json:"dry_run,omitempty"` // only say how many events it would be
}

// StartedReplay is a replay that was asked for; of a dry run only the count.
type StartedReplay struct {
	*api.Counted
	*Replay
}

// Status is 201 where it was not known before.
func (s StartedReplay) Status() int {
	if s.Replay == nil || s.Known {
		return http.StatusOK
	}
	return http.StatusCreated
}

// OneReplay names a replay.
type OneReplay struct {
	ID string `path:"id" arg:"" name:"id" help:"The replay, as replay status shows it."`
}
