package delivery

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// PartnerNames are the partners that events are delivered to.
func (s *System) PartnerNames() (names []string) {
	for _, t := range s.now().targets {
		names = append(names, t.Name)
	}
	return names
}

// Having says which of these sites have an event of that id that a queue still knows. It costs one
// question to the queues.
func (s *System) Having(ctx context.Context, id string, sites []string) (having []string, err error) {
	var names []queue.Name
	for _, site := range sites {
		for _, q := range EventQueues() {
			names = append(names, queue.Name{Queue: q, Tenant: site, ID: id})
		}
	}
	known := make([]bool, len(names))
	if err := s.p.Queues.Knows(ctx, names, known); err != nil {
		return nil, err
	}
	for i, n := range names {
		if known[i] && !slices.Contains(having, n.Tenant) {
			having = append(having, n.Tenant)
		}
	}
	return having, nil
}

// Dying are the sites that have a dead letter of an event of that id, or of its job for a partner.
func (s *System) Dying(ctx context.Context, id string) (sites []string, err error) {
	ids := map[string]string{} // by pipeline
	for _, q := range EventQueues() {
		ids[q] = id
	}
	for _, t := range s.now().targets {
		ids[t.queue] = JobOf(id, t.Name)
	}
	for pipeline, id := range ids {
		for l, err := range s.p.DeadLetters.List(ctx, deadletter.Filter{Pipeline: pipeline, IDs: []string{id}, Max: 100}) {
			if err != nil {
				return nil, err
			}
			if !slices.Contains(sites, l.Tenant) {
				sites = append(sites, l.Tenant)
			}
		}
	}
	slices.Sort(sites)
	return sites, nil
}

// Routing says where an event is among those that wait for routing, or waited; false: nothing is
// known of it there.
func (s *System) Routing(ctx context.Context, site, id string) (*EventStatus, bool, error) {
	e := &EventStatus{ID: id, Site: site}
	known, err := s.routing(ctx, e)
	return e, known, err
}

// Delivering says what became of an event for one partner; nil: nothing is known of that.
func (s *System) Delivering(ctx context.Context, e *EventStatus, partner string) (*PartnerStatus, error) {
	t, err := s.find(partner)
	if err != nil {
		return nil, err
	}
	return s.delivery(ctx, e, t)
}

// Choice is whether an event is for a partner, by the configuration as it is now.
type Choice struct {
	Partner string
	Why     string // it is not; empty: it is
}

// Choices say for each partner whether an event is for it: m is the event's job, in any queue.
func (s *System) Choices(m *tidemill.Message, id string) ([]Choice, error) {
	e, err := partner.ReadEvent(m, id)
	if err != nil {
		return nil, err
	}
	may := s.may(m.Tenant, e, string(m.Get(GPCHeader)) == "1")
	var all []Choice
	for _, t := range s.now().targets {
		c := Choice{Partner: t.Name}
		switch takes, err := t.Route.Takes(e); {
		case !t.Route.OfSite(m.Tenant):
			c.Why = "it takes nothing of this site"
		case err != nil: // it is asked again by its own queue
		case !takes:
			c.Why = "its condition (when) does not take the event"
		case !may:
			c.Why = "there is no consent to pass the event on"
		case !vendorMay(e, t.Route.Vendor):
			c.Why = "there is no consent for this vendor"
		}
		all = append(all, c)
	}
	return all, nil
}
