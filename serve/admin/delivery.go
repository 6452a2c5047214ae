package admin

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/state/queue"
	crmevent "github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/delivery"
)

// Delivery is what the API needs of the delivery system.
type Delivery interface {
	// Event says where an event is; kind not_found where nothing is known of it.
	Event(ctx context.Context, site, id string) (*delivery.EventStatus, error)
	Partners(ctx context.Context) ([]delivery.PartnerHealth, error)
	// OpenCircuit leaves a partner alone for a time; 0: the system's usual one.
	OpenCircuit(ctx context.Context, partner string, d time.Duration) error
	CloseCircuit(ctx context.Context, partner string) error
}

// health is how a partner stands, in the words that programs outside know. What is not
// known, because there were no requests, is null.
type health struct {
	Partner     string     `json:"partner"`
	Circuit     string     `json:"circuitState"` // closed, open, half-open
	Success     *float64   `json:"successRate"`  // of the last five minutes, 0 to 1
	P50         *float64   `json:"latencyP50"`   // ms
	P99         *float64   `json:"latencyP99"`   // ms
	Depth       int64      `json:"queueDepth"`   // waiting, put off, being sent
	LastError   *string    `json:"lastError"`
	LastSuccess *time.Time `json:"lastSuccessAt"`

	Until       *time.Time `json:"openUntil,omitempty"` // when it is tried again: its circuit is open, or it asked for less
	Why         string     `json:"openReason,omitempty"`
	Paused      bool       `json:"paused,omitempty"` // by hand
	Limit       int64      `json:"queueLimit,omitempty"`
	Full        bool       `json:"queueFull,omitempty"`
	Parked      int64      `json:"parkedJobs,omitempty"`    // found no room in the queue, and wait beside it
	Dropped     uint64     `json:"droppedJobs,omitempty"`   // by this instance, to make room
	Expired     uint64     `json:"expiredJobs,omitempty"`   // by this instance, too old
	Off         *time.Time `json:"switchedOffAt,omitempty"` // it failed for too long
	Failing     *time.Time `json:"failingSince,omitempty"`
	Dead        int        `json:"deadLetters,omitempty"`
	LastErrorAt *time.Time `json:"lastErrorAt,omitempty"`
}

func healthOf(p *delivery.PartnerHealth) health {
	out := health{Partner: p.Partner, Circuit: p.Circuit.String(), Depth: p.Depth(), LastSuccess: when(p.LastSuccessAt),
		Until: when(p.Until), Why: p.Why, Paused: p.Paused, Dead: p.Dead, LastErrorAt: when(p.LastErrorAt),
		Limit: p.Limit, Full: p.Limit > 0 && p.Full(), Parked: p.ParkedJobs(), Dropped: p.Dropped, Expired: p.Expired, Off: when(p.Off), Failing: when(p.FailingSince)}
	if p.SuccessRate >= 0 {
		p50, p99 := millis(p.P50), millis(p.P99)
		out.Success, out.P50, out.P99 = &p.SuccessRate, &p50, &p99
	}
	if p.LastError != "" {
		out.LastError = &p.LastError
	}
	return out
}

// millis is a time in ms, to a microsecond.
func millis(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e3 }

func (a *API) partners(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Delivery.Partners(r.Context())
	if err != nil {
		return err
	}
	out := stream(w, r)
	for i := range all {
		if err := out.add(healthOf(&all[i])); err != nil {
			return out.end(err)
		}
	}
	return nil
}

// openCircuit leaves a partner alone, for ?for= or the usual time.
func (a *API) openCircuit(w http.ResponseWriter, r *http.Request) error {
	var d time.Duration
	if s := r.FormValue("for"); s != "" {
		var err error
		if d, err = times.Duration(s); err != nil || d <= 0 {
			return refused(http.StatusBadRequest, "for=%q is no time to wait: write 10m or 2h", s)
		}
	}
	return a.circuit(w, r, "open", func(ctx context.Context, partner string) error { return a.Delivery.OpenCircuit(ctx, partner, d) })
}

func (a *API) closeCircuit(w http.ResponseWriter, r *http.Request) error {
	return a.circuit(w, r, "close", a.Delivery.CloseCircuit)
}

// circuit opens or closes one, and answers how the partner stands then.
func (a *API) circuit(w http.ResponseWriter, r *http.Request, what string, do func(context.Context, string) error) error {
	name := r.PathValue("name")
	if err := do(r.Context(), name); errors.Is(err, delivery.ErrNoPartner) {
		return refused(http.StatusNotFound, "%v", err)
	} else if err != nil {
		return answerable(err)
	}
	a.Log.InfoContext(r.Context(), "circuit moved by hand", "partner", name, "what", what)
	all, err := a.Delivery.Partners(r.Context())
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Partner == name {
			write(w, http.StatusOK, healthOf(&all[i]))
			return nil
		}
	}
	return refused(http.StatusNotFound, "there is no partner %q any more", name)
}

