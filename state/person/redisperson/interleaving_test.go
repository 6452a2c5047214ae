package redisperson

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Several instances resolve, merge and relay over one store and one cache. A gate lets one
// call of store or cache through at a time, in an order drawn from the seed: so every
// interleaving of calls may come up, and each comes up again with its seed.

// gate holds calls back until they are let through.
type gate struct {
	rnd     *rand.Rand
	mu      sync.Mutex // guards waiting
	waiting []*call
	n       int
}

type call struct {
	name string
	pass chan error
}

// through waits for its turn. An error is what the call is to fail with.
func (g *gate) through(name string) error {
	c := &call{name, make(chan error)}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	return <-c.pass
}

// run lets calls through, one at a time, until none comes any more.
func (g *gate) run(fail func(name string) error) {
	for {
		synctest.Wait()
		g.mu.Lock()
		if len(g.waiting) == 0 {
			g.mu.Unlock()
			return
		}
		slices.SortFunc(g.waiting, func(a, b *call) int { // goroutines arrive in any order
			if a.name < b.name {
				return -1
			}
			return 1
		})
		i := g.rnd.IntN(len(g.waiting))
		c := g.waiting[i]
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.mu.Unlock()
		g.n++
		c.pass <- fail(c.name)
	}
}

// gatedStore is one instance's store.
type gatedStore struct {
	person.Store
	g    *gate
	name string
}

func (s gatedStore) Resolve(ctx context.Context, refs []person.Ref, into []uuid.UUID) error {
	if err := s.g.through(s.name + " asks"); err != nil {
		return err
	}
	return s.Store.Resolve(ctx, refs, into)
}

func (s gatedStore) MergeMoved(ctx context.Context, merges []person.Merge, outcomes []person.Outcome) ([]person.Override, error) {
	if err := s.g.through(s.name + " merges"); err != nil {
		if s.g.rnd.IntN(2) == 0 { // the answer was lost
			_ = s.Store.Merge(ctx, merges, make([]person.Outcome, len(merges)))
		}
		return nil, err
	}
	return s.Store.(person.Mover).MergeMoved(ctx, merges, outcomes)
}

// gatedCache is one instance's connection to a cache that all share.
type gatedCache struct {
	g    *gate
	name string
	m    map[string]string // the gate lets one call through at a time
	rnd  *rand.Rand
}

var errCut = errors.New("connection reset")

// done says whether a failing call takes effect anyway.
func (c gatedCache) through(what string) (do bool, err error) {
	err = c.g.through(c.name + " " + what)
	return err == nil || c.rnd.IntN(2) == 0, err
}

func (c gatedCache) get(_ context.Context, keys []string) (map[string]string, error) {
	if _, err := c.through("gets"); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, k := range keys {
		if v, ok := c.m[k]; ok {
			found[k] = v
		}
	}
	return found, nil
}

func (c gatedCache) add(_ context.Context, keys, values []string) ([]bool, error) {
	do, err := c.through("adds")
	added := make([]bool, len(keys))
	for i, k := range keys {
		if _, there := c.m[k]; do && !there {
			c.m[k], added[i] = values[i], true
		}
	}
	return added, err
}

func (c gatedCache) set(_ context.Context, keys, values []string) error {
	do, err := c.through("sets")
	for i, k := range keys {
		if do {
			c.m[k] = values[i]
		}
	}
	return err
}

// trial is one seed.
type trial struct {
	t       *testing.T
	rnd     *rand.Rand
	g       *gate
	store   *tableperson.Store[*memorytable.Tx]
	shared  map[string]string
	project uuid.UUID
	stores  []*Store
	flushes int
}

const instances, persons = 3, 5

func newTrial(t *testing.T, seed uint64) *trial {
	tr := &trial{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), store: tableperson.Memory(tableperson.Options{}), shared: map[string]string{}, project: uuid.UUID{15: 1}}
	tr.g = &gate{rnd: tr.rnd}
	for i := range instances {
		tr.stores = append(tr.stores, tr.instance(i))
	}
	// Persons with other ids than the derived ones, as an older table has them.
	for i := range persons {
		if i%2 == 0 {
			tr.must(tr.store.Merge(t.Context(), []person.Merge{{Ref: tr.ref("old" + fmt.Sprint(i)), Other: fmt.Sprint(i), Event: uuid.UUID{1: byte(i)}}}, make([]person.Outcome, 1)))
		}
	}
	return tr
}

