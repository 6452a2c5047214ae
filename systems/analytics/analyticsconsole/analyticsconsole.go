// Package analyticsconsole is the pages of analytics in the console.
package analyticsconsole

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

//go:embed templates/*.html
var templateFiles embed.FS

// section is the place of all its pages in the navigation.
const section = analytics.Name

// Pages are those of analytics.
var Pages = &page.Set{
	Name:      analytics.Name,
	Places:    []page.Place{{Section: section, Text: "Analytics", Path: "analytics", Key: "n", Op: analyticsapi.ListEvents.ID}},
	Templates: templateFiles,
	Funcs:     template.FuncMap{"eventsTable": eventsTable, "warningsTable": warningsTable, "definitionsTable": definitionsTable, "personAt": personAt, "advice": advice, "text": func(b json.RawMessage) string { return string(b) }},
	Said:      map[string]string{"key.revoked": "The key is revoked. It is refused within a minute."},
	Things: map[string]func(map[string]string) string{
		analyticsapi.GetPerson.ID:     personOf,
		analyticsapi.GetPersonByID.ID: personOf,
		analyticsapi.GetEvent.ID:      func(p map[string]string) string { return eventAt(p["project"], p["id"]) },
	},
	Pages: []page.Page{
		{Path: "analytics", Show: showEvents}, {Path: "analytics/event", Show: showEvent}, {Path: "analytics/person", Show: showPerson},
		{Path: "analytics/definitions", Show: showDefinitions}, {Path: "analytics/warnings", Show: showWarnings}, {Path: "analytics/keys", Show: showKeys},
	},
	Actions: []*page.Action{makeKey, revokeKey},
}

var crumbs = []page.Link{{Text: "Analytics", Href: page.Address("analytics")}}

// of is whose the page is.
type of struct {
	Project  string // its name; empty: none was chosen, and there are several, or none
	Projects page.Part[[]api.Project]
}

// projectOf is the project that an address names, else the only one, else the first.
func projectOf(v *page.Visit) of {
	p := of{Projects: page.Listed(v, api.ListProjects, &operation.None{}), Project: v.Query().Get("project")}
	if p.Project == "" && len(p.Projects.Has) > 0 {
		p.Project = p.Projects.Has[0].Name
	}
	return p
}

// Here is the project as a parameter.
func (p of) Here() api.InProject { return api.InProject{Project: p.Project} }

// at is the time of an event in a list; zero where it is none.
func at(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t
}

func eventAt(project, id string) string {
	return page.Query(page.Address("analytics", "event"), url.Values{"project": {project}, "id": {id}})
}

func personAt(project, id string) string {
	return page.Query(page.Address("analytics", "person"), url.Values{"project": {project}, "id": {id}})
}

// personOf is the page of a person, by what an operation was asked.
func personOf(p map[string]string) string {
	return page.Query(page.Address("analytics", "person"), url.Values{"project": {p["project"]}, "distinct_id": {p["distinct_id"]}, "id": {p["id"]}})
}

const (
	lastDay  = "24h" // the time that the list is of where no other is asked for
	ofPerson = 20    // events on the page of a person
)

// eventsPage is a list of events, the newest first.
type eventsPage struct {
	of
	Filter  analyticsapi.EventFilter
	Events  page.Part[operation.Paged[analyticsapi.Event]]
	Active  []page.Link
	Default bool
}

