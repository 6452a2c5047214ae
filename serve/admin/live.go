package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/live"
)

// liveShown is how many fates are shown.
const liveShown = 50

// liveTold is how many of them the topic has: those of two seconds, which fit into its bound whatever
// their texts are.
const liveTold = 2 * live.PerSecond

// noLive is why nothing is sampled.
const noLive = "nothing is sampled in this instance"

// live shows what becomes of events now.
func (a *API) live(ctx context.Context, q *api.LiveFilter) (out api.Live, err error) {
	if err := a.liveOf(ctx, q); err != nil {
		return out, err
	}
	s, err := a.Fates.Look(live.Filter{Among: sightOf(ctx).some(), System: q.System, Owner: q.Owner, Type: q.Type})
	if errors.Is(err, live.ErrLooks) {
		p := operation.Refuse(http.StatusServiceUnavailable, "%v", err)
		p.After = int(live.Unseen / time.Second)
		return out, p
	}
	out = api.Live{Since: s.Since.UTC(), AsOf: a.Now().UTC(), Counts: s.Counts, Systems: []api.LiveSystem{}, Items: []api.Fate{}}
	delays := map[string][]float64{}
	for _, f := range s.Fates[:min(len(s.Fates), liveShown)] {
		item := api.Fate{At: f.At.UTC(), System: f.System, Pipeline: f.Pipeline, Outcome: f.Outcome, Owner: f.Owner, Type: f.Type, ID: f.ID, Why: f.Why, Count: f.Count}
		if f.Delay >= 0 {
			d := f.Delay.Seconds()
			item.Delay, delays[f.System] = &d, append(delays[f.System], d)
		}
		out.Items = append(out.Items, item)
	}
	for system, ds := range delays {
		slices.Sort(ds)
		out.Systems = append(out.Systems, api.LiveSystem{System: system, Delay: ds[len(ds)/2], Longest: ds[len(ds)-1]})
	}
	slices.SortFunc(out.Systems, func(x, y api.LiveSystem) int { return cmp.Compare(x.System, y.System) })
	return out, err
}

// liveOf refuses a filter of a system that the caller may not look at.
func (a *API) liveOf(ctx context.Context, q *api.LiveFilter) error {
	if q.System == "" {
		return nil
	}
	return sightOf(ctx).refuse(q.System, "system", q.System)
}

// liveTopic is how the topic live is read, or live:FILTER with a filter in the form of a query.
func (a *API) liveTopic(ctx context.Context, filter string) (func(context.Context) (api.StreamEvent, error), error) {
	values, err := url.ParseQuery(filter)
	q := api.LiveFilter{System: values.Get("system"), Owner: values.Get("owner"), Type: values.Get("type")}
	for _, name := range []string{"system", "owner", "type"} {
		values.Del(name)
	}
	if err != nil || len(values) > 0 {
		return nil, operation.Refuse(http.StatusBadRequest, "the topic live:%.120s has no filter of system, owner and type, such as system=delivery&owner=shop", filter)
	}
	if err := a.liveOf(ctx, &q); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (e api.StreamEvent, err error) {
		l, err := a.live(ctx, &q)
		l.AsOf, l.Items = time.Time{}, l.Items[:min(len(l.Items), liveTold)] // that it is later is no news
		e.Live = &l
		return e, err
	}, nil
}
