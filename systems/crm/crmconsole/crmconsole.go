// Package crmconsole is the pages of CRM in the console.
package crmconsole

import (
	"context"
	"embed"
	"html/template"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

//go:embed templates/*.html
var templateFiles embed.FS

// section is the place of all its pages in the navigation.
const section = crm.Name

// Pages are those of CRM.
var Pages = &page.Set{
	Name:      crm.Name,
	Places:    []page.Place{{Section: section, Text: "CRM", Path: "crm", Key: "m", Op: crmapi.ListSyncLog.ID}},
	Templates: templateFiles,
	Funcs:     template.FuncMap{"lower": strings.ToLower, "logTable": logTable, "logStates": func() []page.Fact { return states }, "percent": percent},
	Said:      map[string]string{"crm.retried": "The event is queued again.", "crm.replayed": "The replay is asked for. This page says how far it is.", "crm.stopped": "The replay stops. What has begun is finished."},
	Things: map[string]func(map[string]string) string{
		crmapi.GetCRMEvent.ID: func(p map[string]string) string { return eventAt(p["tenant"], p["id"]) },
		crmapi.GetReplay.ID:   func(p map[string]string) string { return replayAt(p["id"]) },
		crmapi.GetProfile.ID:  profileAt,
	},
	Described: map[string]page.Described{
		"handler": {At: func(string) string { return page.Address("crm", "handlers") }, Removal: func(*page.Visit, string) []string {
			return []string{"Events that it was found for still go to it. Later ones of its types are skipped, or dead, as crm.unknown says, unless another handler takes them."}
		}},
	},
	Pages: []page.Page{
		{Path: "crm", Show: showLog}, {Path: "crm/event", Show: showEvent}, {Path: "crm/profile", Show: showProfile}, {Path: "crm/handlers", Show: showHandlers},
		{Path: "crm/replays", Show: showReplays}, {Path: "crm/replays/{id}", Show: showReplay}, {Path: "crm/replays/new", Show: newReplay},
	},
	Actions:   []*page.Action{retryEvent, startReplay, stopReplay},
	Downloads: []page.Page{{Path: "crm/event/payload", Show: eventPayload}},
}

var crumbs = []page.Link{{Text: "CRM", Href: page.Address("crm")}}

// states are those of the sync log, with what each means.
var states = []page.Fact{
	{Name: "processing", Value: "Processing", Help: "A handler has it, or had it when its process ended; then it is tried again."},
	{Name: "completed", Value: "Completed", Help: "Its handler has taken it."},
	{Name: "failed", Value: "Failed", Help: "Its last try failed. It may be tried again still: the page of the event says so."},
}

// lastDay is the time that lists are of where no other is asked for.
const lastDay = "24h"

// logPage is the sync log, and how CRM stands.
type logPage struct {
	Filter  crmapi.SyncLogFilter
	Stands  page.Part[crmapi.CRM]
	Records page.Part[operation.Paged[crmapi.SyncRecord]]
	Active  []page.Link
	Default bool // the time is the last day because no other was asked for
	Replay  string
}

func showLog(v *page.Visit) (*page.View, error) {
	p := &logPage{}
	if err := v.Filter(crmapi.ListSyncLog.Description, &p.Filter); err != nil {
		return nil, err
	}
	p.Filter.Max, p.Filter.Payload = 0, false
	if p.Default = p.Filter.Span == (api.Span{}); p.Default {
		p.Filter.Since = lastDay
	}
	v.Paging(&p.Filter.Page)
	p.Stands = page.Look(v, func(ctx context.Context) (crmapi.CRM, error) {
		return crmapi.GetCRM.Call(ctx, v.API, &operation.None{})
	})
	p.Records = page.Look(v, func(ctx context.Context) (operation.Paged[crmapi.SyncRecord], error) {
		return crmapi.ListSyncLog.Page(ctx, v.API, &p.Filter)
	})
	p.Active = v.Active("tenant", "type", "state", "since", "until")
	p.Replay = replayOf(p.Filter.Span.Fixed(v.At), p.Filter.Tenant, p.Filter.Type, v)
	return &page.View{File: "log", Live: v.Newest(), Title: "CRM: sync log", Section: section, Body: p}, nil
}

// eventPage is where one event is.
type eventPage struct {
	crmapi.CRMEvent
	Payload *page.Payload
	Explain string
	Dead    string // its dead letter
	Retry   string // the action; empty: it does not apply
	Changes *page.Part[[]api.Change]
}

func eventAt(tenant, id string) string {
	return page.Query(page.Address("crm", "event"), url.Values{"tenant": {tenant}, "id": {id}})
}

func oneEvent(v *page.Visit) *crmapi.OneCRMEvent {
	return &crmapi.OneCRMEvent{Tenant: v.Query().Get("tenant"), Event: v.Query().Get("id")}
}

func showEvent(v *page.Visit) (*page.View, error) {
	q := oneEvent(v)
	e, err := page.Call(v, crmapi.GetCRMEvent, q)
	if err != nil {
		return nil, err
	}
	p := &eventPage{CRMEvent: e, Explain: page.ExplainAddress(crm.Name, e.Tenant, e.ID), Changes: page.LastChanges(v, e.ID)}
	if text, base := e.Payload(); text != "" || base != "" {
		p.Payload = page.NewPayload(text, base, page.Query(page.Address("crm", "event", "payload"), url.Values{"tenant": {e.Tenant}, "id": {e.ID}})).Covering(e.Covered)
	}
	if l := e.Letter; l != nil {
		p.Dead = page.DeadAddress(l)
		if l.State == "held" && v.May(crmapi.RetryCRM.ID) {
			p.Retry = page.Query(page.Address("crm", "retry"), url.Values{"tenant": {e.Tenant}, "id": {e.ID}})
		}
	}
	return &page.View{File: "event", Title: "CRM event " + page.Cut(e.ID), Section: section, Crumbs: crumbs, Body: p}, nil
}

func eventPayload(v *page.Visit) (*page.View, error) {
	q := oneEvent(v)
	return nil, page.Download(v, q.Event, crmapi.GetCRMPayload, q)
}

var retryEvent = &page.Action{Path: "crm/retry", Op: crmapi.RetryCRM.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		q := oneEvent(v)
		e, err := page.Call(v, crmapi.GetCRMEvent, q)
		if err != nil {
			return nil, err
		}
		ask := &page.Question{Title: "Retry this event?", Button: "Retry the event", Section: section, Crumbs: crumbs, Back: eventAt(q.Tenant, q.Event), Request: page.Request(crmapi.RetryCRM, q),
			Texts: []string{"It is queued again and its handler is called again. Its dead letter is gone when that succeeds."}}
		if l := e.Letter; l == nil || l.State != "held" {
			ask.Title, ask.Nothing = "Nothing to retry", "The event is "+e.State+" and has no dead letter that waits: there is nothing to open again."
		} else {
			ask.Sample = []page.Link{{Text: page.Cut(e.ID) + " · " + page.Cut(l.Cause), Href: page.DeadAddress(l)}}
		}
		return ask, nil
	},
	Do: func(v *page.Visit) (string, error) {
		q := oneEvent(v)
		_, err := page.Change(v, crmapi.RetryCRM, q)
		return page.Done(eventAt(q.Tenant, q.Event), "crm.retried"), err
	}}

