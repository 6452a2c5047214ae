package analyticsapi

import (
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Of analytics.
var (
	ListEvents = operation.List[EventFilter, Event]("listEvents", "events",
		"List stored events, each under the person it belongs to: in the order of their times where an order, a page or the newest are asked for, else in the order in which they were stored. A page that few match may end before it is full: its next goes on.").For(caller.Viewer).AsExport()
	SendEvents = operation.Act[SentEvents, Sent]("sendEvents", "events",
		"Take in events in the native format, one JSON object a line, without an ingest key. It answers when they are durable. Events with an event_id can be sent again without harm.").AsIngest()
	GetPerson = operation.View[OnePerson, Person]("getPerson", "persons",
		"Show the person behind a distinct id.").For(caller.Viewer)
	GetPersonByID = operation.View[PersonByID, Person]("getPersonByID", "persons/{id}",
		"Show a person by the id of the person. One that was merged into another has none any more.").For(caller.Viewer)
	GetEvent = operation.View[EventByID, StoredEvent]("getEvent", "events/{id}",
		"Show a stored event by its id, as it is stored or as its sender calls it, under the person it belongs to.").For(caller.Viewer)
	ListDefinitions = operation.List[api.InProject, Definition]("listDefinitions", "definitions",
		"List the names of events and properties that were seen.").For(caller.Viewer)
	ListWarnings = operation.List[WarningFilter, Warning]("listWarnings", "warnings",
		"List what a project's owner should know of: refused events and merges; the newest first.").For(caller.Viewer)
)

// EventFilter chooses events.
type EventFilter struct {
	api.InProject
	Distinct string `query:"distinct_id" name:"distinct-id" help:"Only events of this distinct id." placeholder:"ID"`
	Name     string `query:"name" help:"Only events of this name." placeholder:"EVENT"`
	Person   string `query:"person" form:"uuid" help:"Only events of this person, merged ones included." placeholder:"UUID"`
	api.Span
	operation.Page `kong:"-"`
	Max            int  `query:"max" kong:"-" help:"At most so many, the first."`
	Newest         int  `query:"newest" kong:"-" help:"At most so many, the newest, the last of them last; with follow, of those that were stored last."`
	Follow         bool `query:"follow" help:"Go on with events as they are stored, until Ctrl-C." short:"f"`
}

// Live says whether the listing goes on.
func (f *EventFilter) Live() bool { return f.Follow }

// Event is a stored event. It has more members where its sender has given more.
type Event struct {
	*event.Event `json:"-"`

	ID         uuid.UUID       `json:"event_id"`
	Name       string          `json:"event_name"`
	Distinct   string          `json:"distinct_id"`
	Person     string          `json:"person_id"`
	Timestamp  string          `json:"timestamp"`
	Properties json.RawMessage `json:"properties" covered:"properties"`

	key string
}

// PageKey is where it is in the listing.
func (e Event) PageKey() string { return e.key }

// MarshalJSON writes a stored event with all of its members, as in a line.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Event == nil { // it was read
		type read Event
		return json.Marshal(read(e))
	}
	return e.AppendJSON(nil), nil
}

// SentEvents are events that are sent.
type SentEvents struct {
	api.InProject
	Body io.Reader `body:"application/x-ndjson" mib:"32" optional:""`
}

// Sent is what became of events. It stands beside a problem too, as done: what was accepted
// before it stays so.
type Sent struct {
	Accepted   int      `json:"accepted"`   // durable now, and new
	Duplicates int      `json:"duplicates"` // accepted before, under the same event_id
	Refused    int      `json:"refused"`    // not taken: they are wrong
	Reasons    []string `json:"reasons"`    // why, of the first of them
}

// OnePerson names a person.
type OnePerson struct {
	api.InProject
	Distinct string `query:"distinct_id" arg:"" name:"distinct-id" help:"One of the person's distinct ids."`
}

// PersonByID names a person by an own id.
type PersonByID struct {
	api.InProject
	ID string `path:"id" arg:"" name:"id" help:"The person's id."`
}

// EventByID names a stored event.
type EventByID struct {
	api.InProject
	ID string `path:"id" arg:"" name:"id" help:"The event's id, as it is stored or as its sender calls it."`
}

// StoredEvent is all that the warehouse has of an event.
type StoredEvent struct {
	ID         uuid.UUID         `json:"event_id"`
	Project    uuid.UUID         `json:"project_id"`
	Name       string            `json:"event_name"`
	Type       string            `json:"event_type,omitempty"`
	Distinct   string            `json:"distinct_id"`
	Person     uuid.UUID         `json:"person_id"`
	Timestamp  time.Time         `json:"timestamp"`
	Ingested   time.Time         `json:"ingested_at"`
	Context    map[string]string `json:"context,omitempty" covered:"properties"` // session, page, device, place, SDK and address, where they are known
	Properties json.RawMessage   `json:"properties" covered:"properties"`
	User       json.RawMessage   `json:"user_properties,omitempty" covered:"properties"` // that it set on its person
}

// Person is who is behind distinct ids.
type Person struct {
	ID         uuid.UUID                  `json:"id"`
	Distinct   []string                   `json:"distinct_ids"`
	Properties map[string]json.RawMessage `json:"properties" covered:"properties"`
	Identified bool                       `json:"is_identified"`
	Created    time.Time                  `json:"created_at"`
	Updated    time.Time                  `json:"updated_at"`
}

// Definition is the name of an event, or of a property.
type Definition struct {
	Event    string    `json:"event,omitempty"`
	LastSeen time.Time `json:"last_seen_at"`
	Of       string    `json:"of,omitempty"` // of a property: event or person
	Property string    `json:"property,omitempty"`
	Type     string    `json:"value_type,omitempty"`
}

// WarningFilter chooses warnings.
type WarningFilter struct {
	api.InProject
	operation.Page
	Max int `query:"max" help:"At most so many. Default: 100." short:"n"`
}

// Warning is one of a project.
type Warning struct {
	Distinct  string    `json:"distinct_id"`
	Name      string    `json:"event_name"`
	Reason    string    `json:"reason"`
	Timestamp time.Time `json:"timestamp"`
	Type      string    `json:"type"`
	key       string
}

// PageKey is where it is in the listing.
func (w Warning) PageKey() string { return w.key }
