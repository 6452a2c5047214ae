package windowsconsole

import (
	"html/template"

	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// windowsTable are windows.
func windowsTable(v *page.View, all []windowsapi.Window) template.HTML {
	t := page.Table[windowsapi.Window]{Caption: "Windows", Columns: []page.Column[windowsapi.Window]{
		{Name: "Window", Head: true, Look: "id", Cell: func(c *page.Cell, w *windowsapi.Window) { c.LinkID(oneAddress(w.ID, w.Project), w.ID) }},
		{Name: "Project", Cell: func(c *page.Cell, w *windowsapi.Window) { c.Text(w.Project) }},
		{Name: "State", Cell: func(c *page.Cell, w *windowsapi.Window) {
			c.State(w.State)
			c.Below(w.Owner, "")
		}},
		{Name: "Records", Look: page.Numbers, Cell: func(c *page.Cell, w *windowsapi.Window) {
			if c.Count(w.Records); w.Expect > 0 {
				c.Text(" of " + page.Number(w.Expect))
			}
		}},
		{Name: "Opened", Cell: func(c *page.Cell, w *windowsapi.Window) { c.When(w.Opened) }},
		{Name: "Due", Cell: func(c *page.Cell, w *windowsapi.Window) { c.When(w.Due) }},
		{Name: "Failed tries", Look: page.Numbers, Cell: func(c *page.Cell, w *windowsapi.Window) { c.Count(w.Tries) }},
		{Name: "Last failure", Look: "cause wide", Cell: func(c *page.Cell, w *windowsapi.Window) { c.Text(w.Error) }},
	}}
	return t.HTML(v.Visit, all)
}
