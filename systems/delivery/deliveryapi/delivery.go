// Package deliveryapi is what the API does of delivery.
package deliveryapi

import (
	"context"
	"errors"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/jsonarray"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
)

// DeliverySystem is what the API needs of the delivery system.
type DeliverySystem interface {
	// Event says where an event is; kind not_found where nothing is known of it.
	Event(ctx context.Context, site, id string) (*delivery.EventStatus, error)
	Partners(ctx context.Context) ([]delivery.PartnerHealth, error)
	// OpenCircuit leaves a partner alone for a time; 0: the system's usual one.
	OpenCircuit(ctx context.Context, partner string, d time.Duration) error
	CloseCircuit(ctx context.Context, partner string) error
	// SwitchOff sends it nothing, and queues nothing for it, until its circuit is closed.
	SwitchOff(ctx context.Context, partner string) error
}

// API does what the API does of delivery.
type API struct {
	*answer.Common
	Delivery DeliverySystem
	Trials   Trials
	Config   func() *config.Loaded

	// Take takes events of sites, one JSON object each.
	Take func(ctx context.Context, raws [][]byte) ([]deliveryingest.Result, error)
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		ListPartners.By(a.partners),
		GetPartner.By(a.partner),
		TryMapping.By(a.tryMapping),
		TestPartner.By(a.testPartner),
		OpenCircuit.By(a.openCircuit),
		CloseCircuit.By(a.closeCircuit),
		SwitchOff.By(a.switchOff),
		SendDelivery.By(a.sendDelivery),
		FindDelivery.By(func(ctx context.Context, q *DeliveryID) (Delivery, error) {
			return a.event(ctx, q.ID, a.sites())
		}),
		GetDelivery.By(func(ctx context.Context, q *DeliveryOf) (Delivery, error) {
			return a.event(ctx, q.ID, []string{q.Site})
		}),
	}
}

func healthOf(p *delivery.PartnerHealth) Partner {
	out := Partner{Partner: p.Partner, Circuit: p.Circuit.String(), Depth: p.Depth(), LastSuccess: answer.When(p.LastSuccessAt),
		Until: answer.When(p.Until), Why: p.Why, Paused: p.Paused, Dead: p.Dead, LastErrorAt: answer.When(p.LastErrorAt),
		Limit: p.Limit, Full: p.Limit > 0 && p.Full(), Parked: p.ParkedJobs(), Dropped: p.Dropped, Expired: p.Expired, Off: answer.When(p.Off), Failing: answer.When(p.FailingSince)}
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

func (a *API) partners(ctx context.Context, _ *operation.None) (iter.Seq2[Partner, error], error) {
	all, err := a.Delivery.Partners(ctx)
	return answer.Listed(all, healthOf), err
}

// openCircuit leaves a partner alone, for as long as is said or the usual time.
func (a *API) openCircuit(ctx context.Context, q *CircuitOpening) (Partner, error) {
	d, err := answer.For(q.For)
	if err != nil {
		return Partner{}, err
	}
	return a.circuit(ctx, q.Partner, "open", func(ctx context.Context, partner string) error { return a.Delivery.OpenCircuit(ctx, partner, d) })
}

func (a *API) closeCircuit(ctx context.Context, q *OnePartner) (Partner, error) {
	return a.circuit(ctx, q.Partner, "close", a.Delivery.CloseCircuit)
}

func (a *API) switchOff(ctx context.Context, q *OnePartner) (Partner, error) {
	return a.circuit(ctx, q.Partner, "off", a.Delivery.SwitchOff)
}

// circuit moves one, and answers how the partner stands then.
func (a *API) circuit(ctx context.Context, name, what string, do func(context.Context, string) error) (out Partner, err error) {
	if err := do(ctx, name); errors.Is(err, delivery.ErrNoPartner) {
		return out, operation.Refuse(http.StatusNotFound, "%v", err)
	} else if err != nil {
		return out, answer.Answerable(err)
	}
	// Logged when somebody opened or closed the circuit of a partner.
	a.Log.InfoContext(ctx, "circuit moved by hand", "partner", name, "what", what)
	all, err := a.Delivery.Partners(ctx)
	if err != nil {
		return out, err
	}
	for i := range all {
		if all[i].Partner == name {
			return healthOf(&all[i]), nil
		}
	}
	return out, operation.Refuse(http.StatusNotFound, "there is no partner %q any more", name)
}

// sitesTried is at how many sites an event is looked for whose site is not named.
const sitesTried = 100

// event says where an event is, of the one of these sites that has it.
func (a *API) event(ctx context.Context, id string, sites []string) (out Delivery, err error) {
	if len(sites) == 0 || len(sites) > sitesTried {
		return out, operation.Refuse(http.StatusBadRequest, "say of which site the event is: there are %d", len(sites))
	}
	var found []*delivery.EventStatus
	var of []string
	for _, site := range sites {
		e, err := a.Delivery.Event(ctx, site, id)
		if small := strings.ToLower(id); small != id && errors.Is(err, queue.ErrNotFound) {
			e, err = a.Delivery.Event(ctx, site, small) // as the ingest API writes it
		}
		if errors.Is(err, queue.ErrNotFound) {
			continue
		} else if err != nil {
			return out, answer.Answerable(err)
		}
		found, of = append(found, e), append(of, site)
	}
	switch len(found) {
	case 0:
		return out, operation.Refuse(http.StatusNotFound, "nothing is known of event %s of site %s: it never came, or all of it ended too long ago", id, strings.Join(sites, ", "))
	case 1:
		return showEvent(found[0]), nil
	}
	return out, operation.Refuse(http.StatusConflict, "several sites have an event %s: say which, of %s", id, strings.Join(of, ", "))
}

// sites are those that are configured; where none is, projects are sites, of which one is
// made at the first start.
func (a *API) sites() []string {
	if a.Config == nil {
		return nil
	}
	return Sites(a.Config())
}

// Sites are those that events may be of.
func Sites(c *config.Loaded) (ids []string) {
	for _, s := range deliveryconfig.Of(c).Sites {
		ids = append(ids, s.ID)
	}
	if len(ids) > 0 {
		return ids
	}
	for _, p := range c.Projects {
		ids = append(ids, p.Name)
	}
	if !slices.Contains(ids, "default") {
		ids = append(ids, "default")
	}
	return ids
}

func showEvent(e *delivery.EventStatus) Delivery {
	out := Delivery{ID: e.ID, Site: e.Site, Type: e.Type, Received: answer.When(e.Received), State: e.State, Why: e.Why, Queue: e.Queue, Partners: []PartnerDelivery{}}
	for _, p := range e.Partners {
		out.Partners = append(out.Partners, PartnerDelivery{Partner: p.Partner, State: p.State, Why: p.Why, Tries: p.Tries,
			Next: answer.When(p.Next), Ended: answer.When(p.Ended), Attempts: answer.Attempts(p.Attempts)})
	}
	return out
}

func (a *API) sendDelivery(ctx context.Context, q *api.EventsBody) (out api.EventResults, err error) {
	raws, _, err := jsonarray.Split(q.Body, api.EventsSent)
	if err != nil {
		return out, answer.Answerable(err)
	}
	results, err := a.Take(ctx, raws)
	if err != nil {
		return out, answer.Busy(err)
	}
	out.Results = make([]api.EventResult, len(results))
	for i, res := range results {
		if out.Results[i] = (api.EventResult{ID: res.ID, Status: res.Status}); res.Why != "" {
			out.Results[i].Error = &api.EventError{Code: res.Why}
		}
	}
	return out, nil
}
