package admin

import (
	"context"
	"sync"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/queue"
)

// overview answers with what is known, and waits only a moment for what is newer.
func (a *API) overview(ctx context.Context, _ *operation.None) (api.Overview, error) {
	now := a.Now()
	out := api.Overview{AsOf: now.UTC(), Instance: a.This.ID, Version: a.Version, Started: a.Started.UTC(), Balanced: true, Systems: []api.SystemOverview{},
		Attention: []api.Attention{}, RatesSince: answer.When(a.standing.history.Since())}
	may, systems := sightOf(ctx), a.systems()
	shown, books := make([]api.SystemOverview, len(systems)), make([][]booksOf, len(systems))
	var reading sync.WaitGroup // a store that is away is awaited once, not by each system
	for i := range systems {
		if may.of(systems[i].Name) {
			reading.Go(func() { shown[i], books[i] = a.systemOverview(ctx, i) })
		}
	}
	var queues []queue.Standing
	if a.standing.queues != nil {
		reading.Go(func() {
			all, _, _ := a.standing.queues.Get(ctx)
			for i := range all {
				if may.all() || may.of(a.systemOf(all[i].Queue)) {
					queues = append(queues, all[i])
				}
			}
		})
	}
	reading.Wait()
	w := &wanted{now: now}
	for i, s := range shown {
		if s.Name == "" { // the caller may not look at it
			continue
		}
		out.Balanced, out.Systems = out.Balanced && s.Balanced, append(out.Systems, s)
		wantedByBooks(w, s, books[i])
		wantedBySystem(w, &systems[i])
		for _, e := range systems[i].Pipelines {
			a.wantedByPipeline(w, s.Name, e)
		}
	}
	for i := range queues {
		a.wantedByQueue(w, &queues[i])
	}
	out.Attention = w.all()
	if n := len(out.Attention) - attentionMost; n > 0 {
		out.Attention, out.LeftOut = out.Attention[:attentionMost], n
	}
	return out, nil
}

// attentionMost is how much of what wants attention is shown.
const attentionMost = 50

// systemOverview is how a system stands, and its books.
func (a *API) systemOverview(ctx context.Context, i int) (out api.SystemOverview, books []booksOf) {
	s := a.systems()[i]
	out = api.SystemOverview{Name: s.Name, State: stateOf(s), Balanced: true}
	books, at, err := a.standing.books[i].Get(ctx)
	if err != nil {
		out.Unread = err.Error()
	}
	if at.IsZero() {
		return out, nil
	}
	var sum api.Sum
	var rates api.Rates
	known := false
	for _, b := range books {
		if b.letters {
			out.Balanced, out.Dead = out.Balanced && b.off == 0, out.Dead+int64(b.Pending)
			continue
		}
		out.Balanced = out.Balanced && b.off == 0 && b.Lost == 0
		sum.Accepted, sum.Delivered, sum.Skipped, sum.Dead = sum.Accepted+b.Accepted, sum.Delivered+b.Settled.Delivered, sum.Skipped+b.Settled.Skipped, sum.Dead+b.Settled.Dead
		sum.InFlight, sum.Lost, sum.Off = sum.InFlight+b.Pending, sum.Lost+b.Lost, sum.Off+b.off
		if r := a.ratesOf(pipelineSeries + b.pipeline); r != nil {
			known = true
			rates.In, rates.Out, rates.Failed = rates.In+r.In, rates.Out+r.Out, rates.Failed+r.Failed
		}
	}
	if out.Books, out.AsOf = &sum, answer.When(at); known {
		out.Rates = &rates
	}
	return out, books
}

// stateOf is the state of a system: that of its pipeline that is worst off.
func stateOf(s System) string {
	state, rank := flow.Running, map[flow.State]int{flow.Idle: 1, flow.Paused: 2, flow.Stopping: 3, flow.Stopped: 4}
	for _, e := range s.Pipelines {
		if is := e.State(); rank[is] > rank[state] {
			state = is
		}
	}
	return state.String()
}