func showEvents(v *page.Visit) (*page.View, error) {
	p := &eventsPage{of: projectOf(v)}
	if err := v.Filter(analyticsapi.ListEvents.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.InProject, p.Filter.Max, p.Filter.Newest, p.Filter.Follow = p.Here(), 0, 0, false
	if p.Default = p.Filter.Span == (api.Span{}); p.Default {
		p.Filter.Since = lastDay
	}
	v.Paging(&p.Filter.Page)
	p.Active = v.Active("project", "name", "distinct_id", "person", "since", "until")
	if p.Project != "" {
		p.Events = eventsOf(v, &p.Filter)
	}
	return &page.View{File: "events", Title: "Analytics: events", Section: section, Body: p}, nil
}

// eventsOf is a page of events.
func eventsOf(v *page.Visit, f *analyticsapi.EventFilter) page.Part[operation.Paged[analyticsapi.Event]] {
	return page.Look(v, func(ctx context.Context) (operation.Paged[analyticsapi.Event], error) {
		return analyticsapi.ListEvents.Page(ctx, v.API, f)
	})
}

// eventPage is one stored event.
type eventPage struct {
	analyticsapi.StoredEvent
	Of         string // its project
	Properties *page.Payload
	User       *page.Payload
	Explain    string
}

func showEvent(v *page.Visit) (*page.View, error) {
	q := &analyticsapi.EventByID{InProject: api.InProject{Project: v.Query().Get("project")}, ID: v.Query().Get("id")}
	if q.ID == "" {
		return nil, operation.Refuse(http.StatusBadRequest, "Say which event: id=…, and project=… where there are several.")
	}
	e, err := page.Call(v, analyticsapi.GetEvent, q)
	if err != nil {
		return nil, err
	}
	of := cmp.Or(q.Project, e.Project.String())
	p := &eventPage{StoredEvent: e, Of: of, Explain: page.ExplainAddress(analytics.Name, of, e.ID.String()), Properties: page.NewPayload(string(e.Properties), "", "")}
	if len(e.User) > 0 {
		p.User = page.NewPayload(string(e.User), "", "")
	}
	return &page.View{File: "event", Title: "Event " + page.Cut(e.Name), Section: section, Crumbs: crumbs, Body: p}, nil
}

// personPage is a form for a person, and who was found.
type personPage struct {
	of
	Distinct, ID string
	Person       *page.Part[analyticsapi.Person] // nil: none was asked for
	Events       page.Part[operation.Paged[analyticsapi.Event]]
}

func showPerson(v *page.Visit) (*page.View, error) {
	p := &personPage{of: projectOf(v), Distinct: v.Query().Get("distinct_id"), ID: v.Query().Get("id")}
	view := &page.View{File: "person", Title: "Analytics: person", Section: section, Crumbs: crumbs, Body: p}
	if p.Distinct == "" && p.ID == "" {
		return view, nil
	}
	who := page.Look(v, func(ctx context.Context) (analyticsapi.Person, error) {
		if p.Distinct == "" {
			return analyticsapi.GetPersonByID.Call(ctx, v.API, &analyticsapi.PersonByID{InProject: p.Here(), ID: p.ID})
		}
		return analyticsapi.GetPerson.Call(ctx, v.API, &analyticsapi.OnePerson{InProject: p.Here(), Distinct: p.Distinct})
	})
	if p.Person = &who; who.Problem == nil {
		p.Events = eventsOf(v, &analyticsapi.EventFilter{InProject: p.Here(), Person: who.Has.ID.String(), Page: operation.Page{Limit: ofPerson}})
	}
	return view, nil
}

// definitionsPage is the names that were seen.
type definitionsPage struct {
	of
	Definitions page.Part[[]analyticsapi.Definition]
	Next        string // how many names are before the next page; empty: there is none
}

// definitionsShown is how many names the page shows.
const definitionsShown = 500

func showDefinitions(v *page.Visit) (*page.View, error) {
	p := &definitionsPage{of: projectOf(v)}
	if p.Project != "" {
		in := p.Here()
		before, err := strconv.Atoi(cmp.Or(v.Query().Get("after"), "0"))
		if err != nil || before < 0 {
			return nil, operation.Refuse(http.StatusBadRequest, "after=%s is not how many names are before the page.", v.Query().Get("after"))
		}
		all, more, err := page.Gather(v, analyticsapi.ListDefinitions, &in, before+definitionsShown)
		if more {
			p.Next = strconv.Itoa(len(all))
		}
		p.Definitions = page.Part[[]analyticsapi.Definition]{Has: all[min(before, len(all)):], Problem: page.Problem(err)}
	}
	return &page.View{File: "definitions", Title: "Analytics: names", Section: section, Crumbs: crumbs, Body: p}, nil
}