// profilePage is a form for a profile, and what was found.
type profilePage struct {
	Asked   crmapi.OneProfile
	Profile *page.Part[crmapi.Profile] // nil: none was asked for
	Shown   *page.Payload
}

func profileAt(p map[string]string) string {
	q := url.Values{}
	for name, value := range p {
		q.Set(name, value)
	}
	return page.Query(page.Address("crm", "profile"), q)
}

func showProfile(v *page.Visit) (*page.View, error) {
	p := &profilePage{}
	if err := v.Filter(crmapi.GetProfile.Description, &p.Asked); err != nil {
		return nil, err
	}
	if p.Asked != (crmapi.OneProfile{}) {
		got := page.Look(v, func(ctx context.Context) (crmapi.Profile, error) { return crmapi.GetProfile.Call(ctx, v.API, &p.Asked) })
		p.Profile = &got
	}
	return &page.View{File: "profile", Title: "CRM: profile", Section: section, Crumbs: crumbs, Body: p}, nil
}

func showHandlers(v *page.Visit) (*page.View, error) {
	p := page.Look(v, func(ctx context.Context) (crmapi.Handlers, error) {
		return crmapi.GetHandlers.Call(ctx, v.API, &operation.None{})
	})
	return &page.View{File: "handlers", Title: "CRM: handlers", Section: section, Crumbs: crumbs, Live: true, Body: p}, nil
}
