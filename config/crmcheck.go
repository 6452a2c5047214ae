package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// checkCRM refuses what cannot work.
func (c *Loaded) checkCRM(ok func(good bool, path string)) (errs []error) {
	d := &c.CRM
	between := func(v, low, high int, path string) { ok(v >= low && v <= high, "crm."+path) }
	const many = 1 << 40
	between(d.Workers, 1, 1000, "workers")
	between(d.Batch, 1, 1000, "batch")
	between(d.Ahead, 0, 100_000, "ahead")
	between(d.Attempts, 1, 100, "attempts")
	ok(d.Backoff >= time.Millisecond && d.Backoff <= time.Hour, "crm.backoff")
	ok(d.Lease >= time.Second && d.Lease <= time.Hour, "crm.lease")
	ok(d.PerSecond >= 0 && d.PerSecond <= maxRate, "crm.per_second")
	ok(d.TenantPerSecond >= 0 && d.TenantPerSecond <= maxRate, "crm.tenant_per_second")
	between(d.RateLimit, 0, 100_000_000, "rate_limit")
	between(d.QueueMax, 1, many, "queue_max")
	between(d.Shards, 1, 64, "shards")
	between(d.KeptCompleted, 0, queue.MaxKept, "kept_completed")
	between(d.KeptFailed, 0, queue.MaxKept, "kept_failed")
	ok(d.DeadLife >= time.Minute, "crm.dead_life")
	between(d.DeadMax, 1, many, "dead_max")
	ok(d.LogLife >= 24*time.Hour, "crm.log_life")
	ok(d.Unknown == "skip" || d.Unknown == "dead", "crm.unknown")
	ok(d.BullMQ.Prefix != "", "crm.bullmq.prefix")
	ok(d.BullMQ.Queue != "" && !strings.Contains(d.BullMQ.Queue, ":"), "crm.bullmq.queue")
	ok(d.BullMQ.Metrics >= 0 && d.BullMQ.Metrics <= 365*24*time.Hour, "crm.bullmq.metrics")
	if _, err := priority.New(d.Priorities.Rules()); err != nil {
		errs = append(errs, fmt.Errorf("crm.%w", err))
	}
	for i := range d.Tenants {
		if err := d.Tenants[i].check(d.Tenants[:i]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Element("crm.tenants", i), err))
		}
	}
	errs = append(errs, c.checkTenantKeys()...)
	return append(errs, c.checkHandlers()...)
}

// maxRate is as fast as a limit can be: faster is none.
const maxRate = 1e6

func (t *CRMTenant) check(before []CRMTenant) error {
	switch {
	case !event.ValidTenant(t.ID):
		return fmt.Errorf("tenant %q: want an id of 1 to %d of A-Z a-z 0-9 . _ -, as its events have it in tenantId", t.ID, event.MaxTenant)
	case slices.ContainsFunc(before, func(o CRMTenant) bool { return o.ID == t.ID }):
		return fmt.Errorf("tenant %s: it is there twice", t.ID)
	case !(t.PerSecond <= maxRate):
		return fmt.Errorf("tenant %s: per_second %v: want at most %v; 0: tenant_per_second, below 0: no limit", t.ID, t.PerSecond, float64(maxRate))
	case t.AtOnce < 0:
		return fmt.Errorf("tenant %s: at_once %d: want 1 or more; 0: no limit", t.ID, t.AtOnce)
	}
	return nil
}

// checkTenantKeys refuses keys that cannot be found, and one key of two tenants.
func (c *Loaded) checkTenantKeys() (errs []error) {
	whose := map[string]string{}
	for i := range c.CRM.Tenants {
		t := &c.CRM.Tenants[i]
		keys, err := c.TenantKeys(t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Element("crm.tenants", i), err))
			continue
		}
		for _, k := range keys {
			if other := whose[string(k[:])]; other != "" && other != t.ID {
				errs = append(errs, fmt.Errorf("%s: tenants %s and %s have the same key", c.Element("crm.tenants", i), other, t.ID))
			}
			whose[string(k[:])] = t.ID
		}
	}
	return errs
}

// checkHandlers refuses handlers that could not be called, and two for one type.
func (c *Loaded) checkHandlers() (errs []error) {
	var specs []handler.Spec
	for i := range c.CRM.Handlers {
		h := &c.CRM.Handlers[i]
		if err := c.checkHandler(h); err != nil {
			name := h.Name
			if name == "" {
				name = fmt.Sprintf("number %d", i+1)
			}
			errs = append(errs, fmt.Errorf("%s: handler %s: %w", c.Element("crm.handlers", i), name, err))
		}
		s := h.Spec()
		s.Handler = handler.Batch(nil) // to be there
		specs = append(specs, s)
	}
	if _, err := handler.NewSet(c.CRM.Priorities.Prefixes, specs...); err != nil {
		errs = append(errs, fmt.Errorf("crm.handlers: %w", err))
	}
	return errs
}

func (c *Loaded) checkHandler(h *CRMHandler) error {
	switch {
	case h.Endpoint != nil && h.Attributes != nil:
		return errors.New("want an endpoint or attributes, not both: two handlers can do both, for different types")
	case h.Endpoint == nil && h.Attributes == nil:
		return errors.New("say what it does: an endpoint that takes the events, or attributes of profiles")
	case h.Timeout < 0 || h.Timeout > handler.MaxTimeout-endpointGrace:
		return fmt.Errorf("a timeout of %v: want more than 0, less than %v", h.Timeout, handler.MaxTimeout)
	case h.Endpoint == nil:
		_, err := handler.AttributesIn[struct{}](nil, nil, h.Attributes) // which only reads the mapping
		return err
	case h.Many > 1:
		return errors.New("many: an endpoint gets one event in each request; leave it out")
	}
	o, err := c.CRMEndpoint(h)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	e, err := webhook.New(o)
	if err != nil {
		return err
	}
	e.Close()
	return nil
}
