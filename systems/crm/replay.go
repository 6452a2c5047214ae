package crm

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// ReplayRequest says which events of the sync log are handled once more, whatever became of
// them before. Zero fields match all.
type ReplayRequest struct {
	// ID names the request, at most 64 of A-Z a-z 0-9 . _ -: the same request sent again is the
	// same replay, and runs once. Empty: a name is made.
	ID       string
	From, To time.Time // when events were first taken up, both ends included, to the millisecond; none is later than the request
	Tenant   string
	Type     string
}

// States of a replay.
const (
	ReplayRunning  = "running"  // its jobs are being put into the queue
	ReplayStopping = "stopping" // it was stopped, and has not noticed yet
	ReplayEnded    = "stopped"
	ReplayDone     = "done" // all its jobs are in the queue, or were worked on
)

// Replay is a request with its progress.
type Replay struct {
	ReplayRequest
	State   string
	Asked   time.Time
	Ended   time.Time // zero: not yet
	Queued  int       // jobs put into the queue
	Reached time.Time // when the last queued event was first taken up; zero: none yet
	// Share is how far it has come in its span of time, 0 to 1.
	Share float64
}

// Errors of replays.
var (
	ErrReplayTaken = errors.New("another replay has that name: its dates, tenant or type differ")
	ErrNoReplay    = errors.New("there is no such replay")
)

// asked is a request as it is kept. Times are milliseconds since 1970; 0: from the beginning.
type asked struct {
	From   int64  `json:"from"`
	To     int64  `json:"to"`
	Tenant string `json:"tenant,omitempty"`
	Type   string `json:"type,omitempty"`
}

// progress is a replay's progress as it is kept: the position of the last event whose job is in
// the queue.
type progress struct {
	Queued  int    `json:"queued"`
	Reached int64  `json:"reached,omitempty"`
	After   string `json:"after,omitempty"`
	Stopped bool   `json:"stopped,omitempty"`
}

// stopKey is the entry that stops a replay. The names of replays have no slash.
func stopKey(id string) string { return "stop/" + id }

// Replay requests that events are handled once more. The system puts their jobs into the queue,
// at most Options.ReplayAhead at a time, with the lowest priority, also after a crash; each
// event of the request once. The request is durable when Replay returns.
func (s *System) Replay(ctx context.Context, r ReplayRequest) (*Replay, error) {
	now := s.o.Now()
	if err := r.Check(now); err != nil {
		return nil, err
	}
	a := asked{To: ledger.Instant(now).UnixMilli(), Tenant: r.Tenant, Type: r.Type}
	if !r.From.IsZero() {
		a.From = r.From.UnixMilli()
		if time.UnixMilli(a.From).Before(r.From) {
			a.From++
		}
	}
	print := sha256.Sum256(fmt.Appendf(nil, "%d %d %q %q", a.From, r.To.UnixMilli(), a.Tenant, a.Type)) // To as it was given
	if !r.To.IsZero() {
		a.To = min(a.To, r.To.UnixMilli())
	}
	if r.ID = cmp.Or(r.ID, s.replays.name()); r.ID == "" {
		r.ID = strings.ToLower(rand.Text())
	}
	payload, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("write a replay: %w", err)
	}
	e := &ledger.Entry{Key: r.ID, Tenant: r.Tenant, Type: r.Type, Payload: payload, Print: print[:]}
	if err := s.p.Replays.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{Lease: replayLease}); err != nil {
		return nil, fmt.Errorf("ask for replay %s: %w", r.ID, err)
	}
	switch {
	case e.State == ledger.Conflict:
		return nil, tidemill.Fail(tidemill.Business, "replay %s: %w", r.ID, ErrReplayTaken)
	case e.State == ledger.Fresh && e.Tries == 1: // it is new: any instance goes on with it
		e.State, e.Err = ledger.Failed, "waits"
		if err := s.p.Replays.End(ctx, []*ledger.Entry{e}); err != nil {
			return nil, fmt.Errorf("ask for replay %s: %w", r.ID, err)
		}
	case e.State == ledger.Fresh: // it existed, and waits: leave it as it was
		if err := s.putBack(ctx, e); err != nil {
			return nil, err
		}
	}
	return s.ReplayOf(ctx, r.ID)
}

// putBack ends an entry of a replay as it was before it was begun.
func (s *System) putBack(ctx context.Context, e *ledger.Entry) error {
	was := &ledger.Entry{Key: e.Key}
	err := s.p.Replays.Find(ctx, []*ledger.Entry{was})
	if err == nil {
		e.State, e.Err, e.Result = ledger.Failed, "waits", was.Result
		err = s.p.Replays.End(ctx, []*ledger.Entry{e})
	}
	if err != nil {
		return fmt.Errorf("ask for replay %s: %w", e.Key, err)
	}
	return nil
}

