package deliverysystem

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// taking is by which rules the endpoints take events. Nothing in it is changed: a reload puts another
// one in its place.
type taking struct {
	keys  project.Projects // the sites of keys
	sites map[string]deliveryingest.Site
	class func(*event.Event, []byte) string // nil: no rule says which queue takes an event
}

// takings is what is in force.
type takings struct {
	atomic.Pointer[taking]
	keys system.Swapped
}

func (t *takings) put(is *taking) {
	t.Store(is)
	t.keys.Put(is.keys)
}

// site is how a site's events are taken.
func (t *takings) site(site string) (deliveryingest.Site, bool) {
	is := t.Load()
	if len(is.sites) == 0 { // only the one that was made to try things out
		return deliveryingest.Site{Public: site == "default"}, true
	}
	s, ok := is.sites[site]
	return s, ok
}

func (t *takings) queue(e *event.Event, raw []byte) string {
	if class := t.Load().class; class != nil {
		return class(e, raw)
	}
	return ""
}

// takingOf is how events are taken by a configuration.
func (w *wiring) takingOf(ctx context.Context, c *deliveryconfig.Settings, d *stores) (t *taking, err error) {
	t = &taking{sites: map[string]deliveryingest.Site{}}
	for n := range c.Sites {
		s := &c.Sites[n]
		t.sites[s.ID] = deliveryingest.Site{Public: s.Public, Origins: s.Origins, PerDay: s.PerDay()}
	}
	if t.class, err = classes(c); err == nil {
		t.keys, err = w.sites(ctx, c, d)
	}
	return t, err
}

// absent says by a configuration whether events without any consent go to partners.
func absent(c *deliveryconfig.Settings) func(site string) bool {
	skip := map[string]bool{}
	for _, s := range c.Sites {
		skip[s.ID] = s.Consent == "skip"
	}
	return func(site string) bool { return !skip[site] }
}

// reload prepares another configuration: sites with their keys, rules of queues, partners, and the limit of the public endpoints.
func (w *wiring) reload(sys *delivery.System, handler *deliveryingest.Handler, in *takings, d *stores) system.Prepare {
	return func(ctx context.Context, next *config.Loaded) (*system.Prepared, error) {
		c := deliveryconfig.Of(next)
		if d.projects != nil && sys.State() != flow.Idle && (len(c.Sites) == 0) != (len(in.Load().sites) == 0) {
			return nil, errors.New("delivery.sites: whether the projects of the embedded database are the sites, or sites are configured, is decided at the start: let the file have the first site, or the last one not, and restart")
		}
		t, err := w.takingOf(ctx, c, d)
		if err != nil {
			return nil, err
		}
		p, err := sys.Prepare(ctx, delivery.Reload{Partners: c.Partners, Env: partner.Env{Secret: next.Secret, Tracer: w.Tracer}, Tenants: c.Limits(), Absent: absent(c)})
		if err != nil {
			return nil, err
		}
		return &system.Prepared{Undo: p.Undo, Commit: func() {
			in.put(t)
			handler.LimitTo(c.PublicRate)
			p.Commit()
		}}, nil
	}
}
