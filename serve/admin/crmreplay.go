package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/crm"
)

// crmReplayed is a replay with how far it has come, in the words of the API.
type crmReplayed struct {
	ID      string     `json:"id"`
	State   string     `json:"state"` // running, stopping, stopped, done
	Since   *time.Time `json:"since,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
	Tenant  string     `json:"tenant,omitempty"`
	Type    string     `json:"type,omitempty"`
	Asked   time.Time  `json:"asked_at"`
	Ended   *time.Time `json:"ended_at,omitempty"`
	Queued  int        `json:"queued"`                 // jobs put into the queue
	Reached *time.Time `json:"reached_at,omitempty"`   // when the last event of these was first taken up
	Share   float64    `json:"share"`                  // how far it has come in its time, 0 to 1
	Known   bool       `json:"known_before,omitempty"` // it was asked for before, and this is it
}

func showReplay(p *crm.Replay) crmReplayed {
	return crmReplayed{ID: p.ID, State: p.State, Since: when(p.From), Until: when(p.To), Tenant: p.Tenant, Type: p.Type,
		Asked: p.Asked.UTC(), Ended: when(p.Ended), Queued: p.Queued, Reached: when(p.Reached), Share: p.Share}
}

// crmReplayRequest is the body of a request for a replay.
type crmReplayRequest struct {
	ID     string `json:"id"`
	Since  string `json:"since"`
	Until  string `json:"until"`
	Tenant string `json:"tenant"`
	Type   string `json:"type"`
	All    bool   `json:"all"`     // the whole sync log is meant
	DryRun bool   `json:"dry_run"` // only say how many events it would be
}

// replayable refuses a replay of no event at all, which is somebody's typing error.
func (a *API) replayable(ctx context.Context, f crm.RecordFilter) error {
	for _, err := range a.CRM.Records(ctx, f) {
		return err
	}
	return refused(http.StatusUnprocessableEntity, "the sync log has no such event, and nothing is replayed: `tidemill synclog list` shows what it has")
}

// crmReplay asks for a replay, which goes on by itself: 201, or 200 where it was asked for
// before under the same id.
func (a *API) crmReplay(w http.ResponseWriter, r *http.Request) error {
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	in.DisallowUnknownFields()
	var q crmReplayRequest
	if err := in.Decode(&q); errors.Is(err, io.EOF) {
		return refused(http.StatusBadRequest, `say what to replay: {"since":"2026-01-31","until":"2026-02-01","tenant":"…","type":"…"}`)
	} else if err != nil {
		return refused(http.StatusBadRequest, "the body is no request for a replay: %v", err)
	}
	if q.Since == "" && q.Until == "" && q.Tenant == "" && q.Type == "" && !q.All {
		return refused(http.StatusBadRequest, "say what to replay: since, until, tenant, type, or all")
	}
	from, to, err := a.inclusive(q.Since, q.Until)
	if err != nil {
		return err
	}
	if q.DryRun {
		return a.countReplay(w, r, crm.RecordFilter{From: from, To: to, Tenant: q.Tenant, Type: q.Type})
	}
	known := false
	if q.ID != "" {
		switch _, err := a.CRM.ReplayOf(r.Context(), q.ID); {
		case err == nil:
			known = true
		case tidemill.KindOf(err) != tidemill.NotFound:
			return err
		}
	}
	ask := crm.ReplayRequest{ID: q.ID, From: from, To: to, Tenant: q.Tenant, Type: q.Type}
	if !known && ask.Check(time.Now()) == nil {
		if err := a.replayable(r.Context(), crm.RecordFilter{From: from, To: to, Tenant: q.Tenant, Type: q.Type, Max: 1}); err != nil {
			return err
		}
	}
	p, err := a.CRM.Replay(r.Context(), ask)
	if errors.Is(err, crm.ErrReplayTaken) {
		return refused(http.StatusConflict, "%v", err)
	}
	if err != nil {
		return answerable(err)
	}
	status, shown := http.StatusCreated, showReplay(p)
	if shown.Known = known; known {
		status = http.StatusOK
	} else {
		a.Log.InfoContext(r.Context(), "replay asked for by hand", "replay", p.ID, "since", p.From, "until", p.To, "tenantId", p.Tenant, "eventType", p.Type)
	}
	write(w, status, shown)
	return nil
}

// countReplay says how many events there are to replay now.
func (a *API) countReplay(w http.ResponseWriter, r *http.Request, f crm.RecordFilter) error {
	n := 0
	for _, err := range a.CRM.Records(r.Context(), f) {
		if err != nil {
			return answerable(err)
		}
		n++
	}
	write(w, http.StatusOK, map[string]int{"count": n})
	return nil
}

func (a *API) crmReplays(w http.ResponseWriter, r *http.Request) error {
	all, err := a.CRM.Replays(r.Context())
	if err != nil {
		return err
	}
	out := stream(w, r)
	for _, p := range all {
		if err := out.add(showReplay(p)); err != nil {
			return out.end(err)
		}
	}
	return nil
}

func (a *API) crmReplayOf(w http.ResponseWriter, r *http.Request) error {
	p, err := a.CRM.ReplayOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return answerable(err)
	}
	write(w, http.StatusOK, showReplay(p))
	return nil
}

// crmStopReplay stops a replay, and answers how it stands then. One that has ended stays as
// it is.
func (a *API) crmStopReplay(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := a.CRM.StopReplay(r.Context(), id); err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "replay stopped by hand", "replay", id)
	return a.crmReplayOf(w, r)
}
