package crmapi

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/crm"
)

func showReplay(p *crm.Replay) Replay {
	return Replay{ID: p.ID, State: p.State, Since: answer.When(p.From), Until: answer.When(p.To), Tenant: p.Tenant, Type: p.Type,
		Asked: p.Asked.UTC(), Ended: answer.When(p.Ended), Queued: p.Queued, Reached: answer.When(p.Reached), Share: p.Share}
}

// replayable refuses a replay of no event at all, which is somebody's typing error.
func (a *API) replayable(ctx context.Context, f crm.RecordFilter) error {
	for _, err := range a.CRM.Records(ctx, f) {
		return err
	}
	return operation.Refuse(http.StatusUnprocessableEntity, "the sync log has no such event, and nothing is replayed: `tidemill synclog list` shows what it has")
}

// crmReplay asks for a replay, which goes on by itself.
func (a *API) crmReplay(ctx context.Context, in *ReplayStart) (out StartedReplay, err error) {
	q := &in.Body
	if q.Since == "" && q.Until == "" && q.Tenant == "" && q.Type == "" && !q.All {
		return out, operation.Refuse(http.StatusBadRequest, `say what to replay: since, until, tenant, type, or all, like {"since":"2026-01-31","tenant":"…"}`)
	}
	from, to, err := a.inclusive(api.Span{Since: q.Since, Until: q.Until})
	if err != nil {
		return out, err
	}
	these := crm.RecordFilter{From: from, To: to, Tenant: q.Tenant, Type: q.Type}
	if q.DryRun {
		out.Counted, err = a.countReplay(ctx, these)
		return out, err
	}
	known := false
	if q.ID != "" {
		switch _, err := a.CRM.ReplayOf(ctx, q.ID); {
		case err == nil:
			known = true
		case tidemill.KindOf(err) != tidemill.NotFound:
			return out, err
		}
	}
	ask := crm.ReplayRequest{ID: q.ID, From: from, To: to, Tenant: q.Tenant, Type: q.Type}
	if !known && ask.Check(time.Now()) == nil {
		these.Max = 1
		if err := a.replayable(ctx, these); err != nil {
			return out, err
		}
	}
	p, err := a.CRM.Replay(ctx, ask)
	if errors.Is(err, crm.ErrReplayTaken) {
		return out, operation.Refuse(http.StatusConflict, "%v", err)
	}
	if err != nil {
		return out, answer.Answerable(err)
	}
	shown := showReplay(p)
	if shown.Known = known; !known {
		// Logged when somebody asked for a replay of the sync log.
		a.Log.InfoContext(ctx, "replay asked for by hand", "replay", p.ID, "since", p.From, "until", p.To, "tenant", p.Tenant, "type", p.Type)
	}
	return StartedReplay{Replay: &shown}, nil
}

// countReplay says how many events there are to replay now.
func (a *API) countReplay(ctx context.Context, f crm.RecordFilter) (*api.Counted, error) {
	n := new(api.Counted)
	for _, err := range a.CRM.Records(ctx, f) {
		if err != nil {
			return nil, answer.Answerable(err)
		}
		n.Count++
	}
	return n, nil
}

func (a *API) crmReplays(ctx context.Context, _ *operation.None) (iter.Seq2[Replay, error], error) {
	all, err := a.CRM.Replays(ctx)
	return answer.Listed(all, func(p **crm.Replay) Replay { return showReplay(*p) }), err
}

func (a *API) crmReplayOf(ctx context.Context, q *OneReplay) (Replay, error) {
	p, err := a.CRM.ReplayOf(ctx, q.ID)
	if err != nil {
		return Replay{}, answer.Answerable(err)
	}
	return showReplay(p), nil
}

// crmStopReplay stops a replay, and answers how it stands then.
func (a *API) crmStopReplay(ctx context.Context, q *OneReplay) (Replay, error) {
	if err := a.CRM.StopReplay(ctx, q.ID); err != nil {
		return Replay{}, answer.Answerable(err)
	}
	// Logged when somebody stopped a replay of the sync log.
	a.Log.InfoContext(ctx, "replay stopped by hand", "replay", q.ID)
	return a.crmReplayOf(ctx, q)
}
