package admin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// storedDesk is an API over one event of one person.
func storedDesk(t *testing.T, rows warehouse.Reader, e *event.Event) (*desk, person.Store) {
	t.Helper()
	ps, persons := tableproject.Memory(), tableperson.Memory(tableperson.Options{})
	if err := ps.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	if err := persons.Apply(t.Context(), []person.Change{{Ref: e.Ref(), Event: e.ID, At: e.Timestamp}}); err != nil {
		t.Fatal(err)
	}
	a := &analyticsapi.API{Common: &answer.Common{Projects: ps}, Events: rows, Persons: persons}
	return newDesk(t, admin.Parts{Common: a.Common, Rooms: only(analytics.Name, a.Operations())}), persons
}

func storedEvent() *event.Event {
	shop, at := project.ID("shop"), time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	e := &event.Event{ID: event.IDOf(project.ID("shop"), "order/17 ✓"), Project: shop, Name: "bought", Type: "track", DistinctID: "ann", Timestamp: at, IngestedAt: at.Add(time.Second), Properties: []byte(`{"price":1.10}`)}
	e.Person, e.URL = person.ID(e.Ref()), "https://shop.example/17"
	return e
}

func TestAnEventIsShownByItsID(t *testing.T) {
	rows, e := memorywarehouse.New(), storedEvent()
	d, _ := storedDesk(t, rows, e)
	refused(t, d.ask("GET", "events/"+e.ID.String(), ""), 404, "the warehouse has no event")
	if err := rows.Insert(t.Context(), []*event.Event{e}, make([]warehouse.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
	want := `{"event_id":"` + e.ID.String() + `","project_id":"` + e.Project.String() + `","event_name":"bought","event_type":"track","distinct_id":"ann","person_id":"` + e.Person.String() +
		`","timestamp":"2026-01-31T12:00:00Z","ingested_at":"2026-01-31T12:00:01Z","context":{"url":"https://shop.example/17"},"properties":{"price":1.10}}` + "\n"
	for _, id := range []string{e.ID.String(), "order%2F17%20%E2%9C%93"} {
		if got := d.get("events/" + id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	refused(t, d.ask("GET", "events/x?project=other", ""), 404, "no project")
	refused(t, d.ask("GET", "events/x?name=bought", ""), 400, "name")
}

func TestAPersonIsShownByTheirID(t *testing.T) {
	e := storedEvent()
	d, persons := storedDesk(t, memorywarehouse.New(), e)
	if got, by := d.get("persons/"+e.Person.String()), d.get("persons?distinct_id=ann"); got != by || !strings.Contains(got, `"distinct_ids":["ann"]`) {
		t.Errorf("by the id it is %s, by a distinct id %s", got, by)
	}
	refused(t, d.ask("GET", "persons/ann", ""), 400, "no person id")
	refused(t, d.ask("GET", "persons/"+uuid.NewString(), ""), 404, "may have been merged")
	m := []person.Merge{{Ref: person.Ref{Project: e.Project, Distinct: "anna"}, Other: "ann", Event: uuid.New(), At: e.Timestamp}}
	if err := persons.Merge(t.Context(), m, make([]person.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
	refused(t, d.ask("GET", "persons/"+e.Person.String(), ""), 404, "may have been merged")
}

// silentRows is a warehouse that is away.
type silentRows struct{ warehouse.Reader }

func (silentRows) Find(context.Context, uuid.UUID, uuid.UUID) (*event.Event, error) {
	return nil, &tidemill.Error{Kind: tidemill.Transient, Err: errDisk}
}

func TestAnEventWhereTheWarehouseIsAway(t *testing.T) {
	d, _ := storedDesk(t, silentRows{}, storedEvent())
	if w := d.ask("GET", "events/x", ""); w.Code < 500 || !strings.Contains(w.Body.String(), errDisk.Error()) {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

func TestWhoMayNotSeePayloadsSeesTheNamesOfAnEventsProperties(t *testing.T) {
	rows, e := memorywarehouse.New(), storedEvent()
	d, _ := storedDesk(t, rows, e)
	if err := rows.Insert(t.Context(), []*event.Event{e}, make([]warehouse.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
	client := operation.Inside(d.api.Inside())
	got, err := analyticsapi.GetEvent.Call(caller.With(t.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Viewer)}), client, &analyticsapi.EventByID{ID: e.ID.String()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if s := string(b); err != nil || strings.Contains(s, "1.1") || strings.Contains(s, "shop.example") || !strings.Contains(s, `"price":`) || !strings.Contains(s, `"url":`) {
		t.Errorf("it is %s, %v", s, err)
	}
}
