package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
)

// queueStatus is a queue as the API shows it.
type queueStatus struct {
	Name       string          `json:"name"`
	Waiting    int64           `json:"waiting"`
	Delayed    int64           `json:"delayed"`
	Leased     int64           `json:"leased"`
	Completed  int64           `json:"completed"` // kept after their end
	Failed     int64           `json:"failed"`    // kept after their end
	Oldest     *time.Time      `json:"oldest_added_at,omitempty"`
	Age        float64         `json:"oldest_age_seconds"` // of the oldest that has not ended; 0: none
	Paused     bool            `json:"paused"`
	Closed     bool            `json:"closed"` // being drained
	Priorities []priorityDepth `json:"priorities"`
	Settings   *queue.Settings `json:"settings,omitempty"` // of one queue
	Tenants    []tenantDepth   `json:"tenants,omitempty"`  // of one queue: the deepest
}

// priorityDepth is what waits of one priority.
type priorityDepth struct {
	Priority uint8     `json:"priority"`
	Waiting  int64     `json:"waiting"`
	Oldest   time.Time `json:"oldest_added_at,omitzero"`
}

// tenantDepth is what waits of one tenant.
type tenantDepth struct {
	Tenant  string    `json:"tenant"`
	Waiting int64     `json:"waiting"`
	Oldest  time.Time `json:"oldest_added_at,omitzero"`
}

// statusOfQueue reads what there is to know without looking at jobs, and the settings.
func (a *API) statusOfQueue(ctx context.Context, name string) (*queueStatus, error) {
	st, err := a.Queues.Stats(ctx, name)
	if err != nil {
		return nil, err
	}
	settings, err := a.Queues.Settings(ctx, name)
	if err != nil {
		return nil, err
	}
	depths, err := a.Queues.Depths(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &queueStatus{Name: name, Waiting: st.Waiting, Delayed: st.Delayed, Leased: st.Leased, Completed: st.Completed, Failed: st.Failed,
		Oldest: when(st.Oldest), Paused: settings.Paused, Closed: settings.Closed, Priorities: []priorityDepth{}, Settings: &settings}
	if !st.Oldest.IsZero() {
		out.Age = max(0, time.Since(st.Oldest).Seconds())
	}
	for _, d := range depths {
		out.Priorities = append(out.Priorities, priorityDepth{d.Priority, d.Waiting, d.Oldest.UTC()})
	}
	return out, nil
}

func (a *API) queues(w http.ResponseWriter, r *http.Request) error {
	names, err := a.Queues.Queues(r.Context())
	if err != nil {
		return err
	}
	out := stream(w, r)
	for _, name := range names {
		q, err := a.statusOfQueue(r.Context(), name)
		if err != nil {
			return out.end(err)
		}
		q.Settings = nil
		if err := out.add(q); err != nil {
			return out.end(err)
		}
	}
	return nil
}

// tenantsShown is how many of a queue's tenants are shown: the deepest.
const tenantsShown = 20

func (a *API) queue(w http.ResponseWriter, r *http.Request) error {
	name, err := a.queueOf(r)
	if err != nil {
		return err
	}
	q, err := a.statusOfQueue(r.Context(), name)
	if err != nil {
		return err
	}
	tenants, err := a.Queues.Tenants(r.Context(), name, tenantsShown)
	if err != nil {
		return err
	}
	for _, d := range tenants {
		q.Tenants = append(q.Tenants, tenantDepth{d.Tenant, d.Waiting, d.Oldest.UTC()})
	}
	write(w, http.StatusOK, q)
	return nil
}

// queueOf reads which queue is meant. One that there is not is somebody's typing error.
func (a *API) queueOf(r *http.Request) (string, error) {
	name := r.PathValue("name")
	names, err := a.Queues.Queues(r.Context())
	if err != nil {
		return "", err
	}
	if !slices.Contains(names, name) {
		return "", refused(http.StatusNotFound, "there is no queue %q; there are %s", name, orNone(names))
	}
	return name, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (a *API) pauseQueue(w http.ResponseWriter, r *http.Request) error {
	return a.steerQueue(w, r, "pause", func(s *queue.Settings) { s.Paused, s.PausedUntil = true, time.Time{} })
}

// resumeQueue ends a pause and a draining.
func (a *API) resumeQueue(w http.ResponseWriter, r *http.Request) error {
	return a.steerQueue(w, r, "resume", func(s *queue.Settings) { s.Paused, s.Closed = false, false })
}

// drainQueue lets a queue take no more jobs; what is there is worked on.
func (a *API) drainQueue(w http.ResponseWriter, r *http.Request) error {
	if err := a.mayClose(r.PathValue("name")); err != nil {
		return err
	}
	return a.steerQueue(w, r, "drain", func(s *queue.Settings) { s.Closed = true })
}

// mayClose refuses to drain the queue of a partner that is configured: an event is routed to
// all of its partners in one stroke, which would wait for that queue, and with it the events
// of every other partner.
func (a *API) mayClose(name string) error {
	for _, p := range a.partnerNames() {
		if name == delivery.QueueOf(p) {
			return refused(http.StatusConflict, "while %s takes no jobs no event is routed, to other partners neither: pause it, or give partner %s `when: \"false\"` and restart: it gets nothing new then, and what waits is delivered", name, p)
		}
	}
	return nil
}

// partnerNames are those of the partners that are configured; none where that is not known.
func (a *API) partnerNames() (names []string) {
	if a.Config == nil {
		return nil
	}
	for i := range a.Config.Delivery.Partners {
		names = append(names, a.Config.Delivery.Partners[i].Name)
	}
	return names
}

func (a *API) steerQueue(w http.ResponseWriter, r *http.Request, what string, change func(*queue.Settings)) error {
	name, err := a.queueOf(r)
	if err != nil {
		return err
	}
	if _, err := a.Queues.Set(r.Context(), name, change); err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "queue steered by hand", "queue", name, "what", what)
	q, err := a.statusOfQueue(r.Context(), name)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, q)
	return nil
}

