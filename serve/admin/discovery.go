package admin

import (
	"context"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/rates"
)

// allowed are the operations for which rights suffice.
func (a *API) allowed(r caller.Rights) (all []operation.Handler) {
	for _, h := range a.does {
		if h.May(r) {
			all = append(all, h)
		}
	}
	return all
}

func ids(all []operation.Handler) []string {
	out := make([]string, len(all))
	for i, h := range all {
		out[i] = h.ID
	}
	return out
}

// discover says what this instance is, to the caller.
func (a *API) discover(ctx context.Context, _ *operation.None) (api.Discovery, error) {
	all := a.allowed(caller.From(ctx).Rights)
	out := api.Discovery{Version: a.Version, Instance: a.This.ID, Systems: []string{}, May: ids(all),
		Limits: api.Limits{Pages: operation.LimitsOfPages(), Bodies: bodies(all), Rates: ratesIn(a.limits())},
		Links:  api.Links{OpenAPI: operation.Full(api.GetOpenAPI.Description), YAML: operation.Full(api.GetOpenAPIYAML.Description), Me: operation.Full(api.GetMe.Description), Stream: operation.Full(api.GetStream.Description)}}
	for _, s := range a.seen(ctx) {
		out.Systems = append(out.Systems, s.Name)
	}
	if a.Config != nil {
		c := &a.Config().Console
		if out.Name, out.Environment = c.Name, c.Environment; c.Enabled {
			out.Links.Reference = a.base() + "/console/reference"
		}
	}
	return out, nil
}

func ratesIn(l rates.Limits) api.RateLimits {
	out := api.RateLimits{Dear: l.Dear, DearOfAll: l.DearOfAll}
	if l.Reads.Rate > 0 {
		out.Reads, out.ReadsBurst = l.Reads.Rate, l.Reads.Burst
	}
	if l.Changes.Rate > 0 {
		out.Changes, out.ChangesBurst = l.Changes.Rate, l.Changes.Burst
	}
	return out
}

// bodies are the limits of what operations are sent.
func bodies(all []operation.Handler) api.BodyLimits {
	out := api.BodyLimits{Form: operation.MaxForm, JSON: operation.MaxJSON, Of: map[string]int64{}}
	for _, h := range all {
		if h.Body() != nil && h.MaxBody() != operation.MaxJSON {
			out.Of[h.ID] = h.MaxBody()
		}
	}
	return out
}
