// Package profiletest holds every promise of the profile role as a case that each backend
// passes. A backend's whole test is one call of Run.
package profiletest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// A Harness is a new, empty store of the backend under test.
type Harness struct {
	Store profile.Store
	// Other opens the same profiles once more, as another process would. Nil: only one
	// process can.
	Other func(t *testing.T) profile.Store
	// Reopen ends the process as a crash would, as far as a test can, and opens the durable
	// data anew. Nil: nothing is durable.
	Reopen func(t *testing.T) profile.Store
	// Within calls do in a transaction that also writes an effect of that name, as a
	// ledger's Within does, and commits both if do returns nil. Effects are the committed
	// ones. Nil: the store is not profile.Transactional.
	Within  func(ctx context.Context, effect string, do func(ctx context.Context, p profile.Profiles) error) error
	Effects func(t *testing.T) []string
	// Whole checks that the database has no identities without a profile, and no profiles
	// without one. Nil: the harness cannot check.
	Whole func(t *testing.T)
	Close func() // before the end of the test, for suites that open many; nil: nothing to close
}

// Open opens a store with these options; Now is always given.
type Open func(t *testing.T, o profile.Options) Harness

// Clock is a clock that stands still until it is moved.
type Clock struct{ ms atomic.Int64 }

// NewClock starts at an instant of a plain day.
func NewClock() *Clock {
	c := new(Clock)
	c.ms.Store(start.UnixMilli())
	return c
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Now reads the clock.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.ms.Load()).UTC() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

type testcase struct {
	name   string
	reason string
	do     func(w *world)
}

// Run runs all cases, each on its own store.
func Run(t *testing.T, open Open) {
	for _, c := range slices.Concat(resolving, limits, updating, refusing, reading, concurrent, durable, within) {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("why it matters: %s", c.reason)
				}
			}()
			c.do(newWorld(t, open, profile.Options{}))
		})
	}
	t.Run("behaves as its model over random histories", func(t *testing.T) { follows(t, open) })
}

// world is what a case works with.
type world struct {
	*testing.T
	Harness
	open  Open
	clock *Clock
}

func newWorld(t *testing.T, open Open, o profile.Options) *world {
	c := NewClock()
	o.Now = c.Now
	return &world{t, open(t, o), open, c}
}

const tenant = "club-1"

// who makes an ask that may create: external id, email, phone.
func who(external, email, phone string) profile.Ask {
	return profile.Ask{Tenant: tenant, Create: true, Identities: profile.Identities{External: external, Email: email, Phone: phone}}
}

// known makes an ask that may not create.
func known(external, email, phone string) profile.Ask {
	a := who(external, email, phone)
	a.Create = false
	return a
}

// ask resolves in one call.
func (w *world) ask(asks ...profile.Ask) []profile.Answer {
	w.Helper()
	answers := make([]profile.Answer, len(asks))
	if err := w.Store.Resolve(w.Context(), asks, answers); err != nil {
		w.Fatalf("Resolve %+v: %v", asks, err)
	}
	return answers
}

// created resolves an ask that must create a profile.
func (w *world) created(a profile.Ask) uuid.UUID {
	w.Helper()
	got := w.ask(a)[0]
	if got.Err != nil || !got.New || got.Profile == uuid.Nil {
		w.Fatalf("Resolve %+v: %+v, want a new profile", a, got)
	}
	return got.Profile
}

// found resolves asks one by one that must find a profile.
func (w *world) found(id uuid.UUID, asks ...profile.Ask) {
	w.Helper()
	for _, a := range asks {
		if got := w.ask(a)[0]; got != (profile.Answer{Profile: id}) {
			w.Errorf("Resolve %+v: %+v, want %v", a, got, id)
		}
	}
}

// refused checks the error of an answer or of a change.
func (w *world) refused(err error, kind tidemill.Kind, is error) {
	w.Helper()
	if !errors.Is(err, is) || tidemill.KindOf(err) != kind {
		w.Errorf("got the error %v (%v), want %v (%v)", err, tidemill.KindOf(err), is, kind)
	}
}

