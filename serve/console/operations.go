package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

var operationCrumbs = []page.Link{{Text: "Operations", Href: page.Address("operations")}}

// operationStates are those that the list can be narrowed to.
var operationStates = []page.Fact{
	{Name: "active", Value: "Active", Help: "Scheduled or running."}, {Name: "done", Value: "Done", Help: "They changed all that they could."},
	{Name: "stopped", Value: "Stopped", Help: "Somebody stopped them."}, {Name: "failed", Value: "Failed", Help: "They could not go on, and say why."},
}

// operationsPage is a list of operations.
type operationsPage struct {
	Filter     api.OperationFilter
	Operations page.Part[operation.Paged[api.Operation]]
}

func showOperations(v *page.Visit) (*page.View, error) {
	p := &operationsPage{}
	if err := v.Filter(api.ListOperations.Description, &p.Filter); err != nil {
		return nil, err
	}
	v.Paging(&p.Filter.Page)
	p.Operations = page.Look(v, func(ctx context.Context) (operation.Paged[api.Operation], error) {
		return api.ListOperations.Page(ctx, v.API, &p.Filter)
	})
	return &page.View{File: "operations", Title: "Operations", Section: "operations", Live: p.Filter.Cursor == "", Body: p}, nil
}

// operationPage is one operation.
type operationPage struct {
	api.Operation
	Chosen []page.Fact // the filter
	Failed int         // things that could not be changed
	Why    []page.Fact // by reason
	On     page.Link   // what of it is still there
}

// worksOn is the list of what an operation is for, as it is now: what has changed since is in it no more.
func worksOn(o *api.Operation) page.Link {
	f, until := o.Filter, cmp.Or(o.Filter.Until, o.AsOf.UTC().Format(time.RFC3339Nano))
	if f.Queue != "" {
		q := &api.JobFilter{IDs: f.IDs, Jobs: api.Jobs{Tenant: f.Tenant, Type: f.Type, Until: until}, State: f.State}
		return page.Link{Text: "Jobs of it that are there", Href: page.Query(page.Address("queues", f.Queue, "jobs"), api.ListJobs.Query(q))}
	}
	q := &api.DeadFilter{IDs: f.IDs, Dead: f.Dead, State: f.State}
	q.Until, q.Max = until, 0
	return page.Link{Text: "Dead letters of it that are there", Href: page.Query(page.Address("dead"), api.ListDead.Query(q))}
}

func showOperation(v *page.Visit) (*page.View, error) {
	o, err := page.Call(v, api.GetOperation, &api.OneOperation{ID: v.R.PathValue("id")})
	if err != nil {
		return nil, err
	}
	p := &operationPage{Operation: o, Why: page.Tallied(o.Failed), On: worksOn(&o)}
	for _, n := range o.Failed {
		p.Failed += n
	}
	asked := api.PreviewOperation.Query(&api.OperationAsked{OperationThings: o.Filter})
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		for _, value := range asked[name] {
			if name == "since" || name == "until" {
				value = v.Clock(value)
			}
			p.Chosen = append(p.Chosen, page.Fact{Name: name, Value: page.Cut(value)})
		}
	}
	return &page.View{File: "operation", Title: page.Deed(o.What), Section: "operations", Crumbs: operationCrumbs, Live: o.Ended == nil, Body: p}, nil
}

// stopOperation stops an operation, from whatever page.
var stopOperation = &page.Action{Path: "operations/{id}/stop", Op: api.StopOperation.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		o, err := page.Call(v, api.GetOperation, &api.OneOperation{ID: v.R.PathValue("id")})
		if err != nil {
			return nil, err
		}
		return &page.Question{Title: "Stop this operation?", Button: "Stop it", Section: "operations", Crumbs: operationCrumbs, Back: page.Address("operations", o.ID),
			Texts: []string{page.Deed(o.What) + ", " + page.Number(o.Changed) + " of " + page.Number(o.Count) + " changed.", "What is changed stays changed. Nothing more is."},
			CLI:   page.Command("operations", "stop", o.ID), Request: page.Request(api.StopOperation, &api.OneOperation{ID: o.ID})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		id := v.R.PathValue("id")
		_, err := page.Change(v, api.StopOperation, &api.OneOperation{ID: id})
		return page.Done(v.Back(page.Address("operations", id)), "stopped"), err
	}}
