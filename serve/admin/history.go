package admin

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/figures"
)

// figuring is what the API shows of counters.
func (a *API) figuring() Room {
	return Room{Does: []operation.Handler{
		api.GetOverview.By(a.overview),
		api.ListHistories.By(a.histories),
		api.GetHistory.By(a.historyOf),
		api.GetInstances.By(a.instances),
	}}
}

func (a *API) histories(ctx context.Context, _ *operation.None) (iter.Seq2[api.Figures, error], error) {
	names, _ := a.standing.history.Names()
	for _, p := range a.partnerNames() {
		if _, ok := slices.BinarySearch(names, a.seriesOf(partnerSeries+p)); ok {
			names = append(names, partnerSeries+p)
		}
	}
	may := sightOf(ctx)
	names = slices.DeleteFunc(names, func(name string) bool { return !may.of(a.systemOfSeries(name)) })
	return answer.Listed(names, func(name *string) api.Figures {
		return api.Figures{Series: *name, Rates: a.ratesOf(*name)}
	}), nil
}

// systemOfSeries is the system that a series is of; empty: not known.
func (a *API) systemOfSeries(name string) string {
	_, of, _ := strings.Cut(a.seriesOf(name), ":")
	return a.systemOf(of)
}

// ratesOf are the rates of a series; nil: they are not known.
func (a *API) ratesOf(series string) *api.Rates {
	r, ok := a.standing.history.Rates(a.seriesOf(series))
	if !ok {
		return nil
	}
	return &api.Rates{In: r.In, Out: r.Out, Failed: r.Failed}
}

func (a *API) historyOf(ctx context.Context, q *api.HistoryOf) (out api.History, err error) {
	span, step := figures.Hour, figures.Step
	if q.Span == "24h" {
		span, step = figures.Day, figures.LongStep
	}
	points, since, ok := a.standing.history.History(a.seriesOf(q.Series), span)
	if !ok || !sightOf(ctx).of(a.systemOfSeries(q.Series)) {
		return out, a.noHistory(ctx, q.Series)
	}
	out = api.History{Series: q.Series, Step: step.Seconds(), Since: answer.When(since), AsOf: a.Now().UTC(), Here: a.countedHere(q.Series), Points: []api.Point{}}
	for _, p := range points {
		out.Points = append(out.Points, api.Point{At: p.At, In: uint64(p.In), Out: uint64(p.Out), Failed: uint64(p.Failed), Oldest: p.Oldest.Seconds()})
	}
	return out, nil
}

// noHistory says why there is none.
func (a *API) noHistory(ctx context.Context, series string) error {
	names, leftOut := a.standing.history.Names()
	switch {
	case a.standing.history.Since().IsZero():
		return operation.Refuse(http.StatusNotFound, "nothing is known of %q yet: this instance has counted nothing so far, ask again in %v", series, figures.Step)
	case leftOut > 0 && sightOf(ctx).all():
		return operation.Refuse(http.StatusNotFound, "nothing is known of %q: %d histories are kept, and %d more are left out", series, len(names), leftOut)
	}
	return operation.Refuse(http.StatusNotFound, "there is no history of %q: there are those of GET %shistory", series, Prefix)
}

// countedHere says whether a series is of a pipeline whose books nobody shares.
func (a *API) countedHere(series string) bool {
	name, ok := strings.CutPrefix(series, pipelineSeries)
	if !ok {
		return false
	}
	for _, s := range a.systems() {
		if s.Books[name] != nil {
			return false
		}
	}
	return true
}