// ambiguous checks that an answer names these profiles.
func (w *world) ambiguous(got profile.Answer, ids ...uuid.UUID) {
	w.Helper()
	e, ok := errors.AsType[*profile.AmbiguousError](got.Err)
	if !ok || !slices.Equal(e.Profiles, ids) || len(e.Kinds) != len(ids) || tidemill.KindOf(got.Err) != tidemill.Business || got.Profile != uuid.Nil || got.New {
		w.Errorf("got %+v, want ambiguous between %v", got, ids)
	}
}

func (w *world) get(id uuid.UUID) *profile.Profile {
	w.Helper()
	p, err := w.Store.Get(w.Context(), tenant, id)
	if err != nil {
		w.Fatalf("Get %v: %v", id, err)
	}
	return p
}

// has checks the identities of a profile: kind and value as they are written.
func (w *world) has(id uuid.UUID, want ...profile.Identity) {
	w.Helper()
	if got := w.get(id).Identities; !slices.Equal(got, want) {
		w.Errorf("profile %v has %v, want %v", id, got, want)
	}
}

func ext(v string) profile.Identity   { return profile.Identity{Kind: profile.External, Value: v} }
func mail(v string) profile.Identity  { return profile.Identity{Kind: profile.Email, Value: v} }
func phone(v string) profile.Identity { return profile.Identity{Kind: profile.Phone, Value: v} }

// all is every profile of the tenant, by pages.
func (w *world) all() (ps []*profile.Profile) {
	w.Helper()
	after := uuid.Nil
	for {
		page, err := w.Store.List(w.Context(), tenant, after, 3)
		if err != nil {
			w.Fatalf("List after %v: %v", after, err)
		}
		if len(page) == 0 {
			return ps
		}
		ps, after = append(ps, page...), page[len(page)-1].ID
	}
}

// change is a change of one profile, seconds after start.
func change(id uuid.UUID, event string, seconds int, as ...profile.Attribute) profile.Change {
	return profile.Change{Tenant: tenant, Profile: id, Event: event, At: start.Add(time.Duration(seconds) * time.Second), Attributes: as}
}

func set(key, value string) profile.Attribute {
	return profile.Attribute{Op: profile.Set, Key: key, Value: []byte(value)}
}

func once(key, value string) profile.Attribute {
	return profile.Attribute{Op: profile.Once, Key: key, Value: []byte(value)}
}

func add(key, value string) profile.Attribute {
	return profile.Attribute{Op: profile.Add, Key: key, Value: []byte(value)}
}

func unset(key string) profile.Attribute { return profile.Attribute{Op: profile.Unset, Key: key} }

func arrived(a profile.Attribute) profile.Attribute {
	a.Arrival = true
	return a
}

// update updates in one call, all of which must be applied.
func (w *world) update(changes ...profile.Change) {
	w.Helper()
	if err := w.Store.Update(w.Context(), changes); err != nil {
		w.Fatalf("Update %+v: %v", changes, err)
	}
}

// failures updates in one call and returns the errors by index.
func (w *world) failures(changes ...profile.Change) map[int]error {
	w.Helper()
	err := w.Store.Update(w.Context(), changes)
	failed := map[int]error{}
	p, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		if err != nil {
			w.Fatalf("Update: %v, want a Partial", err)
		}
		return failed
	}
	for i, f := range p.Failed {
		if i > 0 && f.Index <= p.Failed[i-1].Index {
			w.Errorf("failures are not in order: %+v", p.Failed)
		}
		failed[f.Index] = f.Err
	}
	return failed
}

// holds checks the attributes of a profile as one JSON object.
func (w *world) holds(id uuid.UUID, want string) {
	w.Helper()
	if got := string(w.get(id).Object()); got != want {
		w.Errorf("profile %v has the attributes %s, want %s", id, got, want)
	}
}
