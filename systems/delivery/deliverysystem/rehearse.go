package deliverysystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/event"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// rehearsal is the delivery system on stores in memory, which does not run.
type rehearsal struct {
	own      *deliveryconfig.Settings
	rules    *event.Rules
	acceptor *accept.Acceptor
	sys      *delivery.System
	r        *system.Rehearsing
}

// rehearse says what would become of events: whether they are taken in, in which queue they would
// wait, which partners get them, and by what requests.
func rehearse(r *system.Rehearsing) (system.Rehearsal, error) {
	h := &rehearsal{own: deliveryconfig.Of(r.Config), r: r}
	letters, err := tabledeadletter.Memory(deadletter.Options{Now: r.Now})
	if err != nil {
		return nil, err
	}
	queues, keys := memoryqueue.New(memoryqueue.Options{Now: r.Now}), tableledger.Memory(tableledger.Options{Now: r.Now})
	class, err := classes(h.own)
	if err != nil {
		return nil, err
	}
	if h.rules, err = event.New(event.Options{}); err != nil {
		return nil, err
	}
	if h.acceptor, err = accept.New(keys, queues, accept.Options{Batch: h.own.LowFrom, Class: class, Now: r.Now}); err != nil {
		return nil, err
	}
	h.sys, err = delivery.New(delivery.Parts{Queues: queues, DeadLetters: letters, Sent: keys, Partners: h.own.Partners, Env: partner.Env{Secret: r.Config.Secret}},
		delivery.Options{Absent: absent(h.own), Now: r.Now})
	if err != nil {
		return nil, err
	}
	return system.OneByOne(h.event), nil
}

// event is what becomes of one. Its key is of the site that With names, else of its own.
func (h *rehearsal) event(_ context.Context, in *system.Incoming) ([]system.End, error) {
	gpc, err := in.Says("gpc")
	conversion, err2 := in.Says("conversion")
	if err = errors.Join(err, err2, in.OnlyWith("site", "gpc", "conversion")); err != nil {
		return nil, err
	}
	var e event.Event
	if err := h.rules.Decode(in.Body, event.Given{Conversion: conversion}, &e); err != nil {
		return []system.End{system.Refused(err.Error())}, nil
	}
	site := cmp.Or(in.With["site"], e.Site)
	if e.Site != site {
		return []system.End{system.Refused(fmt.Sprintf("siteId: it is %q, and the key is of site %q", e.Site, site))}, nil
	}
	if len(h.own.Sites) > 0 && !slices.ContainsFunc(h.own.Sites, func(s deliveryconfig.Site) bool { return s.ID == site }) {
		return []system.End{system.Refused(fmt.Sprintf("siteId: there is no site %q", site))}, nil
	}
	queue := h.acceptor.QueueOf(&accept.Request{Site: site, Items: make([]accept.Item, 1)}, &e, in.Body)
	m := &tidemill.Message{ID: cmp.Or(e.ID, event.NameFor(site, e.Key, 0, in.Body)), Tenant: site, Type: e.Type, To: queue, Payload: in.Body, Time: e.Time}
	if gpc {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(delivery.GPCHeader), Value: []byte("1")})
	}
	if conversion {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(delivery.ConversionHeader), Value: []byte("1")})
	}
	return h.ends(m)
}

// ends are those of an event that is taken in.
func (h *rehearsal) ends(m *tidemill.Message) ([]system.End, error) {
	became, err := h.sys.Rehearse(m)
	if err != nil {
		return []system.End{{At: system.Itself, End: system.EndOf(tidemill.Dead, err.Error())}}, nil
	}
	queue, err := system.JSON(map[string]string{"queue": m.To})
	if err != nil {
		return nil, err
	}
	ends := []system.End{{At: system.Itself, End: system.EndOf(tidemill.Delivered, ""), Output: queue}}
	if became.Skip != "" {
		ends[0].End = system.EndOf(tidemill.Skipped, became.Skip)
	}
	for _, p := range became.Partners {
		end := system.End{At: "partner " + p.Partner, End: system.EndOf(p.Fate, p.Why)}
		if p.Request != nil {
			if end.Output, err = system.Request(p.Request); err != nil {
				return nil, err
			}
		}
		ends = append(ends, end)
	}
	return ends, nil
}