// setQueue merges the body, a JSON object, into a queue's settings as RFC 7396 has it: what
// it does not name stays, null takes away.
func (a *API) setQueue(w http.ResponseWriter, r *http.Request) error {
	name, err := a.queueOf(r)
	if err != nil {
		return err
	}
	body, err := payloadOf(w, r)
	if err != nil {
		return err
	}
	was, err := a.Queues.Settings(r.Context(), name)
	if err != nil {
		return err
	}
	to, err := merge(was, body)
	if err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	if to.Closed && !was.Closed {
		if err := a.mayClose(name); err != nil {
			return err
		}
	}
	var wrong error
	is, err := a.Queues.Set(r.Context(), name, func(s *queue.Settings) {
		var to queue.Settings
		if to, wrong = merge(*s, body); wrong == nil {
			*s = to
		}
	})
	if err != nil {
		return answerable(err)
	}
	if wrong != nil { // somebody else's change meanwhile made it so
		return refused(http.StatusConflict, "%v", wrong)
	}
	a.Log.InfoContext(r.Context(), "queue set by hand", "queue", name, "change", string(body[:min(len(body), 500)]))
	write(w, http.StatusOK, is)
	return nil
}

// merge applies a merge patch to settings and refuses what is none.
func merge(s queue.Settings, patch []byte) (to queue.Settings, err error) {
	var change any
	if err := json.Unmarshal(patch, &change); err != nil {
		return to, errors.New("the body is no JSON: send the settings to change, like {\"limit\":{\"per_second\":50}}")
	}
	if _, ok := change.(map[string]any); !ok {
		return to, errors.New("the body is no JSON object: send the settings to change, like {\"limit\":{\"per_second\":50}}")
	}
	b, err := json.Marshal(s)
	if err != nil {
		return to, err
	}
	var whole any
	if err := json.Unmarshal(b, &whole); err != nil {
		return to, err
	}
	if b, err = json.Marshal(merged(whole, change)); err != nil {
		return to, err
	}
	in := json.NewDecoder(strings.NewReader(string(b)))
	in.DisallowUnknownFields()
	if err := in.Decode(&to); err != nil {
		return to, errors.New("these are no settings of a queue: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	return to, to.Check()
}

// merged is RFC 7396, section 2.
func merged(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	of, ok := target.(map[string]any)
	if !ok {
		of = map[string]any{}
	}
	for name, v := range changes {
		if v == nil {
			delete(of, name)
		} else {
			of[name] = merged(of[name], v)
		}
	}
	return of
}

// payloadOf reads the body of a request that is a payload, or settings.
func payloadOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, editBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, refused(http.StatusRequestEntityTooLarge, "the body is larger than %d MiB", editBody>>20)
	}
	if err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	if len(body) == 0 {
		return nil, refused(http.StatusBadRequest, "the request has no body, and its body is what it is to be from now on")
	}
	return body, nil
}

// answerable gives what stores refuse the status that says whose fault it is.
func answerable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrOut), errors.Is(err, queue.ErrClosed), errors.Is(err, deadletter.ErrReplaying), errors.Is(err, deadletter.ErrDamaged):
		return refused(http.StatusConflict, "%v", err)
	}
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		switch e.Kind {
		case tidemill.Validation:
			return refused(http.StatusBadRequest, "%v", err)
		case tidemill.NotFound:
			return refused(http.StatusNotFound, "%v", err)
		case tidemill.RateLimit:
			return refused(http.StatusConflict, "%v", err)
		}
	}
	return err
}
