package admin

import (
	"context"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/deadletter"
)

// groups are those of all stores.
func (a *API) groups(ctx context.Context, _ *operation.None) (out api.DeadGroups, err error) {
	stores, err := a.stores("", deadletter.Filter{})
	if err != nil {
		return out, err
	}
	var all deadletter.Groups
	for _, s := range stores {
		some, err := s.Groups(ctx, a.pipelines(sightOf(ctx)))
		if err != nil {
			return out, err
		}
		all.Groups, all.Other, all.Looked = append(all.Groups, some.Groups...), all.Other+some.Other, all.Looked+some.Looked
	}
	all.Largest()
	out = api.DeadGroups{Groups: []api.DeadGroup{}, Other: all.Other, Looked: all.Looked, AsOf: a.Now().UTC()}
	for _, g := range all.Groups {
		out.Groups = append(out.Groups, api.DeadGroup{System: a.systemOf(g.Pipeline), Pipeline: g.Pipeline, Partner: a.partnerOf(g.Pipeline),
			Kind: g.Kind.String(), Reason: string(deadletter.ReasonOf(g.Kind)), Cause: g.Cause, Count: g.Count})
	}
	return out, nil
}
