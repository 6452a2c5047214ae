package analyticsapi

import (
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

func (a *API) events(ctx context.Context, q *EventFilter) (iter.Seq2[Event, error], error) {
	id, err := a.ProjectOf(ctx, q.InProject)
	if err != nil {
		return nil, err
	}
	f := warehouse.Filter{Project: id, Distinct: q.Distinct, Name: q.Name}
	f.Person, _ = uuid.Parse(q.Person)          // it is one, or nothing
	if q.Person != "" && f.Person == uuid.Nil { // which a filter has for everybody
		return nil, operation.Refuse(http.StatusBadRequest, "person=%q is nobody's id", q.Person)
	}
	if f.From, f.To, err = answer.Span(q.Span); err != nil {
		return nil, err
	}
	if f.Max, err = q.Most(q.Max); err != nil {
		return nil, err
	}
	ordered := q.Order != "" || q.Limit > 0
	switch {
	case q.Newest > 0 && (f.Max > 0 || ordered):
		return nil, operation.Refuse(http.StatusBadRequest, "newest says how many lines there are, and in which order: leave out max, order and limit, and ask for Accept: application/x-ndjson")
	case q.Follow && ordered:
		return nil, operation.Refuse(http.StatusBadRequest, "follow goes on in the order in which events are stored: leave out order and limit")
	case q.Follow:
		f.Follow, f.Newest = true, q.Newest > 0
		f.Max = max(f.Max, q.Newest)
		return a.follow(ctx, f), nil
	case q.Newest > 0:
		f.Max = q.Newest
		if f.Max > newestMost {
			return nil, operation.Refuse(http.StatusBadRequest, "newest is %d, and at most %d: for more, choose a time, and leave newest out", f.Max, newestMost)
		}
		return a.newest(ctx, f), nil
	case q.Limit > 0:
		if q.Order == "" {
			q.Order = "newest"
		}
		return a.page(ctx, warehouse.Listing{Filter: f, Oldest: !q.Back(), After: q.After()}), nil
	case ordered:
		return a.inTime(ctx, warehouse.Listing{Filter: f, Oldest: !q.Back()}), nil
	}
	return answer.ShownAs(a.Events.Events(ctx, f), shown), nil
}

// shown is an event as the API shows it.
func shown(e *event.Event) Event {
	e.Profile, e.Origin = true, 0 // of the way in, not of the event
	if len(e.Properties) == 0 {
		e.Properties = []byte("{}")
	}
	return Event{Event: e}
}

// follow are events in the order in which they were stored, and those that are stored from now on.
func (a *API) follow(ctx context.Context, f warehouse.Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		if a.Stopping != nil {
			defer context.AfterFunc(a.Stopping, end)()
		}
		for e, err := range answer.ShownAs(a.Events.Events(ctx, f), shown) {
			if err != nil && ctx.Err() != nil { // the client is gone, or this instance stops
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// page is one page, which may end early.
func (a *API) page(ctx context.Context, l warehouse.Listing) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		got, err := a.Events.List(ctx, l)
		for i, e := range got.Events {
			one := shown(e)
			if one.key = got.Keys[i]; !yield(one, nil) {
				return
			}
		}
		if err == nil && got.Rest != "" {
			err = &operation.Rest{Key: got.Rest}
		}
		if err != nil {
			yield(Event{}, answer.Answerable(err))
		}
	}
}

// atOnce is how many events of a long listing are read at once.
const atOnce = 1000

// inTime are events in the order of their times, to the end or as many as are wanted.
func (a *API) inTime(ctx context.Context, l warehouse.Listing) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		left, all := l.Max, l.Max == 0
		for all || left > 0 {
			if l.Max = atOnce; !all {
				l.Max = min(atOnce, left)
			}
			got, err := a.Events.List(ctx, l)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range got.Events {
				if !yield(shown(e), nil) {
					return
				}
			}
			left -= len(got.Events)
			switch {
			case got.Rest != "":
				l.After = got.Rest
			case len(got.Events) == l.Max:
				l.After = got.Keys[l.Max-1]
			default:
				return
			}
		}
	}
}

// newestMost is how many of the newest events can be asked for: they are all in memory, to be turned
// round.
const newestMost = 10_000

// newest are the last events by their times, the last of them last.
func (a *API) newest(ctx context.Context, f warehouse.Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var all []Event
		for e, err := range a.inTime(ctx, warehouse.Listing{Filter: f}) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			all = append(all, e)
		}
		for _, e := range slices.Backward(all) {
			if !yield(e, nil) {
				return
			}
		}
	}
}
