package crmconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// Check refuses what cannot work. Where CRM does not run, that are addresses: secrets are where it
// does.
func (s *Settings) Check() error {
	k := config.NewChecker(s.c, Group.Name)
	k.OK(s.RedisURL.Has(config.RedisSchemes...), "redis_url")
	k.OK(s.BullMQ.URL.Has(config.RedisSchemes...), "bullmq.url")
	k.OK(s.PostgresURL.Has(config.PostgresSchemes...), "postgres_url")
	if !s.c.Runs(Group.Name) {
		return k.Err()
	}
	k.Limits()
	for _, r := range []struct {
		path string
		rate float64
	}{{"per_second", s.PerSecond}, {"tenant_per_second", s.TenantPerSecond}} {
		if r.rate > 0 && r.rate < queue.MinRate {
			k.Refuse(r.path, r.rate, "0 for no limit, or %v or more", queue.MinRate)
		}
	}
	k.OK(s.BullMQ.Queue != "" && !strings.Contains(s.BullMQ.Queue, ":"), "bullmq.queue")
	if _, err := priority.New(s.Priorities.Rules()); err != nil {
		k.Add(fmt.Errorf("crm.%w", err))
	}
	for i := range s.Tenants {
		if err := s.Tenants[i].check(s.Tenants[:i]); err != nil {
			k.Add(fmt.Errorf("%s: %w", s.c.Element("crm.tenants", i), err))
		}
	}
	k.Add(s.checkTenantKeys()...)
	k.Add(s.checkHandlers()...)
	return k.Err()
}

// Warnings are of keys that can be guessed.
func (s *Settings) Warnings() (all []string) {
	for i := range s.Tenants {
		t := &s.Tenants[i]
		all = append(all, s.c.ShortKeys(s.c.Element("crm.tenants", i), "tenant "+t.ID, t.Keys, t.KeysEnv)...)
	}
	return all
}

func (t *Tenant) check(before []Tenant) error {
	switch {
	case !event.ValidTenant(t.ID):
		return fmt.Errorf("tenant %q: want an id of 1 to %d of A-Z a-z 0-9 . _ -, as its events have it in tenantId", t.ID, event.MaxTenant)
	case slices.ContainsFunc(before, func(o Tenant) bool { return o.ID == t.ID }):
		return fmt.Errorf("tenant %s: it is there twice", t.ID)
	case !(t.PerSecond <= 0) && (&queue.Settings{Tenant: queue.Limit{PerSecond: t.PerSecond}}).Check() != nil:
		return fmt.Errorf("tenant %s: per_second %v: want %v to %v; 0: tenant_per_second, below 0: no limit", t.ID, t.PerSecond, queue.MinRate, float64(queue.MaxRate))
	case t.AtOnce < 0:
		return fmt.Errorf("tenant %s: at_once %d: want 1 or more; 0: no limit", t.ID, t.AtOnce)
	}
	return nil
}

// checkTenantKeys refuses keys that cannot be found, and one key of two tenants.
func (s *Settings) checkTenantKeys() (errs []error) {
	whose := map[string]string{}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		keys, err := s.TenantKeys(t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.c.Element("crm.tenants", i), err))
			continue
		}
		for _, k := range keys {
			if other := whose[string(k[:])]; other != "" && other != t.ID {
				errs = append(errs, fmt.Errorf("%s: tenants %s and %s have the same key", s.c.Element("crm.tenants", i), other, t.ID))
			}
			whose[string(k[:])] = t.ID
		}
	}
	return errs
}

// checkHandlers refuses handlers that could not be called, and two for one type.
func (s *Settings) checkHandlers() (errs []error) {
	var specs []handler.Spec
	for i := range s.Handlers {
		h := &s.Handlers[i]
		if err := s.checkHandler(h); err != nil {
			name := h.Name
			if name == "" {
				name = fmt.Sprintf("number %d", i+1)
			}
			errs = append(errs, fmt.Errorf("%s: handler %s: %w", s.c.Element("crm.handlers", i), name, err))
		}
		spec := h.Spec()
		spec.Handler = handler.Batch(nil) // to be there
		specs = append(specs, spec)
	}
	if _, err := handler.NewSet(s.Priorities.Prefixes, specs...); err != nil {
		errs = append(errs, fmt.Errorf("crm.handlers: %w", err))
	}
	return errs
}

func (s *Settings) checkHandler(h *Handler) error {
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
	o, err := s.Endpoint(h)
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
