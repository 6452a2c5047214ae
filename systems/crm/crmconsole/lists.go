package crmconsole

import (
	"html/template"
	"strings"

	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

// logTable is the sync log.
func logTable(v *page.View, all []crmapi.SyncRecord) template.HTML {
	t := page.Table[crmapi.SyncRecord]{Caption: "Sync log", Columns: []page.Column[crmapi.SyncRecord]{
		{Name: "Event", Head: true, Look: "id", Cell: func(c *page.Cell, r *crmapi.SyncRecord) { c.LinkID(eventAt(r.Tenant, r.ID), r.ID) }},
		{Name: "State", Cell: func(c *page.Cell, r *crmapi.SyncRecord) {
			state := strings.ToLower(r.State)
			c.LinkState(v.Here("state", state), state)
		}},
		{Name: "Type", Cell: func(c *page.Cell, r *crmapi.SyncRecord) { c.Link(v.Here("type", r.Type), r.Type) }},
		{Name: "Tenant", Look: "id", Cell: func(c *page.Cell, r *crmapi.SyncRecord) { c.Link(v.Here("tenant", r.Tenant), r.Tenant) }},
		{Name: "Tries", Look: page.Numbers, Cell: func(c *page.Cell, r *crmapi.SyncRecord) { c.Count(r.Attempts) }},
		{Name: "First taken up", Cell: func(c *page.Cell, r *crmapi.SyncRecord) { c.When(r.Created) }},
		{Name: "Error", Look: "cause wide small", Cell: func(c *page.Cell, r *crmapi.SyncRecord) {
			if r.Kind != "" {
				c.Text(r.Kind + ": ")
			}
			c.Text(r.Error)
		}},
	}}
	return t.HTML(v.Visit, all)
}
