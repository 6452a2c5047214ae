package page

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

const (
	standingFor  = 5 * time.Second        // how all stands is shown that long to everybody of the same rights
	sharedWithin = 900 * time.Millisecond // a page waits that long for what all pages show
)

// shared is what all pages show, asked for once for all of a role who look.
type shared[A any] struct {
	mu   sync.Mutex
	last map[caller.Rights]sharing[A]
}

type sharing[A any] struct {
	at  time.Time
	has A
	err error
}

// of is what the API answered not longer ago than old, within that time; where it does not answer that is asked again
// after standingFor.
func (s *shared[A]) of(v *Visit, old, within time.Duration, ask func(context.Context) (A, error)) (none A, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.last[v.Caller.Rights]
	if last.err != nil {
		old = standingFor
	}
	if known && v.At.Sub(last.at) < old {
		return last.has, last.err
	}
	ctx, cancel := context.WithTimeout(v.R.Context(), within)
	defer cancel()
	has, err := ask(ctx)
	if v.R.Context().Err() != nil { // the browser is gone: the next one asks
		return none, err
	}
	if err != nil {
		has = none
	}
	if s.last == nil {
		s.last = map[caller.Rights]sharing[A]{}
	}
	s.last[v.Caller.Rights] = sharing[A]{v.At, has, err}
	return has, err
}

// forget has it asked for anew.
func (s *shared[A]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// Stands is how all stands; nil: that is not known.
func (v *Visit) Stands() (*api.Overview, error) {
	if !v.May(api.GetOverview.ID) {
		return nil, nil
	}
	return v.standing.of(v, standingFor, sharedWithin, func(ctx context.Context) (*api.Overview, error) {
		how, err := api.GetOverview.Call(ctx, v.API, &operation.None{})
		return &how, err
	})
}

// Queues are all queues, as they stood not longer ago than two seconds: however many look, they are read
// once. Who changes something sees that.
func (v *Visit) Queues() Part[[]api.Queue] {
	all, err := v.queues.of(v, queuesFor, readWithin, func(ctx context.Context) ([]api.Queue, error) {
		var all []api.Queue
		for q, err := range api.ListQueues.Each(ctx, v.API, &operation.None{}) {
			if err != nil {
				return nil, err
			}
			all = append(all, *q)
		}
		return all, nil
	})
	return Part[[]api.Queue]{Has: slices.Clone(all), Problem: Problem(err)}
}

// running are the operations that are scheduled or run.
func (v *Visit) running() []api.Operation {
	if !v.May(api.ListOperations.ID) {
		return nil
	}
	all, _ := v.moves.of(v, activeFor, sharedWithin, func(ctx context.Context) ([]api.Operation, error) { return readActive(ctx, v) }) // the page of operations says why
	return all
}

// How long what was read is shown to everybody: operations that are active, and queues, of which all
// are counted.
const (
	activeFor = time.Second
	queuesFor = 2 * time.Second
)

// mostActive is how many of them pages show.
const mostActive = 5

// readActive are the operations that are scheduled or run.
func readActive(ctx context.Context, v *Visit) ([]api.Operation, error) {
	p, err := api.ListOperations.Page(ctx, v.API, &api.OperationFilter{State: "active", Page: operation.Page{Order: "newest", Limit: mostActive}})
	return p.Items, err
}

// changesShown is how many last changes of a thing its page shows.
const changesShown = 5

// LastChanges are the last changes of a thing, and by whom. With operations they are those by them, also of
// what is in the thing, or of any where that is empty.
func LastChanges(v *Visit, thing string, operations ...string) *Part[[]api.Change] {
	return ChangesOf(v, &api.ChangesOf{Thing: thing, Operation: operations})
}

// ChangesOf are the last changes that are chosen, as many as a page shows; nil: they may not be seen.
func ChangesOf(v *Visit, q *api.ChangesOf) *Part[[]api.Change] {
	if !v.May(api.ListChanges.ID) {
		return nil
	}
	p := Look(v, func(context.Context) ([]api.Change, error) {
		q.Max = changesShown
		all, _, err := Gather(v, api.ListChanges, q, changesShown)
		return all, err
	})
	return &p
}
