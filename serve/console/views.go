package console

import (
	"html/template"
	"slices"
	"sort"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/view"
)

var viewCrumbs = []page.Link{{Text: "Saved views", Href: page.Address("views")}}

// viewsOnOverview is how many saved views the overview shows.
const viewsOnOverview = 8

// onlyMe and everybody are who sees a view.
const onlyMe, everybody = "only you", "everybody"

// savedViews are those that the caller sees: their own, then those of others, by name.
func savedViews(v *page.Visit) page.Part[[]api.View] {
	p := page.Listed(v, api.ListViews, &operation.Short{})
	sort.SliceStable(p.Has, func(i, j int) bool { // the package slices takes 20 KB for each type
		a, b := &p.Has[i], &p.Has[j]
		if mine := a.Owner == v.Caller.Name; mine != (b.Owner == v.Caller.Name) {
			return mine
		}
		return strings.ToLower(a.Name) < strings.ToLower(b.Name)
	})
	return p
}

// savedAt is where a view leads; empty: nowhere, for whatever wrote it did not keep to the rules.
func savedAt(v api.View) string {
	if view.CheckAddress(v.Address) != nil {
		return ""
	}
	return v.Address
}

func showViews(v *page.Visit) (*page.View, error) {
	return &page.View{File: "views", Title: "Saved views", Section: "views", Body: savedViews(v)}, nil
}

// viewsTable are saved views.
func viewsTable(v *page.View, all []api.View) template.HTML {
	admin := v.Caller.Rights.May(caller.Admin, "")
	t := page.Table[api.View]{Caption: "Saved views", Columns: []page.Column[api.View]{
		{Name: "Name", Head: true, Look: "cause", Cell: func(c *page.Cell, o *api.View) { c.Link(savedAt(*o), o.Name) }},
		{Name: "Seen by", Cell: func(c *page.Cell, o *api.View) {
			if o.Shared {
				c.Text(everybody)
			} else {
				c.Soft(onlyMe)
			}
		}},
		{Name: "Saved by", Cell: func(c *page.Cell, o *api.View) { c.Text(o.Owner) }},
		{Name: "Saved", Cell: func(c *page.Cell, o *api.View) { c.When(o.Made) }},
		{Name: "Address", Look: "id wide small", Cell: func(c *page.Cell, o *api.View) { c.Text(o.Address) }},
		{Name: "Actions", Mute: true, Look: "acts", Cell: func(c *page.Cell, o *api.View) {
			if o.Owner == v.Who() {
				c.Ask(page.Address("views", o.ID, "change"), "Change", " "+o.Name)
			}
			if o.Owner == v.Who() || admin {
				c.Ask(page.Address("views", o.ID, "remove"), "Remove", " "+o.Name)
			}
		}},
	}}
	return t.HTML(v.Visit, all)
}

// viewInputs asks for a view; of is what it is now, or would be.
func viewInputs(v *page.Visit, of api.SavedView) []page.Input {
	given := func(name, or string) string {
		if v.R.PostForm.Has(name) {
			return v.R.PostFormValue(name)
		}
		return or
	}
	all := []page.Input{{Name: "name", Label: "Name", Value: given("name", of.Name), Auto: "off", Help: "1 to 80 characters, and no other view of yours has it."},
		{Name: "address", Label: "Address", Value: given("address", of.Address), Auto: "off", Help: "The page with its filters, from /console/ on. Times that are ages, as since=1h, stay ages."}}
	if of.Shared || v.Caller.Rights.MayAny(caller.Operator) {
		seen := onlyMe
		if of.Shared {
			seen = everybody
		}
		all = append(all, page.Input{Name: "seen", Label: "Who sees it", Value: given("seen", seen), Choices: []string{onlyMe, everybody}, Auto: "off"})
	}
	return all
}

// givenAddress is what a form has of an address: the path of a proxy is before it, as before all addresses of a page.
func givenAddress(v *page.Visit) string {
	return strings.TrimPrefix(strings.TrimSpace(v.R.PostFormValue("address")), v.Base)
}

