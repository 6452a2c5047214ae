// Package handler has what handles events: Go functions, for one event or for many at a time,
// in a database transaction if they share the database with the sync log, and a preset that
// keeps attributes of profiles up to date. Package webhook has the handler that is an HTTP
// endpoint. Use [Try] to test a handler without any server.
//
//	welcome := handler.Spec{
//		Name:  "welcome",
//		Types: []string{"member.created"},
//		Handler: handler.Func(func(ctx context.Context, c *handler.Call) error {
//			return mail(ctx, c.Event.Identity.Email)
//		}),
//	}
//
// The kind of a handler's error says what follows (tidemill.Fail makes one):
//
//	none given, transient    it is tried again, with growing waits; after the last try dead
//	not_found, timeout       likewise
//	internal (a panic)       likewise
//	validation               the event is logged and skipped
//	business                 the event is dead at once
//
// A handler is called once for each event that it accepts, and once more for each replay of it.
// If its effects are in the transaction that ends the event ([InTransaction]), that always
// holds. Otherwise it may be called again for an event that it has handled
//
//   - when its process dies, or stalls for longer than the lease, between the effect
//     and its being written down;
//   - when the sync log cannot be reached for as long after the effect.
//
// [Call.Key] is the same for both calls, so that a receiver can recognise the second.
// [Call.Token] is greater in the second, so that the receiver can refuse late requests of the
// first.
//
// A handler must heed its context. It is abandoned a grace after the context has ended, and may
// then run beside its own repetition.
package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/route"
)

// A Call is one event for a handler, which may keep it.
type Call struct {
	Event   event.Event
	Profile uuid.UUID // the profile of the event
	New     bool      // the profile was made for this event
	Attempt int       // from 1
	Replay  string    // the replay that asked for it; empty: not a replay

	Trace *tidemill.Trace // of the event, under which a request goes on; nil: it is not followed

	// Entry is a copy of the event's entry in the sync log. The handler's own transaction may
	// end it (InTransaction), with the Result that it has here. Nil: the event has none.
	// Committed says that it did.
	Entry     *ledger.Entry
	Committed bool
}

// Key names the work that has to be done once: it is the same for all attempts of an event, and
// differs for each replay of it.
func (c *Call) Key() string {
	key := c.Event.Tenant + "/" + c.Event.ID
	if c.Replay != "" {
		key += "~" + c.Replay
	}
	return key
}

// Token grows each time that a worker takes the event, and so tells a call from an older one
// that comes late. 0: there is no sync log.
func (c *Call) Token() uint64 {
	if c.Entry == nil {
		return 0
	}
	return c.Entry.Token
}

// A Handler handles events.
type Handler interface {
	// Handle handles the calls. Nil: all are done. A *tidemill.Partial names those that are
	// not, by their index. Any other error means that none is. If its kind says something about
	// events (validation, not_found, business, internal, or a panic) the call is repeated in
	// halves, to find the events that cause it.
	Handle(ctx context.Context, calls []*Call) error
}

// Func is a handler of one event at a time.
type Func func(ctx context.Context, c *Call) error

// Handle implements Handler.
func (f Func) Handle(ctx context.Context, calls []*Call) error {
	var p tidemill.Partial
	for i, c := range calls {
		if err := f(ctx, c); err != nil {
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: err})
		}
	}
	if p.Failed != nil {
		return &p
	}
	return nil
}

// Batch is a handler of many events at a time.
type Batch func(ctx context.Context, calls []*Call) error

// Handle implements Handler.
func (f Batch) Handle(ctx context.Context, calls []*Call) error { return f(ctx, calls) }

// Spec says which events a handler is for.
type Spec struct {
	Name    string   // in logs and errors
	Types   []string // of events: names, and patterns such as member.*; names go first
	Handler Handler
	Many    int           // most events in one call; 0: 1
	Timeout time.Duration // of one call; 0: 10s
}