func (tr *trial) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *trial) instance(i int) *Store {
	name := fmt.Sprint("instance ", i)
	s := newStore(gatedCache{tr.g, name, tr.shared, tr.rnd}, nil, gatedStore{tr.store, tr.g, name}, Options{Prefix: "", Timeout: time.Hour, Pause: time.Nanosecond, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return s
}

func (tr *trial) ref(d string) person.Ref { return person.Ref{Project: tr.project, Distinct: d} }

func (tr *trial) any() person.Ref { return tr.ref(fmt.Sprint(tr.rnd.IntN(persons))) }

// play lets every instance do a few things at once.
func (tr *trial) play(faults bool) {
	type deed struct {
		merge []person.Merge
		refs  []person.Ref
		relay bool
	}
	var wg sync.WaitGroup
	for i, s := range tr.stores {
		for lane := range 2 {
			var deeds []deed
			for n := range 3 {
				switch tr.rnd.IntN(4) {
				case 0, 1:
					deeds = append(deeds, deed{refs: []person.Ref{tr.any(), tr.any()}})
				case 2:
					deeds = append(deeds, deed{merge: []person.Merge{{Ref: tr.any(), Other: tr.any().Distinct, Event: uuid.UUID{2, byte(i), byte(lane), byte(n)}, Force: true}}})
				default:
					deeds = append(deeds, deed{relay: lane == 0})
				}
			}
			wg.Go(func() {
				for _, d := range deeds {
					switch {
					case d.refs != nil:
						ids := make([]uuid.UUID, len(d.refs))
						if s.Resolve(tr.t.Context(), d.refs, ids) == nil {
							for k, r := range d.refs {
								tr.plausible(r, ids[k])
							}
						}
					case d.merge != nil:
						_ = s.Merge(tr.t.Context(), d.merge, make([]person.Outcome, 1))
					case d.relay:
						_, _ = s.Overrides(tr.t.Context(), 1000)
					}
				}
			})
		}
	}
	tr.g.run(func(name string) error {
		if faults && tr.rnd.IntN(6) == 0 {
			return errCut
		}
		if tr.rnd.IntN(25) == 0 {
			clear(tr.shared) // FLUSHALL
			tr.flushes++
		}
		return nil
	})
	wg.Wait()
}

// plausible checks that an id is one that the store had for the ref: never a derived one
// where there was an older one from the start.
func (tr *trial) plausible(r person.Ref, id uuid.UUID) {
	var i int
	_, _ = fmt.Sscan(r.Distinct, &i)
	if i%2 == 0 && id == person.ID(r) {
		var now [1]uuid.UUID
		_ = tr.store.Resolve(context.Background(), []person.Ref{r}, now[:])
		if now[0] != id {
			tr.t.Errorf("%s resolved to the derived id, which the store never gave", r.Distinct)
		}
	}
}

// agree checks that nothing in the cache differs from the store.
func (tr *trial) agree(what string) {
	tr.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(tr.shared)) {
		r := tr.ref(key[len(tr.project.String())+1:])
		var want [1]uuid.UUID
		tr.must(tr.store.Resolve(tr.t.Context(), []person.Ref{r}, want[:]))
		if tr.shared[key] != want[0].String() {
			tr.t.Errorf("%s: the cache has %s for %q, the store %s", what, tr.shared[key], r.Distinct, want[0])
		}
	}
}

func trials(t *testing.T, n uint64, do func(tr *trial)) {
	for seed := range n {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { do(newTrial(t, seed)) })
		})
		if !ok {
			return
		}
	}
}

// Without faults nothing is to be healed: when all are done, the cache is right.
func TestAnyInterleavingEndsInWhatTheStoreSays(t *testing.T) {
	trials(t, 1500, func(tr *trial) {
		tr.play(false)
		tr.agree("at the end")
	})
}

// With calls that fail, done or not, it is right once each instance has looked into the
// outbox.
func TestCallsThatFailAreMadeGood(t *testing.T) {
	trials(t, 1500, func(tr *trial) {
		tr.play(true)
		for _, s := range tr.stores {
			tr.relay(s)
		}
		tr.agree("when all is healed")
	})
}

// relay looks into the outbox, with nothing in the way.
func (tr *trial) relay(s *Store) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2 {
			_, err := s.Overrides(tr.t.Context(), 1000)
			tr.must(err)
			time.Sleep(time.Millisecond) // the pause of a cache that was away
		}
	})
	for done := false; !done; {
		tr.g.run(func(string) error { return nil })
		time.Sleep(time.Millisecond)
		synctest.Wait()
		tr.g.mu.Lock()
		done = len(tr.g.waiting) == 0
		tr.g.mu.Unlock()
	}
	wg.Wait()
}

// A process that dies between a merge and the cache leaves it to the others' look into the
// outbox.
func TestTheOutboxHealsWhatADeadProcessLeft(t *testing.T) {
	trials(t, 300, func(tr *trial) {
		refs := []person.Ref{tr.ref("1"), tr.ref("3")}
		done := make(chan struct{})
		go func() {
			defer close(done)
			tr.must(tr.stores[0].Resolve(tr.t.Context(), refs, make([]uuid.UUID, 2)))
		}()
		tr.g.run(func(string) error { return nil })
		<-done
		tr.must(tr.store.Merge(tr.t.Context(), []person.Merge{{Ref: tr.any(), Other: "1", Event: uuid.UUID{9}, Force: true}}, make([]person.Outcome, 1)))
		tr.relay(tr.stores[1])
		tr.agree("after the look of another")
	})
}
