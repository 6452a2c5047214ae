package deliveryapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
)

// Finder finds and explains what delivery has by its ids.
type Finder struct {
	*answer.Common
	Delivery *delivery.System
	Accept   *accept.Acceptor
	Sites    func() []string // those that are configured
	Now      func() time.Time
}

// Lookups implements answer.Finder.
func (f *Finder) Lookups(id, owner string) []answer.Lookup {
	sites := f.Sites()
	if owner != "" {
		sites = []string{owner}
	}
	whole := id
	id, partner := f.split(id)
	few := func(where string, do func(context.Context) ([]api.Thing, error)) answer.Lookup {
		if len(sites) > answer.MostOwners {
			return answer.Lookup{Where: where, Not: fmt.Sprintf("there are %d sites, and it is looked for in at most %d at once: say which site", len(sites), answer.MostOwners)}
		}
		return answer.Lookup{Where: where, Do: do}
	}
	return []answer.Lookup{
		few("queues of events", func(ctx context.Context) ([]api.Thing, error) {
			having, err := f.Delivery.Having(ctx, id, sites)
			return f.events(id, partner, having), err
		}),
		{Where: "dead letters of events and partners", Do: func(ctx context.Context) ([]api.Thing, error) {
			dying, err := f.Delivery.Dying(ctx, id)
			if owner != "" {
				dying = slices.DeleteFunc(dying, func(site string) bool { return site != owner })
			}
			return f.events(id, partner, dying), err
		}},
		few("ids of events at the ingest API", func(ctx context.Context) (hits []api.Thing, err error) {
			rs, err := f.Accept.Event(ctx, id, sites)
			for _, r := range rs {
				hits = append(hits, f.events(id, partner, []string{r.Site})...)
			}
			return hits, err
		}),
		few("orders", func(ctx context.Context) ([]api.Thing, error) { return f.orders(ctx, whole, sites) }),
		{Where: "partners", Do: func(context.Context) ([]api.Thing, error) { return f.partner(whole), nil }},
		{Where: "sites", Do: func(context.Context) ([]api.Thing, error) {
			if !slices.Contains(f.Sites(), whole) {
				return nil, nil
			}
			return []api.Thing{{Kind: "owner", System: delivery.Name, Owner: whole, ID: whole, Text: "site " + whole, Operation: api.ListDead.ID, Parameters: map[string]string{"site": whole, "system": delivery.Name}}}, nil
		}},
	}
}

// split is the event and the partner that the name of a job is made of; else the event alone. The
// ingest API writes UUIDs in small letters.
func (f *Finder) split(id string) (event, partner string) {
	for _, name := range f.Delivery.PartnerNames() {
		if e, ok := strings.CutSuffix(id, delivery.JobOf("", name)); ok && e != "" {
			id, partner = e, name
			break
		}
	}
	if uuid.Validate(id) == nil {
		id = strings.ToLower(id)
	}
	return id, partner
}

// events are hits of one event of some sites.
func (f *Finder) events(id, partner string, sites []string) (hits []api.Thing) {
	for _, site := range sites {
		text := fmt.Sprintf("event of site %s", site)
		if partner != "" {
			text = fmt.Sprintf("event of site %s, which partner %s has a job of", site, partner)
		}
		hits = append(hits, answer.EventHit(delivery.Name, "event", site, id, text))
	}
	return hits
}

// orders are the events that came first for an order.
func (f *Finder) orders(ctx context.Context, order string, sites []string) (hits []api.Thing, err error) {
	rs, err := f.Accept.Order(ctx, order, sites)
	for _, r := range rs {
		if r.Job == "" {
			continue // it is being accepted
		}
		h := answer.EventHit(delivery.Name, "order", r.Site, r.Job, fmt.Sprintf("event of site %s that came first for the order, %s", r.Site, r.At.UTC().Format(time.RFC3339)))
		hits = append(hits, h)
	}
	return hits, err
}

func (f *Finder) partner(name string) []api.Thing {
	if !slices.Contains(f.Delivery.PartnerNames(), name) {
		return nil
	}
	return []api.Thing{partnerHit(name)}
}

func partnerHit(name string) api.Thing {
	return api.Thing{Kind: "partner", System: delivery.Name, ID: name, Text: "partner " + name, Operation: GetPartner.ID, Parameters: map[string]string{"name": name}}
}