// eventStatus is where an event is, in the words of the API.
type eventStatus struct {
	ID       string          `json:"id"`
	Site     string          `json:"site"`
	Type     string          `json:"type,omitempty"`
	Received *time.Time      `json:"received_at,omitempty"`
	State    string          `json:"state"`
	Why      string          `json:"why,omitempty"`
	Queue    string          `json:"queue,omitempty"`
	Partners []partnerStatus `json:"partners"`
}

type partnerStatus struct {
	Partner  string     `json:"partner"`
	State    string     `json:"state"`
	Why      string     `json:"why,omitempty"`
	Tries    int        `json:"tries"`
	Next     *time.Time `json:"next_at,omitempty"`
	Ended    *time.Time `json:"ended_at,omitempty"`
	Attempts []attempt  `json:"attempts,omitempty"` // failed ones
}

// sitesTried is at how many sites an event is looked for whose site is not named.
const sitesTried = 100

// event says where an event is: of the named site, or of the one that has it.
func (a *API) event(w http.ResponseWriter, r *http.Request) error {
	id, sites := r.PathValue("id"), []string{r.PathValue("site")}
	if sites[0] == "" {
		if sites = a.sites(); len(sites) == 0 || len(sites) > sitesTried {
			return refused(http.StatusBadRequest, "say of which site the event is: there are %d", len(sites))
		}
	}
	var found []*delivery.EventStatus
	var of []string
	for _, site := range sites {
		e, err := a.Delivery.Event(r.Context(), site, id)
		if small := strings.ToLower(id); small != id && errors.Is(err, queue.ErrNotFound) {
			e, err = a.Delivery.Event(r.Context(), site, small) // as the door writes it
		}
		if errors.Is(err, queue.ErrNotFound) {
			continue
		} else if err != nil {
			return answerable(err)
		}
		found, of = append(found, e), append(of, site)
	}
	switch len(found) {
	case 0:
		return refused(http.StatusNotFound, "nothing is known of event %s of site %s: it never came, or all of it ended too long ago", id, strings.Join(sites, ", "))
	case 1:
		write(w, http.StatusOK, showEvent(found[0]))
		return nil
	}
	return refused(http.StatusConflict, "several sites have an event %s: say which, of %s", id, strings.Join(of, ", "))
}

// sites are those that are configured; where none is, projects are sites, of which one is
// made at the first start.
func (a *API) sites() (ids []string) {
	if a.Config == nil {
		return nil
	}
	for _, s := range a.Config.Delivery.Sites {
		ids = append(ids, s.ID)
	}
	if len(ids) > 0 {
		return ids
	}
	for _, p := range a.Config.Projects {
		ids = append(ids, p.Name)
	}
	if !slices.Contains(ids, "default") {
		ids = append(ids, "default")
	}
	return ids
}

func showEvent(e *delivery.EventStatus) eventStatus {
	out := eventStatus{ID: e.ID, Site: e.Site, Type: e.Type, Received: when(e.Received), State: e.State, Why: e.Why, Queue: e.Queue, Partners: []partnerStatus{}}
	for _, p := range e.Partners {
		out.Partners = append(out.Partners, partnerStatus{Partner: p.Partner, State: p.State, Why: p.Why, Tries: p.Tries,
			Next: when(p.Next), Ended: when(p.Ended), Attempts: attempts(p.Attempts)})
	}
	return out
}

// deliveryResult is what became of an event, in the words of the answer to crm/events.
type deliveryResult struct {
	ID     string         `json:"id,omitempty"`
	Status string         `json:"status"` // accepted, duplicate, rejected
	Error  *deliveryError `json:"error,omitempty"`
}

type deliveryError struct {
	Code string `json:"code"` // why, in words
}

// sendDelivery takes events of any site from somebody who may: no key of a site is needed. The
// body is an array, or one object. It answers 202 when they are durable, and 200 where all were
// judged and none was taken.
func (a *API) sendDelivery(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, crmBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refused(http.StatusRequestEntityTooLarge, "a request has at most %d MiB; send the events in several", crmBody>>20)
	}
	if err != nil {
		return refused(http.StatusBadRequest, "%v", err)
	}
	raws, _, err := crmevent.Split(body, crmEvents)
	if err != nil {
		return answerable(err)
	}
	results, err := a.SendDelivery(r.Context(), raws)
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return refused(http.StatusServiceUnavailable, "%v", err)
	}
	status, out := http.StatusOK, []deliveryResult{}
	for _, res := range results {
		one := deliveryResult{ID: res.ID, Status: res.Status}
		if res.Why != "" {
			one.Error = &deliveryError{res.Why}
		} else {
			status = http.StatusAccepted
		}
		out = append(out, one)
	}
	write(w, status, map[string]any{"results": out})
	return nil
}
