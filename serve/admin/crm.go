package admin

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	times "github.com/tidemill/tidemill/internal/when"
	door "github.com/tidemill/tidemill/serve/crm"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

// CRM is what the API needs of the CRM system; a *crm.System is one.
type CRM interface {
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
	// Acceptor takes events in.
	Acceptor() *accept.Acceptor
}

// crmRoutes are what the API does of CRM.
func (a *API) crmRoutes() []Route {
	return []Route{
		{"GET", "crm/status", a.crmStatus, query()},
		{"GET", "crm/events", a.crmEvent, query("tenant", "id")},
		{"POST", "crm/events", a.crmSend, query()},
		{"POST", "crm/retry", a.crmRetry, query("tenant", "id")},
		{"GET", "crm/log", a.crmLog, query("tenant", "type", "state", "since", "until", "max", "payload")},
		{"GET", "crm/profiles", a.crmProfile, query("tenant", "externalId", "email", "phone")},
		{"GET", "crm/replays", a.crmReplays, query()},
		{"POST", "crm/replays", a.crmReplay, query()},
		{"GET", "crm/replays/{id}", a.crmReplayOf, query()},
		{"POST", "crm/replays/{id}/stop", a.crmStopReplay, form()},
	}
}

// crmState is how the system stands, in the words of the API.
type crmState struct {
	Queue      string        `json:"queue"`
	Paused     bool          `json:"paused"`
	Closed     bool          `json:"closed"` // being drained
	Waiting    int64         `json:"waiting"`
	Delayed    int64         `json:"delayed"`
	Leased     int64         `json:"leased"`
	Completed  uint64        `json:"completed"` // a handler took them
	Skipped    uint64        `json:"skipped"`   // by what status and log say: completed before, no handler, not valid, removed
	Failed     uint64        `json:"failed"`    // they died
	Kept       crmKept       `json:"kept"`
	Oldest     *time.Time    `json:"oldest_added_at,omitempty"`
	Age        float64       `json:"oldest_age_seconds"` // of the oldest that has not ended; 0: none
	Priorities []crmPriority `json:"priorities"`
	Dead       int           `json:"dead"`            // letters
	Expired    uint64        `json:"expired"`         // letters deleted for their age, by this instance
	Matched    *float64      `json:"matched_percent"` // of this instance's events of the last five minutes; null: there were none
	Replays    int           `json:"open_replays"`
}

// crmKept are jobs that are shown after their end.
type crmKept struct {
	Completed int64 `json:"completed"` // or skipped
	Failed    int64 `json:"failed"`
}

// crmPriority is what waits of one priority.
type crmPriority struct {
	Priority uint8     `json:"priority"`
	Name     string    `json:"name"`
	Waiting  int64     `json:"waiting"`
	Oldest   time.Time `json:"oldest_added_at,omitzero"`
}

var priorityNames = map[uint8]string{priority.Replay: "replay", priority.Low: "low", priority.Normal: "normal", priority.High: "high"}

func (a *API) crmStatus(w http.ResponseWriter, r *http.Request) error {
	st, err := a.CRM.Look(r.Context())
	if err != nil {
		return err
	}
	replays, err := a.CRM.Replays(r.Context())
	if err != nil {
		return err
	}
	out := crmState{Queue: crm.Queue, Paused: st.Paused, Closed: st.Closed, Waiting: st.Jobs.Waiting, Delayed: st.Jobs.Delayed, Leased: st.Jobs.Leased,
		Completed: st.Ended.Delivered, Skipped: st.Ended.Skipped, Failed: st.Ended.Dead, Kept: crmKept{st.Jobs.Completed, st.Jobs.Failed}, Oldest: when(st.Jobs.Oldest), Priorities: []crmPriority{}, Dead: st.Dead, Expired: st.Expired}
	if !st.Jobs.Oldest.IsZero() {
		out.Age = max(0, time.Since(st.Jobs.Oldest).Seconds())
	}
	for _, d := range st.Depths {
		out.Priorities = append(out.Priorities, crmPriority{d.Priority, priorityNames[d.Priority], d.Waiting, d.Oldest.UTC()})
	}
	if st.Met {
		out.Matched = &st.Matched
	}
	for _, p := range replays {
		if p.State == crm.ReplayRunning || p.State == crm.ReplayStopping {
			out.Replays++
		}
	}
	write(w, http.StatusOK, out)
	return nil
}

