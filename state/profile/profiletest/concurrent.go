package profiletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// stores are two stores of the same profiles, where the backend can have two.
func (w *world) stores() []profile.Store {
	if w.Other == nil {
		return []profile.Store{w.Store, w.Store}
	}
	return []profile.Store{w.Store, w.Other(w.T)}
}

// race calls do in n goroutines, spread over the stores.
func (w *world) race(n int, do func(g int, r *rand.Rand, s profile.Store)) {
	stores := w.stores()
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for g := range n {
		wg.Go(func() {
			<-begin
			do(g, rand.New(rand.NewPCG(uint64(g), 7)), stores[g%len(stores)])
		})
	}
	close(begin)
	wg.Wait()
	if w.Whole != nil {
		w.Whole(w.T)
	}
}

// owners checks that no identity of the tenant's profiles has two owners, and says how many
// profiles there are.
func (w *world) owners() int {
	w.Helper()
	owner := map[profile.Identity]uuid.UUID{}
	ps := w.all()
	for _, p := range ps {
		if len(p.Identities) == 0 {
			w.Errorf("profile %v has no identity", p.ID)
		}
		for _, i := range p.Identities {
			if before, ok := owner[i]; ok {
				w.Errorf("%v belongs to %v and %v", i, before, p.ID)
			}
			owner[i] = p.ID
		}
	}
	return len(ps)
}

