package deliverysystem

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// ingestAPI makes the ingest API of delivery.
func (w *wiring) ingestAPI(ctx context.Context, sys *delivery.System, in *takings, d *stores) (*deliveryingest.Handler, *accept.Acceptor, error) {
	c, o := w.own, w.Host
	rules, err := event.New(event.Options{})
	if err != nil {
		return nil, nil, err
	}
	t, err := w.takingOf(ctx, c, d)
	if err != nil {
		return nil, nil, err
	}
	in.put(t)
	acceptor, err := accept.New(d.keys, d.queues, accept.Options{Transaction: d.transaction, Keep: c.KeyLife, Batch: c.LowFrom, Class: in.queue,
		Lease: c.Lease, Timeout: min(10*time.Second, c.Lease/2), // who dies holds up the same request no longer than any other work
		Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, nil, err
	}
	perMinute := c.PublicRate
	if perMinute == 0 {
		perMinute = -1
	}
	handler, err := deliveryingest.New(deliveryingest.Options{
		Options: w.Endpoint(&in.keys), Acceptor: acceptor, Rules: rules, Sites: in.site,
		Status: func(ctx context.Context, site, id string) (any, error) {
			e, err := sys.Event(ctx, site, id)
			if err != nil {
				return nil, err
			}
			return statusOf(e), nil
		},
		Partners: func(it *accept.Item, gpc bool) (all []deliveryingest.Partner) {
			names, err := sys.Matching(it.Event.Site, it.Event.ID, it.Raw, gpc)
			if err != nil { // routing says so, and makes a dead letter
				// Logged when the conditions of a partner fail for a conversion; its answer names the
				// other partners, and routing makes a dead letter.
				// To do: correct the partner's condition that the error names.
				o.Log.Warn("the partners of a conversion cannot be named", "event", it.Event.ID, "error", err)
			}
			for _, name := range names {
				all = append(all, deliveryingest.Partner{Name: name, Status: "pending"})
			}
			return all
		},
		Meter:  d.meter,
		Limits: endpoint.Limits{PerMinute: perMinute},
	})
	if err != nil {
		return nil, nil, err
	}
	sys.Repeat(flow.Loop{Name: "forget idempotency keys", Every: 10 * time.Second, Do: acceptor.Expire})
	return handler, acceptor, nil
}

// classes are the rules that say which queue takes an event; nil: there are none.
func classes(c *deliveryconfig.Settings) (func(*event.Event, []byte) string, error) {
	type class struct {
		rule  *partner.Rule
		queue string
	}
	var all []class
	for _, r := range c.Queues {
		rule, err := partner.NewRule("delivery.queues: when", r.When, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, class{rule, map[string]string{"high": delivery.High, "standard": delivery.Standard, "low": delivery.Low}[r.Queue]})
	}
	if len(all) == 0 {
		return nil, nil
	}
	return func(e *event.Event, raw []byte) string {
		read, err := partner.ReadEvent(&tidemill.Message{Tenant: e.Site, Payload: raw}, e.ID)
		if err != nil {
			return "" // the rules of the ingest API have read it; expressions need not
		}
		for _, c := range all {
			if c.rule.Holds(read) {
				return c.queue
			}
		}
		return ""
	}, nil
}

// sites are those of the configuration. Where it has none, and the embedded database is
// there, they are its projects: the one that is made at the first start.
func (w *wiring) sites(ctx context.Context, c *deliveryconfig.Settings, d *stores) (project.Projects, error) {
	if len(c.Sites) == 0 && d.projects != nil {
		return d.projects, nil
	}
	all := tableproject.Memory()
	for n := range c.Sites {
		s := &c.Sites[n]
		keys, err := c.SiteKeys(s)
		if err != nil {
			return nil, err
		}
		if len(keys) == 0 { // it has no servers that send; its browsers may
			continue
		}
		for _, k := range keys {
			if err := all.Ensure(ctx, project.Project{ID: project.ID(s.ID), Name: s.ID}, k); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// eventStatus is where an event is, as its site may see it.
type eventStatus struct {
	ID       string          `json:"eventId"`
	Site     string          `json:"siteId"`
	Type     string          `json:"eventType,omitempty"`
	Received time.Time       `json:"receivedAt,omitzero"`
	State    string          `json:"status"`
	Why      string          `json:"reason,omitempty"`
	Partners []partnerStatus `json:"partners"`
}

type partnerStatus struct {
	Name  string    `json:"name"`
	State string    `json:"status"`
	Tries int       `json:"failedTries,omitempty"`
	Next  time.Time `json:"nextTryAt,omitzero"`
	Ended time.Time `json:"endedAt,omitzero"`
}

// statusOf leaves out what partners said: that is for operators.
func statusOf(e *delivery.EventStatus) eventStatus {
	out := eventStatus{ID: e.ID, Site: e.Site, Type: e.Type, Received: e.Received.UTC(), State: e.State, Partners: []partnerStatus{}}
	if e.Received.IsZero() {
		out.Received = time.Time{}
	}
	if e.State == delivery.StateSkipped {
		out.Why = e.Why
	}
	for _, p := range e.Partners {
		out.Partners = append(out.Partners, partnerStatus{p.Partner, p.State, p.Tries, p.Next, p.Ended})
	}
	return out
}

// health answers GET /healthz: healthy, degraded while a partner is left alone
// a queue or dead letters are full, unhealthy (503) where a queue cannot be asked. Who the
// partners are is for those who show the key of the API.
func (w *wiring) health(sys *delivery.System, d *stores) http.Handler {
	kind := "database"
	if w.own.Redis() != "" {
		kind = "redis"
	}
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		answer := struct {
			Status    string            `json:"status"`
			Timestamp time.Time         `json:"timestamp"`
			Version   string            `json:"version"`
			Checks    map[string]string `json:"checks"`
		}{"healthy", w.Now().UTC(), w.Version, map[string]string{kind: "ok", "queue": "ok"}}
		status := http.StatusOK
		away, err := sys.Away(ctx)
		named := w.Operator(r, delivery.Name)
		for name, circuit := range away {
			answer.Status = "degraded"
			if answer.Checks["partners"] = "degraded"; named {
				answer.Checks["partner "+name] = circuit.String()
			}
		}
		for _, name := range sys.Full() {
			answer.Status = "degraded"
			if answer.Checks["dead letters"] = "full"; named {
				answer.Checks["dead letters of "+name] = "full"
			}
		}
		if n := sys.Overfull(); n > 0 {
			answer.Status = "degraded"
			answer.Checks["partners' queues"] = fmt.Sprintf("%d full", n)
		}
		full, err2 := fullEndpoints(ctx, d.queues, w.own.QueueMax)
		if err2 != nil {
			err = err2
		}
		if len(full) > 0 { // senders are told to come again
			answer.Status = "degraded"
			answer.Checks["queue"] = "full: " + strings.Join(full, ", ")
		}
		if err == nil {
			err = w.Takes()
		}
		if err != nil {
			answer.Status, status = "unhealthy", http.StatusServiceUnavailable
			answer.Checks[kind], answer.Checks["queue"] = "failed", "failed"
			// Logged each time the health of delivery is asked for and it cannot take events in.
			// To do: see what the error names.
			w.Log.WarnContext(ctx, "delivery is unhealthy", "error", err)
		}
		out.Header().Set("Content-Type", "application/json")
		out.Header().Set("Cache-Control", "no-store")
		out.WriteHeader(status)
		_ = json.NewEncoder(out).Encode(answer) // the prober is gone, or will see that it is cut
	})
}

// serves says whether a path is the ingest API's of delivery.
func serves(path string) bool {
	return path == "/v1/events" || path == "/collect" || path == "/s2s/convert" ||
		strings.HasPrefix(path, "/v1/events/") || strings.HasPrefix(path, "/v1/schemas/")
}

// only answers one method.
func only(method string, h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(method+" /", h)
	return mux
}
