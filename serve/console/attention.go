package console

import (
	"context"
	"sync"
	"time"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

const (
	standingFor  = 5 * time.Second        // how all stands is shown that long to everybody of a role
	sharedWithin = 900 * time.Millisecond // a page waits that long for what all pages show
)

// shared is what all pages show, asked for once for all of a role who look.
type shared[A any] struct {
	mu   sync.Mutex
	last map[caller.Role]sharing[A]
}

type sharing[A any] struct {
	at  time.Time
	has A
	err error
}

// of is what the API answered not longer ago than so; where it does not answer that is asked again
// after standingFor.
func (s *shared[A]) of(v *visit, old time.Duration, ask func(context.Context) (A, error)) (none A, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.last[v.who.Role]
	if last.err != nil {
		old = standingFor
	}
	if known && v.at.Sub(last.at) < old {
		return last.has, last.err
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), sharedWithin)
	defer cancel()
	has, err := ask(ctx)
	if v.r.Context().Err() != nil { // the browser is gone: the next one asks
		return none, err
	}
	if err != nil {
		has = none
	}
	if s.last == nil {
		s.last = map[caller.Role]sharing[A]{}
	}
	s.last[v.who.Role] = sharing[A]{v.at, has, err}
	return has, err
}

// forget has it asked for anew.
func (s *shared[A]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = nil
}

// stands is how all stands; nil: that is not known.
func (v *visit) stands() (*api.Overview, error) {
	if !v.may(api.GetOverview.ID) {
		return nil, nil
	}
	return v.standing.of(v, standingFor, func(ctx context.Context) (*api.Overview, error) {
		how, err := api.GetOverview.Call(ctx, v.API, &operation.None{})
		return &how, err
	})
}

// running are the operations that are scheduled or run.
func (v *visit) running() []api.Operation {
	if !v.may(api.ListOperations.ID) {
		return nil
	}
	all, _ := v.moves.of(v, activeFor, func(ctx context.Context) ([]api.Operation, error) { return readActive(ctx, v) }) // the page of operations says why
	return all
}

// At is the page of what wants attention.
func (v *view) At(a api.Attention) string {
	switch {
	case a.Kind == "unbalanced" || a.Kind == "unread":
		return address("books")
	case a.Kind == "credentials":
		return address("health")
	case a.Kind == "old_dead_letters":
		return query(address("dead"), map[string][]string{"system": {a.System}, "order": {"oldest"}})
	case a.Queue != "":
		return address("queues", a.Queue)
	case a.Pipeline != "":
		return address("instances") + "#" + a.Pipeline
	}
	return address("instances")
}

// Grave says how a kind of what wants attention is shown.
func (v *view) Grave(kind string) string {
	switch kind {
	case "unbalanced", "unread", "stopped", "credentials", "circuit", "full", "off":
		return "bad"
	}
	return "warn"
}
