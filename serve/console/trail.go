package console

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// checkWithin is how long the page waits for a check, which reads all of the trail.
const checkWithin = 30 * time.Second

// trailPage is a list of who did what.
type trailPage struct {
	Filter  api.TrailFilter
	Entries page.Part[operation.Paged[api.TrailEntry]]
	Active  []page.Link
	Check   *page.Part[api.TrailCheck] // nil: it was not asked for
	Export  string                     // all that match, as a file
}

func showTrail(v *page.Visit) (*page.View, error) {
	p := &trailPage{}
	if err := v.Filter(api.ListAuditTrail.Description, &p.Filter, "check"); err != nil {
		return nil, err
	}
	if err := v.Allowed("The audit trail", api.ListAuditTrail.ID); err != nil {
		return nil, err
	}
	p.Filter.Max = 0
	v.Paging(&p.Filter.Page)
	p.Entries = page.Look(v, func(ctx context.Context) (operation.Paged[api.TrailEntry], error) {
		return api.ListAuditTrail.Page(ctx, v.API, &p.Filter)
	})
	p.Export = page.Query(page.Address("audit", "export"), v.Unpaged())
	p.Active = v.Active("who", "operation", "thing", "outcome", "since", "until")
	if v.Query().Get("check") != "" {
		ctx, cancel := context.WithTimeout(v.R.Context(), checkWithin)
		defer cancel()
		c, err := api.CheckAuditTrail.Call(ctx, v.API, &operation.None{})
		p.Check = &page.Part[api.TrailCheck]{Has: c, Problem: page.Problem(err)}
	}
	return &page.View{File: "trail", Live: v.Newest() && v.Query().Get("check") == "", Title: "Audit trail", Section: "audit", Body: p}, nil
}

// exportTrail is all entries that match, as a file.
func exportTrail(v *page.Visit) (*page.View, error) {
	if err := v.Allowed("The audit trail", api.ListAuditTrail.ID); err != nil {
		return nil, err
	}
	q := &api.TrailFilter{}
	if err := page.Given(v.Unpaged(), api.ListAuditTrail.Description, q); err != nil {
		return nil, err
	}
	return nil, page.Lines(v, "audit-trail.jsonl", api.ListAuditTrail, q)
}

// operationOf is the id of the operation that an entry started or stopped; empty: it did neither.
func operationOf(e api.TrailEntry) string {
	if e.Operation == api.StopOperation.ID {
		return e.Thing
	}
	var started struct{ Operation string }
	if e.Operation != api.StartOperation.ID || json.Unmarshal(e.After, &started) != nil {
		return ""
	}
	return started.Operation
}

// noted is a value that the trail noted, as text.
func noted(m json.RawMessage) *page.Payload {
	if len(m) == 0 {
		return nil
	}
	return page.NewPayload(string(m), "", "")
}