// Check refuses, with kind validation, an invalid request, by the current time.
func (r *ReplayRequest) Check(now time.Time) error {
	wrong := ""
	switch {
	case len(r.ID) > 64 || r.ID != "" && !event.ValidTenant(r.ID):
		wrong = "its name: want at most 64 of A-Z a-z 0-9 . _ -"
	case r.Tenant != "" && !event.ValidTenant(r.Tenant):
		wrong = "no tenant is called so"
	case r.Type != "" && !event.ValidType(r.Type):
		wrong = "no type is called so; patterns are not possible here"
	case !r.From.IsZero() && !r.To.IsZero() && r.To.Before(r.From):
		wrong = "it ends before it begins"
	case r.From.After(now):
		wrong = "it begins at " + r.From.UTC().Format(time.RFC3339) + ", which is still to come"
	}
	if wrong != "" {
		return tidemill.Fail(tidemill.Validation, "replay %.80q: %s", r.ID, wrong)
	}
	return nil
}

// ReplayOf is one replay: ErrNoReplay, of kind not_found, if it is unknown.
func (s *System) ReplayOf(ctx context.Context, id string) (*Replay, error) {
	e, stop := &ledger.Entry{Key: id}, &ledger.Entry{Key: stopKey(id)}
	if !event.ValidTenant(id) {
		return nil, noReplay(id)
	}
	if err := s.p.Replays.Find(ctx, []*ledger.Entry{e, stop}); err != nil {
		return nil, fmt.Errorf("look for replay %s: %w", id, err)
	}
	if e.State == 0 {
		return nil, noReplay(id)
	}
	return shown(e, stop.State != 0)
}

func noReplay(id string) error {
	return tidemill.Fail(tidemill.NotFound, "replay %.80q: %w", id, ErrNoReplay)
}

// Replays are all known replays, the newest first.
func (s *System) Replays(ctx context.Context) ([]*Replay, error) {
	var entries []*ledger.Entry
	stopped := map[string]bool{}
	for e, err := range s.p.Replays.Range(ctx, ledger.Filter{}) {
		if err != nil {
			return nil, fmt.Errorf("list replays: %w", err)
		}
		if id, ok := strings.CutPrefix(e.Key, stopKey("")); ok {
			stopped[id] = true
			continue
		}
		entries = append(entries, e)
	}
	all := make([]*Replay, 0, len(entries))
	for _, e := range entries {
		r, err := shown(e, stopped[e.Key])
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.Reverse(all)
	return all, nil
}

// read reads a replay as it is kept.
func read(e *ledger.Entry) (a asked, p progress, err error) {
	if err = json.Unmarshal(e.Payload, &a); err == nil && len(e.Result) > 0 {
		err = json.Unmarshal(e.Result, &p)
	}
	if err != nil {
		err = fmt.Errorf("read replay %s: %w", e.Key, err)
	}
	return a, p, err
}

func shown(e *ledger.Entry, stopped bool) (*Replay, error) {
	a, p, err := read(e)
	if err != nil {
		return nil, err
	}
	r := &Replay{ReplayRequest: ReplayRequest{ID: e.Key, To: time.UnixMilli(a.To).UTC(), Tenant: a.Tenant, Type: a.Type},
		State: ReplayRunning, Asked: e.Created, Queued: p.Queued}
	if a.From != 0 {
		r.From = time.UnixMilli(a.From).UTC()
	}
	if p.Reached != 0 {
		r.Reached = time.UnixMilli(p.Reached).UTC()
		if all := a.To - a.From; all > 0 && a.From != 0 {
			r.Share = float64(p.Reached-a.From) / float64(all)
		}
	}
	switch {
	case e.State == ledger.Done && p.Stopped:
		r.State, r.Ended = ReplayEnded, e.Ended
	case e.State == ledger.Done:
		r.State, r.Ended, r.Share = ReplayDone, e.Ended, 1
	case stopped:
		r.State = ReplayStopping
	}
	return r, nil
}

// StopReplay stops a replay: no more of its jobs are made, and those that wait are skipped in
// turn. One that has ended stays unchanged.
func (s *System) StopReplay(ctx context.Context, id string) error {
	r, err := s.ReplayOf(ctx, id)
	if err != nil {
		return err
	}
	if r.State == ReplayEnded {
		return nil
	}
	e := &ledger.Entry{Key: stopKey(id)}
	if err = s.p.Replays.Begin(ctx, []*ledger.Entry{e}, ledger.Begin{Lease: replayLease}); err == nil && e.State == ledger.Fresh {
		e.State = ledger.Done
		err = s.p.Replays.End(ctx, []*ledger.Entry{e})
	}
	if err != nil {
		return fmt.Errorf("stop replay %s: %w", id, err)
	}
	s.replays.forget(id)
	return nil
}
