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
	standingFor    = 5 * time.Second        // how all stands is shown that long to everybody of a role
	standingWithin = 900 * time.Millisecond // a page waits that long for it
)

// standing is how all stands, asked for once for all who look at pages.
type standing struct {
	mu   sync.Mutex
	last map[caller.Role]stands
}

type stands struct {
	at  time.Time
	how *api.Overview
	err error
}

// of is how all stands; nil: that is not known.
func (s *standing) of(v *visit) (*api.Overview, error) {
	if !v.may(api.GetOverview.ID) {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.last[v.who.Role]
	if known && v.at.Sub(last.at) < standingFor {
		return last.how, last.err
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), standingWithin)
	defer cancel()
	how, err := api.GetOverview.Call(ctx, v.API, &operation.None{})
	if v.r.Context().Err() != nil { // the browser is gone: the next one asks
		return nil, err
	}
	if s.last == nil {
		s.last = map[caller.Role]stands{}
	}
	s.last[v.who.Role] = stands{v.at, &how, err}
	if err != nil {
		s.last[v.who.Role] = stands{at: v.at, err: err}
	}
	return s.last[v.who.Role].how, err
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
