package admin

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/deadletter"
)

const (
	groupsFresh  = time.Second
	groupsOldest = 10 * time.Second // where reading takes long
)

// newGroups are those of all pipelines, read while somebody asks.
func (a *API) newGroups(s *standing) *figures.Latest[deadletter.Groups] {
	return &figures.Latest[deadletter.Groups]{Read: func(ctx context.Context) (deadletter.Groups, error) { return a.readGroups(ctx, nil) },
		Fresh: groupsFresh, Most: groupsOldest, Share: longShare, Good: booksGood, Wait: booksWithin, Within: booksWithin, In: &s.readings}
}

// readGroups reads the groups of all stores, of some pipelines; nil: of all.
func (a *API) readGroups(ctx context.Context, only func(string) bool) (all deadletter.Groups, err error) {
	stores, err := a.stores("", deadletter.Filter{})
	if err != nil {
		return all, err
	}
	for _, s := range stores {
		some, err := s.Groups(ctx, only)
		if err != nil {
			return all, err
		}
		all.Groups, all.Other = append(all.Groups, some.Groups...), all.Other+some.Other
	}
	all.Largest()
	return all, nil
}

// groups are those of the pipelines that a request may look at. Who may look at all has what was read
// for everybody.
func (a *API) groups(ctx context.Context, q *api.GroupsOf) (out api.DeadGroups, err error) {
	var all deadletter.Groups
	at := a.Now()
	if may := sightOf(ctx); may.all() {
		if all, at, err = latest(ctx, a.standing.groups); err != nil {
			return out, err
		}
	} else if all, err = a.readGroups(ctx, a.pipelines(may)); err != nil {
		return out, err
	}
	out = api.DeadGroups{Groups: []api.DeadGroup{}, Other: all.Other, AsOf: at.UTC()}
	shown := all.Groups
	if q.Max > 0 && len(shown) > q.Max {
		shown, out.More = shown[:q.Max], len(shown)-q.Max
	}
	for _, g := range shown {
		out.Groups = append(out.Groups, api.DeadGroup{System: a.systemOf(g.Pipeline), Pipeline: g.Pipeline, Partner: a.partnerOf(g.Pipeline),
			Kind: g.Kind.String(), Reason: string(deadletter.ReasonOf(g.Kind)), Cause: g.Cause, Count: g.Count})
	}
	return out, nil
}