var concurrent = []testcase{
	{"the same new identities at once become one profile each", "instances get the first events of a customer at the same time", func(w *world) {
		const goroutines, customers = 12, 20
		var mu sync.Mutex
		ids, fresh := map[int]uuid.UUID{}, map[int]int{}
		w.race(goroutines, func(_ int, r *rand.Rand, s profile.Store) {
			order := r.Perm(customers)
			asks, answers := make([]profile.Ask, customers), make([]profile.Answer, customers)
			for i, c := range order {
				asks[i] = who(fmt.Sprint("m-", c), fmt.Sprintf("m%d@club.example", c), fmt.Sprint(10000+c))
			}
			if err := s.Resolve(w.Context(), asks, answers); err != nil {
				w.Errorf("Resolve: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, c := range order {
				a := answers[i]
				if before, ok := ids[c]; a.Err != nil || ok && before != a.Profile {
					w.Errorf("customer %d: %+v, before %v", c, a, before)
				}
				if ids[c] = a.Profile; a.New {
					fresh[c]++
				}
			}
		})
		for c := range customers {
			if fresh[c] != 1 {
				w.Errorf("customer %d was new %d times", c, fresh[c])
			}
		}
		if n := w.owners(); n != customers {
			w.Errorf("there are %d profiles, want %d", n, customers)
		}
	}},
	{"identities that overlap in part never have two profiles", "each application knows something else", func(w *world) {
		const goroutines, rounds = 8, 12
		w.race(goroutines, func(_ int, r *rand.Rand, s profile.Store) {
			for range rounds {
				asks := make([]profile.Ask, 1+r.IntN(5))
				for i := range asks {
					var parts [3]string
					for k := range parts {
						if r.IntN(2) == 0 {
							parts[k] = fmt.Sprint(r.IntN(12))
						}
					}
					asks[i] = who(parts[0], "", "")
					if parts[1] != "" {
						asks[i].Email = parts[1] + "@club.example"
					}
					if parts[2] != "" {
						asks[i].Phone = "1000" + parts[2]
					}
				}
				answers := make([]profile.Answer, len(asks))
				if err := s.Resolve(w.Context(), asks, answers); err != nil {
					w.Errorf("Resolve: %v", err)
					return
				}
				for i, a := range answers {
					k := tidemill.KindOf(a.Err)
					if a.Err != nil && k != tidemill.Business && k != tidemill.Validation || a.Err == nil && a.Profile == uuid.Nil {
						w.Errorf("%+v: %+v", asks[i], a)
					}
				}
			}
		})
		w.owners()
	}},
	{"an identity leads to one profile for ever, whoever asks", "an answer is acted upon", func(w *world) {
		const goroutines, emails = 8, 5 // and 24 external ids: fewer than one profile can have
		var mu sync.Mutex
		owner := map[string]uuid.UUID{}
		w.race(goroutines, func(g int, r *rand.Rand, s profile.Store) {
			for i := range 24 {
				email := fmt.Sprintf("m%d@club.example", r.IntN(emails))
				answers := make([]profile.Answer, 1)
				if err := s.Resolve(w.Context(), []profile.Ask{who(fmt.Sprintf("new-%d-%d", g%3, i%8), email, "")}, answers); err != nil {
					w.Errorf("Resolve: %v", err)
					return
				}
				if answers[0].Err != nil {
					continue // another gave the external id to another email
				}
				mu.Lock()
				if before, ok := owner[email]; ok && before != answers[0].Profile {
					w.Errorf("%s led to %v and to %v", email, before, answers[0].Profile)
				}
				owner[email] = answers[0].Profile
				mu.Unlock()
			}
		})
		w.owners()
	}},
	{"no increment is lost, in whatever order profiles are changed", "two instances count for the same customers", func(w *world) {
		const goroutines, rounds, customers = 8, 10, 12
		asks := make([]profile.Ask, customers)
		for i := range asks {
			asks[i] = who(fmt.Sprint("m-", i), "", "")
		}
		got := w.ask(asks...)
		w.race(goroutines, func(g int, r *rand.Rand, s profile.Store) {
			for i := range rounds {
				var cs []profile.Change
				for _, c := range r.Perm(customers) {
					cs = append(cs, change(got[c].Profile, fmt.Sprint(g, i), -1, add("n", "0.1"), set(fmt.Sprint("by", g), fmt.Sprint(i))))
				}
				if err := s.Update(w.Context(), cs); err != nil {
					w.Errorf("Update: %v", err)
					return
				}
			}
		})
		for _, a := range got {
			if v := string(w.get(a.Profile).Attributes["n"]); v != "8.0" {
				w.Errorf("profile %v counted %s, want 8.0", a.Profile, v)
			}
		}
	}},
	{"deleting beside resolving and updating leaves nothing by halves", "a right to be forgotten does not wait for quiet", func(w *world) {
		const goroutines, rounds, customers = 8, 15, 4
		w.race(goroutines, func(g int, r *rand.Rand, s profile.Store) {
			for i := range rounds {
				c := r.IntN(customers)
				answers := make([]profile.Answer, 1)
				if err := s.Resolve(w.Context(), []profile.Ask{who(fmt.Sprint("m-", c), fmt.Sprintf("m%d-%d@club.example", c, r.IntN(3)), fmt.Sprint(10000+c))}, answers); err != nil {
					w.Errorf("Resolve: %v", err)
					return
				}
				id, err := answers[0].Profile, answers[0].Err
				if err != nil {
					w.Errorf("Resolve: %v", err)
					return
				}
				err = s.Update(w.Context(), []profile.Change{change(id, fmt.Sprint(g, i), -1, set("a", "1"))})
				if p, ok := errors.AsType[*tidemill.Partial](err); ok && tidemill.KindOf(p.Failed[0].Err) == tidemill.NotFound {
					err = nil // deleted meanwhile
				}
				if err != nil {
					w.Errorf("Update: %v", err)
				}
				if r.IntN(2) == 0 {
					if _, err := s.Delete(w.Context(), tenant, id); err != nil {
						w.Errorf("Delete: %v", err)
					}
				}
				p, err := s.Find(w.Context(), tenant, ext(fmt.Sprint("m-", c)))
				if err != nil && tidemill.KindOf(err) != tidemill.NotFound || err == nil && len(p.Identities) == 0 {
					w.Errorf("Find: %+v, %v", p, err)
				}
			}
		})
		w.owners()
	}},
	{"transactions that resolve and then update never wait for each other for ever", "handlers do it all the time", func(w *world) {
		if w.Within == nil {
			return
		}
		const goroutines, rounds, customers = 8, 8, 6
		w.race(goroutines, func(g int, r *rand.Rand, _ profile.Store) {
			for i := range rounds {
				var asks []profile.Ask
				for _, c := range r.Perm(customers)[:3] {
					asks = append(asks, who(fmt.Sprint("m-", c), fmt.Sprintf("m%d-%d@club.example", c, r.IntN(10)), ""))
				}
				err := w.Within(w.Context(), fmt.Sprint(g, ".", i), func(ctx context.Context, p profile.Profiles) error {
					answers := make([]profile.Answer, len(asks))
					if err := p.Resolve(ctx, asks, answers); err != nil {
						return err
					}
					var cs []profile.Change
					for _, a := range answers {
						if a.Err != nil {
							return a.Err
						}
						cs = append(cs, change(a.Profile, "e", -1, add("n", "1")))
					}
					return p.Update(ctx, cs)
				})
				if err != nil {
					w.Errorf("Within: %v", err)
					return
				}
			}
		})
		total := 0
		for _, p := range w.all() {
			var n int
			if _, err := fmt.Sscan(string(p.Attributes["n"]), &n); err != nil {
				w.Errorf("%s: %v", p.Object(), err)
			}
			total += n
		}
		if effects := len(w.Effects(w.T)); total != 3*goroutines*rounds || effects != goroutines*rounds || w.owners() != customers {
			w.Errorf("counted %d with %d effects, want %d and %d", total, effects, 3*goroutines*rounds, goroutines*rounds)
		}
	}},
}