// Bounds of a Spec.
const (
	DefaultTimeout = 10 * time.Second
	MaxTimeout     = 15 * time.Minute
	MaxMany        = 1000
)

func (s Spec) withDefaults() (Spec, error) {
	s.Many, s.Timeout = cmp.Or(s.Many, 1), cmp.Or(s.Timeout, DefaultTimeout)
	switch {
	case s.Name == "":
		return s, errors.New("a handler needs a name")
	case s.Handler == nil || len(s.Types) == 0:
		return s, fmt.Errorf("handler %s: want something to call, and the types of events that it is for", s.Name)
	case s.Many < 0 || s.Many > MaxMany:
		return s, fmt.Errorf("handler %s: %d events in one call: want 1 to %d", s.Name, s.Many, MaxMany)
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return s, fmt.Errorf("handler %s: a timeout of %v: want at most %v", s.Name, s.Timeout, MaxTimeout)
	}
	return s, nil
}

// A Set finds handlers by the types of events. It is safe for concurrent use.
type Set struct {
	specs []*Spec
	types *route.Optional[*Spec]
}

// NewSet makes a Set. It refuses two handlers for one type, or of one name. A prefix of types
// is optional, in specs and in events: see route.Optional.
func NewSet(prefixes []string, specs ...Spec) (*Set, error) {
	types, err := route.NewOptional[*Spec](prefixes)
	if err != nil {
		return nil, fmt.Errorf("handlers: %w", err)
	}
	s, names := &Set{types: types}, map[string]bool{}
	for _, spec := range specs {
		spec, err := spec.withDefaults()
		if err != nil {
			return nil, err
		}
		if names[spec.Name] {
			return nil, fmt.Errorf("handler %s: another has that name", spec.Name)
		}
		names[spec.Name] = true
		s.specs = append(s.specs, &spec)
		for _, typ := range spec.Types {
			if err := s.types.Add(typ, &spec); err != nil {
				return nil, fmt.Errorf("handler %s: %w", spec.Name, err)
			}
		}
	}
	return s, nil
}

// Find returns the handler for a type, and the name or pattern that matched.
func (s *Set) Find(typ string) (spec *Spec, pattern string, ok bool) { return s.types.Find(typ) }

// Longest is the longest timeout of a call.
func (s *Set) Longest() time.Duration {
	d := DefaultTimeout
	for _, spec := range s.specs {
		d = max(d, spec.Timeout)
	}
	return d
}

// Rules say what a kind of failure means for an event. Transient and timeout are the handler's.
// partner_error comes from the databases that the system itself needs: it does not count as a
// try, and while it lasts nothing is handed out. Unknown is an event that has killed its
// workers too often.
func Rules() policy.Table {
	again := policy.Rule{Do: policy.Retrying, CountTry: true}
	return policy.Table{
		tidemill.Validation:  {Do: policy.Skip},
		tidemill.NotFound:    again,
		tidemill.Business:    {Do: policy.Dead},
		tidemill.Timeout:     again,
		tidemill.RateLimit:   again,
		tidemill.Partner:     {Do: policy.Retrying, Blames: true},
		tidemill.Credentials: again,
		tidemill.Transient:   again,
		tidemill.Internal:    again,
		tidemill.Unknown:     {Do: policy.Dead},
	}
}

// named turns a handler's error into one of the kinds that a handler may return. Any other
// failure at its receiver is transient.
func named(err error) error {
	kind := tidemill.KindOf(err)
	e, ok := errors.AsType[*tidemill.Error](err)
	switch kind {
	case tidemill.Validation, tidemill.NotFound, tidemill.Business, tidemill.Timeout, tidemill.Transient, tidemill.Internal:
		if ok {
			return err
		}
	default:
		kind = tidemill.Transient
	}
	named := &tidemill.Error{Kind: kind, Err: err}
	if ok {
		named.After = e.After
	}
	return named
}
