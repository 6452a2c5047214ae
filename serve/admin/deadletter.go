package admin

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

// show shows one dead letter, and whose it is.
func (a *API) show(l *deadletter.Letter, whole bool) api.DeadLetter {
	out := answer.DeadLetter(l, whole)
	out.System = a.systemOf(l.Pipeline)
	if o := a.ownerOf(l.Pipeline); o != nil && o.Label != nil {
		o.Label(l, &out)
	}
	if out.Tenant != "" {
		return out
	}
	if _, err := uuid.Parse(l.Tenant); err == nil {
		out.Project = l.Tenant
	} else {
		out.Site = l.Tenant
	}
	return out
}

// showWhole shows one dead letter with its payload and the original, and whether they are covered.
func (a *API) showWhole(ctx context.Context, l *deadletter.Letter) api.DeadLetter {
	out := a.show(l, true)
	out.Covered = operation.Covers(ctx, out, l.Payload)
	out.OriginalCovered = !l.Edited.IsZero() && operation.Covers(ctx, out, l.Original)
	return out
}

func (a *API) export(l *deadletter.Letter) *api.ExportedDead {
	out := &api.ExportedDead{Error: l.Cause, First: answer.FirstFailure(l), Last: l.Last.UTC(), Queue: cmp.Or(l.To, l.Pipeline), Reason: string(deadletter.ReasonOf(l.Kind)),
		ID: l.ID, Kind: l.Kind.String(), Partner: a.partnerOf(l.Pipeline), Site: l.Tenant}
	original := l.Payload
	if !l.Edited.IsZero() {
		original = l.Original
		edited, base := answer.Text(l.Payload)
		if out.EditedBase64 = base; base == "" {
			out.Edited = &edited
		}
	}
	out.Original, out.OriginalBase64 = answer.Text(original)
	for _, f := range l.History {
		out.Attempts += max(1, f.Tries)
	}
	var answer api.Response
	if json.Unmarshal(l.Answer(), &answer) == nil && answer.Status > 0 {
		out.Response = &answer
	}
	return out
}
