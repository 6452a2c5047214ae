package console

import (
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

var operationCrumbs = []link{{"Operations", address("operations")}}

// operationStates are those that the list can be narrowed to.
var operationStates = []setting{
	{"active", "Active", "Scheduled or running."}, {"done", "Done", "They changed all that they could."},
	{"stopped", "Stopped", "Somebody stopped them."}, {"failed", "Failed", "They could not go on, and say why."},
}

// OperationStates are those that the list can be narrowed to.
func (v *view) OperationStates() []setting { return operationStates }

// operationsPage is a list of operations.
type operationsPage struct {
	Filter     api.OperationFilter
	Operations part[operation.Paged[api.Operation]]
}

func showOperations(v *visit) (*view, error) {
	p := &operationsPage{}
	if err := api.ListOperations.Parse(v.query(), &p.Filter); err != nil {
		return nil, err
	}
	v.pageOf(&p.Filter.Page)
	p.Operations = look(v, func(ctx context.Context) (operation.Paged[api.Operation], error) {
		return api.ListOperations.Page(ctx, v.API, &p.Filter)
	})
	return &view{file: "operations", Title: "Operations", Section: "operations", Live: p.Filter.Cursor == "", Body: p}, nil
}

// operationPage is one operation.
type operationPage struct {
	api.Operation
	Chosen []setting // the filter
	Failed int       // things that could not be changed
	Why    []setting // by reason
}

func showOperation(v *visit) (*view, error) {
	o, err := call(v, api.GetOperation, &api.OneOperation{ID: v.r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	p := &operationPage{Operation: o, Why: tallied(o.Failed)}
	for _, n := range o.Failed {
		p.Failed += n
	}
	asked := api.PreviewOperation.Query(&api.OperationAsked{OperationThings: o.Filter})
	for _, name := range slices.Sorted(keys(asked)) {
		for _, value := range asked[name] {
			p.Chosen = append(p.Chosen, setting{Name: name, Value: cut(value)})
		}
	}
	w := &view{visit: v}
	return &view{file: "operation", Title: w.Deed(o.What), Section: "operations", Crumbs: operationCrumbs, Live: o.Ended == nil, Body: p}, nil
}

// stopOperation stops an operation, from whatever page.
var stopOperation = &action{path: "operations/{id}/stop", op: api.StopOperation.ID,
	ask: func(v *visit) (*question, error) {
		o, err := call(v, api.GetOperation, &api.OneOperation{ID: v.r.PathValue("id")})
		if err != nil {
			return nil, err
		}
		w := &view{visit: v}
		return &question{Title: "Stop this operation?", Button: "Stop it", Section: "operations", Crumbs: operationCrumbs, Back: address("operations", o.ID),
			Texts: []string{w.Deed(o.What) + ", " + number(o.Changed) + " of " + number(o.Count) + " changed.", "What is changed stays changed. Nothing more is."},
			CLI:   command("operations", "stop", o.ID), Request: request(api.StopOperation, &api.OneOperation{ID: o.ID})}, nil
	},
	do: func(v *visit) (string, error) {
		id := v.r.PathValue("id")
		_, err := change(v, api.StopOperation, &api.OneOperation{ID: id})
		return done(v.back(address("operations", id)), "stopped"), err
	}}

// activeFor is how long the operations that are active are shown to everybody.
const activeFor = time.Second

// mostActive is how many of them pages show.
const mostActive = 5

// readActive are the operations that are scheduled or run.
func readActive(ctx context.Context, v *visit) ([]api.Operation, error) {
	p, err := api.ListOperations.Page(ctx, v.API, &api.OperationFilter{State: "active", Page: operation.Page{Order: "newest", Limit: mostActive}})
	return p.Items, err
}
