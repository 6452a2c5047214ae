package deliveryingest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// Result is what became of an event that an operator sent.
type Result struct {
	ID     string // empty: it brought none, and was rejected
	Status string // accepted, duplicate or rejected
	Why    string // of one that was rejected
}

// Accept takes events, one JSON object each, from somebody who needs no key: an operator. Each
// is of the site that its siteId names. Where it has neither an idempotencyKey nor an eventId,
// its bytes are its idempotency key, so that sending the same again is harmless. A nil error
// means that every accepted event is durable in its queue, and that there is a result for each
// event, in their order; after an error all may be sent again. The events go on under the trace of ctx.
func (h *Handler) Accept(ctx context.Context, raws [][]byte) ([]Result, error) {
	return h.AcceptUnder(ctx, raws, nil)
}

// AcceptUnder is Accept for events that go on each under its own trace; nil: under that of ctx.
func (h *Handler) AcceptUnder(ctx context.Context, raws [][]byte, traces []*tidemill.Trace) ([]Result, error) {
	results := make([]Result, len(raws))
	var sites []string // in the order of their first event
	of := map[string][]int{}
	items := make([]accept.Item, len(raws))
	for i, raw := range raws {
		it := &items[i]
		if it.Raw = raw; traces != nil {
			it.Trace = traces[i]
		}
		if err := h.o.Rules.Decode(raw, event.Given{}, &it.Event); err != nil {
			results[i] = Result{it.Event.ID, "rejected", invalid(err).Error()}
			h.Count(api, rejected, 1)
			continue
		}
		site := it.Event.Site
		if _, ok := h.o.Sites(site); !ok {
			results[i] = Result{it.Event.ID, "rejected", fmt.Sprintf("siteId: there is no site %q", site)}
			h.Count(api, rejected, 1)
			continue
		}
		if it.Event.Key == "" && it.Event.ID == "" {
			it.Event.Key = fmt.Sprintf("%x", sha256.Sum256(raw))
		}
		if of[site] == nil {
			sites = append(sites, site)
		}
		of[site] = append(of[site], i)
	}
	for _, site := range sites {
		if err := h.acceptOf(ctx, site, items, of[site], results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// acceptOf takes the events of one site.
func (h *Handler) acceptOf(ctx context.Context, site string, items []accept.Item, its []int, results []Result) error {
	r := accept.Request{Site: site, Header: tidemill.TraceIn(ctx).Put([]tidemill.Field{{Name: receivedHeader, Value: appendMillis(nil, h.o.Now().UTC())}})}
	for _, i := range its {
		r.Items = append(r.Items, items[i])
	}
	a, err := h.o.Acceptor.Accept(ctx, &r)
	if errors.Is(err, accept.ErrReused) { // of one event
		h.Count(api, rejected, len(its))
		for _, i := range its {
			results[i] = Result{items[i].Event.ID, "rejected", err.Error()}
		}
		return nil
	}
	if err != nil {
		h.Count(api, unkept, len(its))
		return err
	}
	h.Count(api, accepted, a.Accepted)
	h.Count(api, duplicate, a.Duplicate)
	h.Count(api, rejected, a.Rejected)
	h.Count(api, repeated, len(a.Repeated))
	var said []struct {
		ID      string `json:"eventId"`
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	if err := json.Unmarshal(a.Results, &said); err != nil || len(said) != len(its) {
		return fmt.Errorf("accept events: %d results of %d events: %w", len(said), len(its), err)
	}
	for n, i := range its {
		results[i] = Result{said[n].ID, said[n].Status, said[n].Message}
		if slices.Contains(a.Repeated, n) {
			results[i].Status = "duplicate"
		}
	}
	return nil
}
