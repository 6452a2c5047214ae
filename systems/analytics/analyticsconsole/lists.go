package analyticsconsole

import (
	"html/template"
	"net/url"

	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
)

// eventsTable are events of a project.
func eventsTable(v *page.View, project string, all []analyticsapi.Event) template.HTML {
	t := page.Table[analyticsapi.Event]{Caption: "Events", Columns: []page.Column[analyticsapi.Event]{
		{Name: "Event", Head: true, Cell: func(c *page.Cell, e *analyticsapi.Event) { c.Link(eventAt(project, e.ID.String()), e.Name) }},
		{Name: "Time", Cell: func(c *page.Cell, e *analyticsapi.Event) { c.When(at(e.Timestamp)) }},
		{Name: "Distinct id", Look: "id", Cell: func(c *page.Cell, e *analyticsapi.Event) { c.LinkID(personAt(project, e.Person), e.Distinct) }},
		{Name: "Properties", Look: "cause wide small", Cell: func(c *page.Cell, e *analyticsapi.Event) { c.Text(string(e.Properties)) }},
	}}
	return t.HTML(v.Visit, all)
}

// warningsTable are warnings of a project.
func warningsTable(v *page.View, all []analyticsapi.Warning) template.HTML {
	t := page.Table[analyticsapi.Warning]{Caption: "Warnings", Columns: []page.Column[analyticsapi.Warning]{
		{Name: "Type", Head: true, Cell: func(c *page.Cell, w *analyticsapi.Warning) { c.Text(page.Words(w.Type)) }},
		{Name: "When", Cell: func(c *page.Cell, w *analyticsapi.Warning) { c.When(w.Timestamp) }},
		{Name: "Event", Cell: func(c *page.Cell, w *analyticsapi.Warning) { c.Text(w.Name) }},
		{Name: "Distinct id", Look: "id", Cell: func(c *page.Cell, w *analyticsapi.Warning) { c.ID(w.Distinct) }},
		{Name: "Reason", Look: "cause wide small", Cell: func(c *page.Cell, w *analyticsapi.Warning) { c.Text(w.Reason) }},
	}}
	return t.HTML(v.Visit, all)
}

// definitionsTable are the names of a project's events and properties.
func definitionsTable(v *page.View, project string, all []analyticsapi.Definition) template.HTML {
	t := page.Table[analyticsapi.Definition]{Caption: "Names", Columns: []page.Column[analyticsapi.Definition]{
		{Name: "Name", Head: true, Look: "id", Cell: func(c *page.Cell, d *analyticsapi.Definition) {
			if d.Event == "" {
				c.Text(d.Property)
			} else {
				c.Link(page.Query(page.Address("analytics"), url.Values{"project": {project}, "name": {d.Event}}), d.Event)
			}
		}},
		{Name: "What it is", Cell: func(c *page.Cell, d *analyticsapi.Definition) {
			switch {
			case d.Event != "":
				c.Text("event")
			case d.Of == "person":
				c.Text("property of a person")
			case d.Of != "":
				c.Text("property of an " + d.Of)
			default:
				c.Text("property")
			}
		}},
		{Name: "Values", Cell: func(c *page.Cell, d *analyticsapi.Definition) { c.Text(d.Type) }},
		{Name: "Last seen", Cell: func(c *page.Cell, d *analyticsapi.Definition) { c.When(d.LastSeen) }},
	}}
	return t.HTML(v.Visit, all)
}
