package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// CheckDelivery refuses partners that the delivery system cannot start with: what their
// descriptions say, their expressions, and the secrets they need. It connects to nothing. It
// is for who runs the system; Load does not call it, for the secrets are where it runs.
func (c *Loaded) CheckDelivery() error {
	var errs []error
	at := 0
	fail := func(err error) {
		errs = append(errs, fmt.Errorf("%s: %w", c.Element("delivery.partners", at), err))
	}
	if d := &c.Delivery; d.MaxWorkers < d.Workers {
		errs = append(errs, fmt.Errorf("delivery.max_workers: %d at most are fewer than the %d there always are (delivery.workers)", d.MaxWorkers, d.Workers))
	}
	all := c.Delivery.Partners
	for i := range all {
		p := &all[i]
		at = i
		if slices.ContainsFunc(all[:i], func(o partner.Partner) bool { return o.Name == p.Name }) {
			fail(fmt.Errorf("partner %s: it is there twice", p.Name))
		}
		if p.Ordered && c.Delivery.Shards > 1 && c.DeliveryRedis() != "" {
			fail(fmt.Errorf("partner %s: ordered needs a single shard, and delivery.shards is %d", p.Name, c.Delivery.Shards))
		}
		built, err := p.Build(partner.Env{Secret: c.Secret})
		if err != nil {
			fail(err)
			continue
		}
		built.Close()
		for _, id := range p.Sites {
			if !c.knowsSite(id) {
				fail(fmt.Errorf("partner %s: sites: there is no site %q", p.Name, id))
			}
		}
	}
	return errors.Join(errs...)
}

// knowsSite says whether events of a site can come: keys may be those of a project, too.
func (c *Loaded) knowsSite(id string) bool {
	return slices.ContainsFunc(c.Delivery.Sites, func(s Site) bool { return s.ID == id }) ||
		slices.ContainsFunc(c.Projects, func(p Project) bool { return p.Name == id })
}
