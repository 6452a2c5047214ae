package analyticssystem

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// formats are those of events, by what a request says.
var formats = map[string]event.Format{"native": event.Native, "posthog": event.PostHog, "segment": event.Segment, "cloudevents": event.CloudEvents}

// rehearsal is the analytics system on stores in memory, which does not run.
type rehearsal struct {
	r     *system.Rehearsing
	own   *analyticsconfig.Settings
	clock event.Clock
	sys   *analytics.System
	place uint64 // of the last event, in a queue that there is not
	row   []byte // of the event that is rehearsed; nil: none was stored
}

// rows notes what is stored.
type rows struct {
	warehouse.Store
	h *rehearsal
}

func (r rows) Insert(ctx context.Context, all []*event.Event, took []warehouse.Outcome) error {
	err := r.Store.Insert(ctx, all, took)
	for i, e := range all {
		if err == nil && took[i] != warehouse.Duplicate {
			r.h.row = e.AppendJSON(nil)
		}
	}
	return err
}

// rehearse says what would be stored of events: refusals, duplicates, persons, what is added from user
// agents and, where a file of countries is set, from addresses.
func rehearse(r *system.Rehearsing) (system.Rehearsal, error) {
	c := analyticsconfig.Of(r.Config)
	h := &rehearsal{r: r, own: c, clock: event.Clock{Behind: c.ClockBehind, Ahead: c.ClockAhead, EventsBehind: c.EventsBehind, EventsAhead: c.EventsAhead}}
	agents, err := enrich.NewAgents(enrich.AgentsOptions{})
	if err != nil {
		return nil, err
	}
	var country func(string) string
	if c.GeoIP.File != "" {
		geo := enrich.NewGeo(enrich.GeoOptions{File: c.GeoIP.File, Now: r.Now})
		if err := geo.Refresh(context.Background()); err != nil {
			return nil, err
		}
		country = geo.Country
	}
	letters, err := tabledeadletter.Memory(deadletter.Options{Now: r.Now})
	if err != nil {
		return nil, err
	}
	h.sys, err = analytics.New(
		analytics.Parts{Source: memoryqueue.New(memoryqueue.Options{Now: r.Now}).Open(analytics.Name, queue.Options{}), Persons: tableperson.Memory(tableperson.Options{}), Warehouse: rows{memorywarehouse.New(), h},
			Definitions: tabledefinition.Memory(), DeadLetters: letters, Locks: tablelock.Memory(tablelock.Options{}), Agent: agents.Parse, Country: country},
		analytics.Options{MergeIdentified: analytics.MergeIdentified(c.Identified), Clock: h.clock, Now: r.Now})
	if err != nil {
		return nil, err
	}
	return system.OneByOne(h.event), nil
}

// event is what becomes of one: decoded as the endpoint of its format does it.
func (h *rehearsal) event(ctx context.Context, in *system.Incoming) ([]system.End, error) {
	if err := in.OnlyWith("format", "project", "ip", "agent"); err != nil {
		return nil, err
	}
	format, ok := formats[cmp.Or(in.With["format"], "native")]
	if !ok {
		return nil, fmt.Errorf("with: format is %q: want native, posthog, segment or cloudevents", in.With["format"])
	}
	m := event.Meta{Format: format, Project: project.ID(cmp.Or(in.With["project"], "default")), Received: h.r.Now().UTC(), IP: in.With["ip"], Agent: in.With["agent"], Clock: h.clock}
	if format == event.CloudEvents {
		m.Whose = strings.Join(h.own.CloudEventsID, ",")
	}
	var e event.Event
	err := event.Decode(&m, in.Body, &e)
	if err == nil {
		err = event.Validate(&e)
	}
	if err != nil {
		return []system.End{system.Refused(err.Error())}, nil
	}
	m.Event, h.row = e.ID, nil
	h.place++
	fate, why, err := h.sys.Rehearse(ctx, &tidemill.Message{ID: e.ID.String(), Tenant: m.Project.String(), Type: e.Name, Key: []byte(e.DistinctID), Payload: in.Body, Time: m.Received, Mark: tidemill.Mark{Hi: 1, Lo: h.place},
		Header: []tidemill.Field{{Name: []byte(event.MetaHeader), Value: m.Append(nil)}}})
	if err != nil {
		return nil, err
	}
	ends := []system.End{{At: system.Itself, End: system.EndOf(fate, why)}}
	if h.row != nil {
		ends = append(ends, system.End{At: "warehouse", End: system.EndOf(tidemill.Delivered, ""), Output: h.row})
	}
	return ends, nil
}
