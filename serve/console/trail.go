package console

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// changesShown is how many last changes of a thing its page shows.
const changesShown = 5

// checkWithin is how long the page waits for a check, which reads all of the trail.
const checkWithin = 30 * time.Second

// trailPage is a list of who did what.
type trailPage struct {
	Filter  api.TrailFilter
	Entries part[operation.Paged[api.TrailEntry]]
	Active  []link
	Check   *part[api.TrailCheck] // nil: it was not asked for
}

func showTrail(v *visit) (*view, error) {
	p := &trailPage{}
	if err := api.ListAuditTrail.Parse(v.query(), &p.Filter); err != nil {
		return nil, err
	}
	if err := v.allowed("The audit trail", api.ListAuditTrail.ID); err != nil {
		return nil, err
	}
	p.Filter.Max = 0
	v.pageOf(&p.Filter.Page)
	p.Entries = look(v, func(ctx context.Context) (operation.Paged[api.TrailEntry], error) {
		return api.ListAuditTrail.Page(ctx, v.API, &p.Filter)
	})
	p.Active = v.active("who", "operation", "thing", "outcome", "since", "until")
	if v.query().Get("check") != "" {
		ctx, cancel := context.WithTimeout(v.r.Context(), checkWithin)
		defer cancel()
		c, err := api.CheckAuditTrail.Call(ctx, v.API, &operation.None{})
		p.Check = &part[api.TrailCheck]{Has: c, Problem: problemOf(err)}
	}
	return &view{file: "trail", Title: "Audit trail", Section: "audit", Body: p}, nil
}

// Outcomes are those that an entry can have.
func (v *view) Outcomes() []string { return []string{"done", "refused", "failed", "unknown"} }

// Noted is a value that the trail noted, as text.
func (v *view) Noted(m json.RawMessage) *payload {
	if len(m) == 0 {
		return nil
	}
	return newPayload(string(m), "", "")
}

// lastChanges are the last changes of a thing, and by whom.
func lastChanges(v *visit, thing string) *part[[]api.Change] {
	if !v.may(api.ListChanges.ID) {
		return nil
	}
	p := look(v, func(context.Context) ([]api.Change, error) {
		all, _, err := gather(v, api.ListChanges, &api.ChangesOf{Thing: thing, Max: changesShown}, changesShown)
		return all, err
	})
	return &p
}
