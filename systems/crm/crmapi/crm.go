// Package crmapi is what the API does of CRM.
package crmapi

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/jsonarray"
	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/crmingest"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// CRMSystem is what the API needs of CRM; a *crm.System is one.
type CRMSystem interface {
	// Look says how the system stands.
	Look(ctx context.Context) (*crm.State, error)
	// Event says where an event is; kind not_found where nothing is known of it.
	Event(ctx context.Context, tenant, id string) (*crm.EventStatus, error)
	// Records yields what the sync log has, by time of first receipt.
	Records(ctx context.Context, f crm.RecordFilter) iter.Seq2[*crm.Record, error]
	// Profile is the profile that has an identity; kind not_found where nobody has it.
	Profile(ctx context.Context, tenant string, by profile.Identity) (*profile.Profile, error)
	// Retry opens the job of one dead event again; kind not_found where it has no letter.
	Retry(ctx context.Context, tenant, id string) error
	// Replay asks for events to be handled once more.
	Replay(ctx context.Context, r crm.ReplayRequest) (*crm.Replay, error)
	Replays(ctx context.Context) ([]*crm.Replay, error)
	ReplayOf(ctx context.Context, id string) (*crm.Replay, error)
	StopReplay(ctx context.Context, id string) error
	// Handlers are those that events are given to, and HandlerOf names that of a type; empty: none.
	Handlers() []handler.Spec
	HandlerOf(typ string) string
	// Acceptor takes events in.
	Acceptor() *accept.Acceptor
}

// API does what the API does of CRM.
type API struct {
	*answer.Common
	CRM CRMSystem
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		GetCRM.By(a.crmStatus),
		GetCRMEvent.By(a.crmEvent), GetCRMPayload.By(a.crmPayload),
		SendCRM.By(a.crmSend),
		RetryCRM.By(a.crmRetry),
		ListSyncLog.By(a.crmLog),
		GetProfile.By(a.crmProfile),
		GetHandlers.By(a.crmHandlers),
		ListReplays.By(a.crmReplays),
		StartReplay.By(a.crmReplay),
		GetReplay.By(a.crmReplayOf),
		StopReplay.By(a.crmStopReplay),
	}
}

var priorityNames = map[uint8]string{priority.Replay: "replay", priority.Low: "low", priority.Normal: "normal", priority.High: "high"}

func (a *API) crmStatus(ctx context.Context, _ *operation.None) (out CRM, err error) {
	st, err := a.CRM.Look(ctx)
	if err != nil {
		return out, err
	}
	replays, err := a.CRM.Replays(ctx)
	if err != nil {
		return out, err
	}
	out = CRM{Queue: crm.Queue, Paused: st.Paused, Closed: st.Closed, Waiting: st.Jobs.Waiting, Delayed: st.Jobs.Delayed, Leased: st.Jobs.Leased,
		Completed: st.Ended.Delivered, Skipped: st.Ended.Skipped, Failed: st.Ended.Dead, Kept: Kept{Completed: st.Jobs.Completed, Failed: st.Jobs.Failed},
		Oldest: answer.When(st.Jobs.Oldest), Age: answer.Age(st.Jobs.Oldest, time.Now()), Priorities: []api.PriorityDepth{}, Dead: st.Dead, Expired: st.Expired}
	for _, d := range st.Depths {
		out.Priorities = append(out.Priorities, api.PriorityDepth{Priority: d.Priority, Name: priorityNames[d.Priority], Waiting: d.Waiting, Oldest: d.Oldest.UTC()})
	}
	if st.Met {
		out.Matched = &st.Matched
	}
	for _, p := range replays {
		if p.State == crm.ReplayRunning || p.State == crm.ReplayStopping {
			out.Replays++
		}
	}
	return out, nil
}

// crmSend takes events of any tenant from somebody who may: no key of a tenant is needed.
func (a *API) crmSend(ctx context.Context, q *api.EventsBody) (out api.EventResults, err error) {
	raws, _, err := jsonarray.Split(q.Body, api.EventsSent)
	if err != nil {
		return out, answer.Answerable(err)
	}
	results, err := a.CRM.Acceptor().Accept(ctx, raws, nil)
	if errors.Is(err, accept.ErrFull) || errors.Is(err, accept.ErrClosed) || err != nil && answer.Passing(err) {
		return out, answer.Busy(err)
	}
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(crmingest.AppendResults(nil, results), &out.Results) // the words are those of the ingest API
}

// crmNamed refuses what names no event.
func (a *API) crmNamed(q *OneCRMEvent) error {
	switch {
	case q.Tenant == "" || q.Event == "":
		return operation.Refuse(http.StatusBadRequest, "say which event: tenant=… and id=…")
	case !event.ValidTenant(q.Tenant):
		return operation.Refuse(http.StatusBadRequest, "tenant=%.120q: no tenant is called so", q.Tenant)
	}
	return nil
}

// crmRetry opens the job of one dead event again.
func (a *API) crmRetry(ctx context.Context, q *OneCRMEvent) (out api.Counted, err error) {
	if err := a.crmNamed(q); err != nil {
		return out, err
	}
	if err := a.CRM.Retry(ctx, q.Tenant, q.Event); err != nil {
		return out, answer.Answerable(err)
	}
	// Logged when somebody had one dead event of the CRM tried again.
	a.Log.InfoContext(ctx, "dead event opened again by hand", "tenant", q.Tenant, "event", q.Event)
	return api.Counted{Count: 1}, nil
}

func showRecord(rec *crm.Record, whole bool) SyncRecord {
	out := SyncRecord{Tenant: rec.Tenant, ID: rec.ID, Type: rec.Type, State: rec.State, Kind: rec.Kind, Error: rec.Error, Attempts: rec.Attempts,
		Created: rec.Created.UTC(), Started: answer.When(rec.Started), Completed: answer.When(rec.Completed), Failed: answer.When(rec.Failed), Position: recordKey(rec)}
	if whole {
		out.Payload, out.PayloadBase64 = answer.Text(rec.Payload)
	}
	return out
}

// crmLog lists the sync log by time of first receipt.
func (a *API) crmLog(ctx context.Context, q *SyncLogFilter) (iter.Seq2[SyncRecord, error], error) {
	f := crm.RecordFilter{Tenant: q.Tenant, Type: q.Type, State: strings.ToUpper(q.State), Back: q.Back(), After: recordAt(q.After())}
	var err error
	if f.Max, err = q.Most(q.Max); err != nil {
		return nil, err
	}
	f.From, f.To, err = a.inclusive(q.Span)
	return answer.ShownAs(a.CRM.Records(ctx, f), func(r *crm.Record) SyncRecord { return showRecord(r, q.Payload) }), err
}

// recordKey is where a record is in the log: its time, then its name. A tenant has no slash.
func recordKey(r *crm.Record) string {
	return strings.Join([]string{r.Created.Format(time.RFC3339Nano), r.Tenant, r.ID}, "/")
}

// recordAt is the record with a key; nil: without one.
func recordAt(key string) *crm.Record {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) < 3 {
		return nil
	}
	at, _ := time.Parse(time.RFC3339Nano, parts[0]) // it was written so
	return &crm.Record{Created: at, Tenant: parts[1], ID: parts[2]}
}

// inclusive is a span of the sync log, both ends included. A day as an end is its last instant:
// the log has nothing finer than microseconds.
func (a *API) inclusive(s api.Span) (begin, end time.Time, err error) {
	if begin, end, err = answer.Span(s); err == nil && times.Day(s.Until) {
		end = end.Add(-time.Microsecond)
	}
	return begin, end, err
}
