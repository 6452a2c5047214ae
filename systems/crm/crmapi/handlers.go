package crmapi

import (
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/crm"
)

const (
	failuresOf     = 24 * time.Hour
	failuresLooked = 1000 // the newest
)

// crmHandlers shows the handlers with what they failed.
func (a *API) crmHandlers(ctx context.Context, _ *operation.None) (out Handlers, err error) {
	out.Since, out.Handlers = time.Now().UTC().Add(-failuresOf), []Handler{}
	for _, s := range a.CRM.Handlers() {
		out.Handlers = append(out.Handlers, Handler{Name: s.Name, Types: s.Types})
	}
	for r, err := range a.CRM.Records(ctx, crm.RecordFilter{State: crm.IsFailed, From: out.Since, Back: true, Max: failuresLooked + 1}) {
		if err != nil {
			return out, answer.Answerable(err)
		}
		if out.Looked == failuresLooked {
			out.AtLeast = true
			break
		}
		out.Looked++
		name := a.CRM.HandlerOf(r.Type)
		i := slices.IndexFunc(out.Handlers, func(h Handler) bool { return h.Name == name })
		if i < 0 {
			out.Unknown++
			continue
		}
		h := &out.Handlers[i]
		h.Failed++
		if h.Last == nil || r.Failed.After(*h.Last) {
			h.Last, h.Kind, h.Error = answer.When(r.Failed), r.Kind, r.Error
		}
	}
	return out, nil
}
