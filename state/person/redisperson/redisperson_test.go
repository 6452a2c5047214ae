package redisperson_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/persontest"
	"github.com/tidemill/tidemill/state/person/redisperson"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// quiet hides what a store can do besides.
type quiet struct{ person.Store }

func open(t *testing.T, client rueidis.Client, store person.Store, o redisperson.Options) *redisperson.Store {
	t.Helper()
	if o.Kept == "" {
		o.Kept = testenv.Name("failed_merges:")
	}
	o.TTL = time.Minute // tests leave nothing for longer
	s, err := redisperson.New(client, store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(o.Kept).Build()) })
	return s
}

func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		for name, wrap := range map[string]func(*tableperson.Store[*memorytable.Tx]) person.Store{
			"a store that tells what moved": func(s *tableperson.Store[*memorytable.Tx]) person.Store { return s },
			"a store that does not":         func(s *tableperson.Store[*memorytable.Tx]) person.Store { return quiet{s} },
		} {
			t.Run(name, func(t *testing.T) {
				persontest.Run(t, func(t *testing.T) persontest.Harness {
					return persontest.Harness{Store: open(t, client, wrap(tableperson.Memory(tableperson.Options{})), redisperson.Options{Prefix: testenv.Name("person:") + ":"}),
						Project: func(*testing.T) uuid.UUID { return uuid.New() }}
				})
			})
		}
	})
}

// asked counts what a store is asked for.
type asked struct {
	*tableperson.Store[*memorytable.Tx]
	refs int
}

func (s *asked) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	s.refs += len(refs)
	return s.Store.Resolve(ctx, refs, into)
}

func TestTheKeysAreThoseOfOthers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		store := &asked{Store: tableperson.Memory(tableperson.Options{})}
		s := open(t, client, store, redisperson.Options{})
		p := uuid.New()
		a, b := person.Ref{Project: p, Distinct: "a b:c"}, person.Ref{Project: p, Distinct: "other"}
		key := "person:" + p.String() + ":a b:c"
		resolve := func(r ...person.Ref) []uuid.UUID {
			t.Helper()
			ids := make([]uuid.UUID, len(r))
			if err := s.Resolve(t.Context(), r, ids); err != nil {
				t.Fatal(err)
			}
			return ids
		}
		resolve(a, b, a)
		value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		ttl, terr := client.Do(t.Context(), client.B().Ttl().Key(key).Build()).AsInt64()
		if err != nil || terr != nil || value != person.ID(a).String() || ttl < 50 || ttl > 60 {
			t.Errorf("%s is %q for %d s, %v, %v", key, value, ttl, err, terr)
		}
		before := store.refs
		if got := resolve(a, b, a); got[0] != person.ID(a) || got[2] != got[0] || got[1] != person.ID(b) || store.refs != before {
			t.Errorf("resolved to %v; the store was asked %d more", got, store.refs-before)
		}
		theirs := uuid.New() // another program of the family knows an older id
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value(theirs.String()).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if got := resolve(a)[0]; got != theirs {
			t.Errorf("resolved to %v, want what is there: %v", got, theirs)
		}
		if err := client.Do(t.Context(), client.B().Set().Key(key).Value("junk").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if got := resolve(a)[0]; got != person.ID(a) {
			t.Errorf("resolved junk to %v", got)
		}
		if value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString(); err != nil || value != person.ID(a).String() {
			t.Errorf("junk became %q, %v", value, err)
		}
	})
}

func TestACacheThatIsAwayCostsNoEvent(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, server.Addr)
	var log strings.Builder
	store := tableperson.Memory(tableperson.Options{})
	s := open(t, redistest.Connect(t, "redis://"+link.Addr), store, redisperson.Options{Timeout: 200 * time.Millisecond, Pause: time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	other := open(t, redistest.Connect(t, server.URL), store, redisperson.Options{})
	p := uuid.New()
	u, a := person.Ref{Project: p, Distinct: "u"}, person.Ref{Project: p, Distinct: "a"}
	resolve := func(s *redisperson.Store, r person.Ref) uuid.UUID {
		t.Helper()
		var id [1]uuid.UUID
		if err := s.Resolve(t.Context(), []person.Ref{r}, id[:]); err != nil {
			t.Fatal(err)
		}
		return id[0]
	}
	resolve(s, a)
	for name, cut := range map[string]func(){"refused": link.Refuse, "silent": link.BlackHole} {
		cut()
		m := []person.Merge{{Ref: person.Ref{Project: p, Distinct: "u of " + name}, Other: "a", Event: uuid.New(), At: time.Now(), Force: true}}
		if err := s.Merge(t.Context(), m, make([]person.Outcome, 1)); err != nil {
			t.Fatalf("Merge while the cache is %s: %v", name, err)
		}
		want := person.ID(m[0].Ref)
		if got := resolve(s, a); got != want {
			t.Errorf("%s: resolved to %v, want the survivor %v", name, got, want)
		}
		if st := s.Stats(); st.Failures == 0 || st.Suspect == 0 {
			t.Errorf("%s: %+v", name, st)
		}
		link.Heal()
		for s.Stats().Suspect > 0 { // as the relay does it, until the client has connected again
			if _, err := s.Overrides(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		if got := resolve(other, a); got != want {
			t.Errorf("%s: another instance still resolves to %v, want %v", name, got, want)
		}
	}
	resolve(s, u)
	if !strings.Contains(log.String(), "does not answer") || !strings.Contains(log.String(), "answers again") {
		t.Errorf("log: %s", log.String())
	}
}

func TestFlushingTheCacheDoesNoHarm(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis)
	client := redistest.Connect(t, server.URL)
	store := tableperson.Memory(tableperson.Options{})
	s := open(t, client, store, redisperson.Options{})
	p := uuid.New()
	var refs []person.Ref
	for i := range 100 {
		refs = append(refs, person.Ref{Project: p, Distinct: fmt.Sprint("a", i)})
	}
	ids, want := make([]uuid.UUID, 100), make([]uuid.UUID, 100)
	for range 5 {
		if err := s.Resolve(t.Context(), refs, ids); err != nil {
			t.Fatal(err)
		}
		if err := s.Merge(t.Context(), []person.Merge{{Ref: refs[0], Other: "a1", Event: uuid.New(), At: time.Now()}}, make([]person.Outcome, 1)); err != nil {
			t.Fatal(err)
		}
		if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := s.Resolve(t.Context(), refs, ids); err != nil {
			t.Fatal(err)
		}
		_ = store.Resolve(t.Context(), refs, want)
		for i := range want {
			if ids[i] != want[i] {
				t.Fatalf("%v resolves to %v, want %v", refs[i], ids[i], want[i])
			}
		}
	}
}
