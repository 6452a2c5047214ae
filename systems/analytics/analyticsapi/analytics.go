// Package analyticsapi is what the API does of analytics.
package analyticsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// API does what the API does of analytics.
type API struct {
	*answer.Common
	Persons     person.Directory
	Events      warehouse.Reader
	Definitions definition.Definitions

	// Send takes events in the native format, one JSON object each.
	Send func(ctx context.Context, p uuid.UUID, events [][]byte) (Sent, error)
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		ListEvents.By(a.events),
		SendEvents.By(a.send),
		GetEvent.By(a.event),
		GetPerson.By(a.person),
		GetPersonByID.By(a.personByID),
		ListDefinitions.By(a.definitions),
		ListWarnings.By(a.warnings),
	}
}

func (a *API) person(ctx context.Context, q *OnePerson) (out Person, err error) {
	id, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return out, err
	}
	p, err := a.Persons.Show(ctx, person.Ref{Project: id, Distinct: q.Distinct})
	if errors.Is(err, person.ErrUnknown) {
		return out, operation.Refuse(http.StatusNotFound, "nobody in this project has the distinct id %q", q.Distinct)
	} else if err != nil {
		return out, err
	}
	return shownPerson(p), nil
}

func (a *API) personByID(ctx context.Context, q *PersonByID) (out Person, err error) {
	id, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return out, err
	}
	who, err := uuid.Parse(q.ID)
	if err != nil {
		return out, operation.Refuse(http.StatusBadRequest, "%.120q is no person id: that is a UUID", q.ID)
	}
	p, err := a.Persons.ShowID(ctx, id, who)
	if errors.Is(err, person.ErrUnknown) {
		return out, operation.Refuse(http.StatusNotFound, "nobody in this project has the person id %s: it may have been merged into another, which one of its distinct ids shows", who)
	} else if err != nil {
		return out, err
	}
	return shownPerson(p), nil
}

func shownPerson(p *person.Person) Person {
	out := Person{ID: p.ID, Distinct: p.Distinct, Properties: map[string]json.RawMessage{}, Identified: p.Identified, Created: p.Created.UTC(), Updated: p.Updated.UTC()}
	for k, v := range p.Properties {
		out.Properties[k] = v
	}
	return out
}

func (a *API) event(ctx context.Context, q *EventByID) (out StoredEvent, err error) {
	p, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return out, err
	}
	e, err := a.Events.Find(ctx, p, event.IDOf(p, q.ID))
	if errors.Is(err, warehouse.ErrUnknown) {
		return out, operation.Refuse(http.StatusNotFound, "the warehouse has no event %q of this project: explain says where else it may be", q.ID)
	} else if err != nil {
		return out, err
	}
	out = StoredEvent{ID: e.ID, Project: e.Project, Name: e.Name, Type: e.Type, Distinct: e.DistinctID, Person: e.Person, Timestamp: e.Timestamp.UTC(), Ingested: e.IngestedAt.UTC(), Properties: e.Properties, User: e.UserProperties}
	if len(out.Properties) == 0 {
		out.Properties = json.RawMessage("{}")
	}
	out.Context, err = contextOf(e)
	return out, err
}

// contextOf is what else a row has, by the names of its columns.
func contextOf(e *event.Event) (map[string]string, error) {
	c := *e
	c.ID, c.Project, c.Person, c.Name, c.Type, c.DistinctID = uuid.Nil, uuid.Nil, uuid.Nil, "", "", ""
	c.Timestamp, c.IngestedAt, c.Properties, c.UserProperties, c.Profile, c.Origin = time.Time{}, time.Time{}, nil, nil, true, 0
	var all map[string]any
	if err := json.Unmarshal(c.AppendJSON(nil), &all); err != nil || len(all) == 0 {
		return nil, err
	}
	texts := map[string]string{}
	for name, value := range all {
		texts[name] = fmt.Sprint(value)
	}
	return texts, nil
}

func (a *API) definitions(ctx context.Context, q *api.InProject) (iter.Seq2[Definition, error], error) {
	id, err := a.ProjectOf(ctx, *q)
	if err != nil {
		return nil, err
	}
	d, err := a.Definitions.List(ctx, id)
	if err != nil {
		return nil, err
	}
	all := []Definition{}
	for _, e := range d.Events {
		all = append(all, Definition{Event: e.Name, LastSeen: e.LastSeen.UTC()})
	}
	for _, p := range d.Properties {
		all = append(all, Definition{Property: p.Name, Of: string(p.Of), Type: string(p.Type), LastSeen: p.LastSeen.UTC()})
	}
	return answer.Listed(all, func(d *Definition) Definition { return *d }), nil
}

func (a *API) warnings(ctx context.Context, q *WarningFilter) (iter.Seq2[Warning, error], error) {
	id, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return nil, err
	}
	if q.Order == "" {
		q.Order = "newest"
	}
	most, err := q.Most(q.Max)
	if err != nil {
		return nil, err
	}
	ws, err := a.Events.Warnings(ctx, warehouse.WarningFilter{Project: id, Oldest: !q.Back(), After: q.After(), Max: cmp.Or(most, 100)})
	return answer.Listed(ws, func(n *warehouse.Warning) Warning {
		return Warning{Type: n.Type, Name: n.Event, Distinct: n.Distinct, Reason: n.Reason, Timestamp: n.At.UTC(), key: n.Key}
	}), answer.Answerable(err)
}
