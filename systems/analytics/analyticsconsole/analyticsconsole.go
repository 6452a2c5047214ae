// Package analyticsconsole is the pages of analytics in the console.
package analyticsconsole

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
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
	Funcs:     template.FuncMap{"eventAt": eventAt, "personAt": personAt, "advice": advice, "text": func(b json.RawMessage) string { return string(b) }, "at": at},
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
	rows     = 50
	deepest  = 20 // pages of a list: each reads those before it too
	ofPerson = 20 // events on the page of a person
)

// eventsPage is a list of events, the newest first.
type eventsPage struct {
	of
	Filter  analyticsapi.EventFilter
	Events  page.Part[[]analyticsapi.Event]
	Active  []page.Link
	Default bool
	Number  int  // of the page, from 1
	More    bool // there are older ones
	Deepest bool // this is the last page that is shown
}

func showEvents(v *page.Visit) (*page.View, error) {
	p := &eventsPage{of: projectOf(v), Number: 1}
	q := v.Query()
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		p.Number = min(max(n, 1), deepest)
	}
	q.Del("page")
	if err := analyticsapi.ListEvents.Parse(q, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.InProject, p.Filter.Max, p.Filter.Follow, p.Filter.Newest = p.Here(), 0, false, rows*p.Number+1
	if p.Default = p.Filter.Span == (api.Span{}); p.Default {
		p.Filter.Since = lastDay
	}
	p.Deepest = p.Number == deepest
	p.Active = v.Active("project", "name", "distinct_id", "person", "since", "until")
	if p.Project == "" {
		return &page.View{File: "events", Title: "Analytics: events", Section: section, Body: p}, nil
	}
	p.Events, p.More = newest(v, p.Filter, rows)
	return &page.View{File: "events", Title: "Analytics: events", Section: section, Body: p}, nil
}

// newest are the last so many events of those that a filter asks for, the newest first; more says that
// there are older ones.
func newest(v *page.Visit, f analyticsapi.EventFilter, most int) (p page.Part[[]analyticsapi.Event], more bool) {
	p = page.Look(v, func(context.Context) ([]analyticsapi.Event, error) {
		all, _, err := page.Gather(v, analyticsapi.ListEvents, &f, f.Newest)
		return all, err
	})
	if more = len(p.Has) == f.Newest; more { // the oldest is of the next page
		p.Has = p.Has[1:]
	}
	skip := f.Newest - 1 - most // they are the newest, and on the pages before
	p.Has = p.Has[:max(len(p.Has)-skip, 0)]
	slices.Reverse(p.Has)
	return p, more
}

// Before and After are the numbers of the pages beside this one; empty: there is none.
func (p *eventsPage) Before() string { return number(p.Number-1, p.Number > 1) }

// After is the next page.
func (p *eventsPage) After() string { return number(p.Number+1, p.More && !p.Deepest) }

func number(n int, is bool) string {
	if !is {
		return ""
	}
	return strconv.Itoa(n)
}

// Until fixes the list at the time of its first page, so that newer events move nothing.
func (p *eventsPage) Until(v *page.View) string {
	return cmp.Or(v.Asked("until"), v.At.UTC().Add(time.Minute).Format(time.RFC3339))
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
	Events       page.Part[[]analyticsapi.Event]
	More         bool
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
		p.Events, p.More = newest(v, analyticsapi.EventFilter{InProject: p.Here(), Person: who.Has.ID.String(), Newest: ofPerson + 1}, ofPerson)
	}
	return view, nil
}

// definitionsPage is the names that were seen.
type definitionsPage struct {
	of
	Definitions page.Part[[]analyticsapi.Definition]
	More        bool
}

// definitionsShown is how many names the page shows.
const definitionsShown = 500

func showDefinitions(v *page.Visit) (*page.View, error) {
	p := &definitionsPage{of: projectOf(v)}
	if p.Project != "" {
		in := p.Here()
		all, more, err := page.Gather(v, analyticsapi.ListDefinitions, &in, definitionsShown)
		p.Definitions, p.More = page.Part[[]analyticsapi.Definition]{Has: all, Problem: page.Problem(err)}, more
	}
	return &page.View{File: "definitions", Title: "Analytics: names", Section: section, Crumbs: crumbs, Body: p}, nil
}