// saveView saves the page that its link was on.
var saveView = &page.Action{Path: "views/save", Op: api.SaveView.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		at := v.Query().Get("address")
		q := &page.Question{Title: "Save a view", Button: "Save the view", Section: "views", Crumbs: viewCrumbs, Back: v.Local(at, page.Address("views")),
			Texts: []string{"It stands under Saved views and on the overview. Times that are ages, as since=1h, stay ages."}, Inputs: viewInputs(v, api.SavedView{Address: at})}
		if view.CheckAddress(at) == nil { // of a page, whose link led here
			q.Texts = append(q.Texts, "It leads to "+at)
			q.Inputs = slices.DeleteFunc(q.Inputs, func(i page.Input) bool { return i.Name == "address" })
			q.Hidden = []page.Fact{{Name: "address", Value: at}}
		}
		q.CLI, q.Request = page.Command("view", "save", "NAME", at), page.Request(api.SaveView, &api.NewView{ViewToSave: api.ViewToSave{Name: "NAME", Address: at}})
		return q, nil
	},
	Do: func(v *page.Visit) (string, error) {
		a, err := page.Change(v, api.SaveView, &api.NewView{ViewToSave: api.ViewToSave{Name: v.R.PostFormValue("name"), Address: givenAddress(v), Shared: v.R.PostFormValue("seen") == everybody}})
		if err != nil {
			return "", page.Refilled(err)
		}
		return page.Done(a.Address, "view.saved"), nil
	}}

func theView(v *page.Visit) api.OneView {
	return api.OneView{ViewID: api.ViewID{ID: v.R.PathValue("id")}}
}

// changeView gives a view of the caller's another name or address, or shares it.
var changeView = &page.Action{Path: "views/{id}/change", Op: api.ChangeView.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		one := theView(v)
		is, err := page.Call(v, api.GetView, &one)
		if err != nil {
			return nil, err
		}
		return &page.Question{Title: "Change the view " + page.Cut(is.Name), Button: "Change the view", Section: "views", Crumbs: viewCrumbs, Back: page.Address("views"), ETag: is.ETag, Inputs: viewInputs(v, is.SavedView),
			CLI: page.Command("view", "save", is.Name, is.Address, "--id", is.ID), Request: page.Request(api.ChangeView, &api.ViewChange{ViewID: one.ViewID, OtherView: api.OtherView{Name: is.Name, Address: is.Address}})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		q := &api.ViewChange{ViewID: theView(v).ViewID, Seen: api.Seen{IfMatch: v.R.PostFormValue("etag")}, OtherView: api.OtherView{Name: v.R.PostFormValue("name"), Address: givenAddress(v)}}
		switch v.R.PostFormValue("seen") {
		case everybody:
			q.Shared = "true"
		case onlyMe:
			q.Shared = "false"
		}
		_, err := page.Change(v, api.ChangeView, q)
		return page.Done(page.Address("views"), "view.changed"), page.Refilled(err)
	}}

// removeView removes a view.
var removeView = &page.Action{Path: "views/{id}/remove", Op: api.RemoveView.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		one := theView(v)
		is, err := page.Call(v, api.GetView, &one)
		if err != nil {
			return nil, err
		}
		q := &page.Question{Title: "Remove the view " + page.Cut(is.Name) + "?", Button: "Remove the view", Careful: true, Section: "views", Crumbs: viewCrumbs, Back: page.Address("views"),
			Texts: []string{"The page that it leads to stays as it is."}, CLI: page.Command("view", "remove", is.ID), Request: page.Request(api.RemoveView, &one)}
		if is.Shared {
			q.Texts = append(q.Texts, "Everybody who uses it misses it then.")
		}
		return q, nil
	},
	Do: func(v *page.Visit) (string, error) {
		one := theView(v)
		_, err := page.Change(v, api.RemoveView, &one)
		return page.Done(page.Address("views"), "view.removed"), err
	}}