// crmSend takes events of any tenant from somebody who may: no key of a tenant is needed.
// Answers are those of the door, but for the status: 202 where at least one event was
// taken, 200 where all were judged and none was.
func (a *API) crmSend(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, crmBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refused(http.StatusRequestEntityTooLarge, "a request has at most %d MiB; send the events in several", crmBody>>20)
	}
	if err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	raws, array, err := event.Split(body, crmEvents)
	if err != nil {
		return answerable(err)
	}
	results, err := a.CRM.Acceptor().Accept(r.Context(), raws, nil)
	if errors.Is(err, accept.ErrFull) || errors.Is(err, accept.ErrClosed) || err != nil && passing(err) {
		w.Header().Set("Retry-After", "5")
		return refused(http.StatusServiceUnavailable, "%v", err)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	for i := range results {
		if results[i].Status != accept.Rejected {
			status = http.StatusAccepted
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(door.AppendAnswer(nil, results, array), '\n')) // the client is gone, or will see that it is cut
	return nil
}

const (
	crmBody   = 4 << 20 // bytes of one request
	crmEvents = 1000    // of one request
)

// passing says whether an error may be gone the next time.
func passing(err error) bool {
	switch tidemill.KindOf(err) {
	case tidemill.Transient, tidemill.Timeout, tidemill.RateLimit:
		return true
	}
	return false
}

// crmName reads which event is meant: ?tenant= and ?id=.
func crmName(r *http.Request) (tenant, id string, err error) {
	q := r.URL.Query()
	if tenant, id = q.Get("tenant"), q.Get("id"); tenant == "" || id == "" {
		return "", "", refused(http.StatusBadRequest, "say which event: tenant=… and id=…")
	}
	if !event.ValidTenant(tenant) {
		return "", "", refused(http.StatusBadRequest, "tenant=%.120q: no tenant is called so", tenant)
	}
	return tenant, id, nil
}

// crmRetry opens the job of one dead event again.
func (a *API) crmRetry(w http.ResponseWriter, r *http.Request) error {
	tenant, id, err := crmName(r)
	if err != nil {
		return err
	}
	if err := a.CRM.Retry(r.Context(), tenant, id); err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "dead event opened again by hand", "tenantId", tenant, "eventId", id)
	write(w, http.StatusOK, map[string]int{"count": 1})
	return nil
}

// crmRecord is what the sync log has of an event, in the words of the API.
type crmRecord struct {
	Tenant        string     `json:"tenant"`
	ID            string     `json:"id"`
	Type          string     `json:"type"`
	State         string     `json:"state"` // PROCESSING, COMPLETED, FAILED
	Kind          string     `json:"kind,omitempty"`
	Error         string     `json:"error,omitempty"`
	Attempts      int        `json:"attempts"`
	Created       time.Time  `json:"created_at"` // when it was first taken up
	Started       *time.Time `json:"started_at,omitempty"`
	Completed     *time.Time `json:"completed_at,omitempty"`
	Failed        *time.Time `json:"failed_at,omitempty"`
	Payload       string     `json:"payload,omitempty"`
	PayloadBase64 string     `json:"payload_base64,omitempty"`
}

func showRecord(rec *crm.Record, whole bool) crmRecord {
	out := crmRecord{Tenant: rec.Tenant, ID: rec.ID, Type: rec.Type, State: rec.State, Kind: rec.Kind, Error: rec.Error, Attempts: rec.Attempts,
		Created: rec.Created.UTC(), Started: when(rec.Started), Completed: when(rec.Completed), Failed: when(rec.Failed)}
	if whole {
		out.Payload, out.PayloadBase64 = text(rec.Payload)
	}
	return out
}

// crmLog lists the sync log by time of first receipt; ?payload=true
// with the events themselves.
func (a *API) crmLog(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := crm.RecordFilter{Tenant: q.Get("tenant"), Type: q.Get("type"), State: strings.ToUpper(q.Get("state"))}
	var err error
	if f.From, f.To, err = a.inclusive(q.Get("since"), q.Get("until")); err != nil {
		return err
	}
	if f.Max, err = number(q.Get("max"), "max"); err != nil {
		return err
	}
	out := stream(w, r)
	for rec, err := range a.CRM.Records(r.Context(), f) {
		if err == nil {
			err = out.add(showRecord(rec, q.Get("payload") == "true"))
		}
		if err != nil {
			return out.end(answerable(err))
		}
	}
	return nil
}

// inclusive is a span of the sync log, both ends included. A day as an end is its last instant:
// the log has nothing finer than microseconds.
func (a *API) inclusive(since, until string) (begin, end time.Time, err error) {
	if begin, end, err = a.span(since, until); err == nil && times.Day(until) {
		end = end.Add(-time.Microsecond)
	}
	return begin, end, err
}
