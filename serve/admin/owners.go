package admin

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

const (
	ownersMost   = 1000 // of each queue, and of all
	ownersFresh  = 10 * time.Second
	ownersOldest = 3 * time.Minute // where reading takes long
	ownersWithin = 30 * time.Second
	depthsMost   = 10 * time.Second       // how old those of one queue, and those of one owner, may be where reading takes long
	depthsKept   = 1000                   // queues, and owners, whose are kept
	ownedAwaited = 15 * time.Millisecond  // the count of an owner's dead letters: a page has 50
	ownedWithin  = 300 * time.Millisecond // after which counting them is given up
)

// owning is whose jobs wait, and who has dead letters.
type owning struct {
	queues []ownersOf
	dead   []deadletter.Owner
	all    []api.OwnerInList // of all queues and pipelines
}

// ownersOf are the owners with the most jobs of a queue.
type ownersOf struct {
	queue string
	queue.Settings
	deepest []queue.Depth
}

// newOwners are those of all queues and pipelines, read while somebody asks.
func (a *API) newOwners(s *standing) *figures.Latest[*owning] {
	return &figures.Latest[*owning]{Read: a.readOwners, Fresh: ownersFresh, Most: ownersOldest, Good: ownersOldest, Wait: booksWithin, Within: ownersWithin, In: &s.readings}
}

// lookAtDepths says how the tenants of a queue, and the queues of an owner, are read while somebody asks.
func (a *API) lookAtDepths(s *standing) {
	keyed := func(of *figures.Keyed[string, []queue.Depth], read func(context.Context, string) ([]queue.Depth, error)) {
		of.Kept = depthsKept
		of.Make = func(key string) *figures.Latest[[]queue.Depth] {
			return &figures.Latest[[]queue.Depth]{Read: func(ctx context.Context) ([]queue.Depth, error) { return read(ctx, key) },
				Most: depthsMost, Share: longShare, Wait: booksWithin, Within: booksWithin, In: &s.readings}
		}
	}
	keyed(&s.deepest, func(ctx context.Context, name string) ([]queue.Depth, error) {
		return a.Queues.Tenants(ctx, name, api.TenantsOfAQueue)
	})
	keyed(&s.depths, func(ctx context.Context, owner string) ([]queue.Depth, error) { return a.Queues.Tenant(ctx, owner) })
	s.owned.Kept = depthsKept
	s.owned.Make = func(of owned) *figures.Latest[operation.Count] {
		return &figures.Latest[operation.Count]{Read: func(ctx context.Context) (operation.Count, error) { return a.countOwned(ctx, of) },
			Most: ownersOldest, Share: longShare, Good: ownersOldest, Wait: ownedAwaited, Within: booksWithin, In: &s.readings}
	}
}

// owned are the dead letters of an owner in the systems that somebody may look at; empty: in all.
type owned struct{ owner, systems string }

// countOwned counts them for a moment: to a thousand of each store.
func (a *API) countOwned(ctx context.Context, of owned) (n operation.Count, err error) {
	f := deadletter.Filter{Tenant: of.owner, Max: ownersMost}
	if of.systems != "" {
		f.Only = func(pipeline string) bool {
			system := a.systemOf(pipeline)
			return system != "" && strings.Contains(of.systems, " "+system+" ")
		}
	}
	stores, err := a.stores("", f)
	if err != nil {
		return n, err
	}
	ctx, cancel := context.WithTimeout(ctx, ownedWithin)
	defer cancel()
	for _, s := range stores {
		some, err := s.Count(ctx, f)
		n.Value, n.AtLeast = n.Value+some, n.AtLeast || err != nil || some >= ownersMost
	}
	return n, nil
}

// readOwners reads the owners with the most jobs of each queue, and with the most dead letters of each
// pipeline.
func (a *API) readOwners(ctx context.Context) (*owning, error) {
	depths, err := a.Queues.Tenants(ctx, "", ownersMost)
	if err != nil {
		return nil, err
	}
	settings, err := a.settingsOf(ctx)
	if err != nil {
		return nil, err
	}
	w := &owning{}
	stores, err := a.stores("", deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	for _, s := range stores {
		some, err := s.Owners(ctx, nil)
		if err != nil {
			return nil, err
		}
		w.dead = append(w.dead, some...)
	}
	for len(depths) > 0 {
		of := ownersOf{queue: depths[0].Queue}
		n := 0
		for n < len(depths) && depths[n].Queue == of.queue {
			n++
		}
		of.deepest, depths = depths[:n], depths[n:]
		of.Settings = settings[of.queue]
		w.queues = append(w.queues, of)
	}
	w.all = w.of(nil)
	return w, nil
}

// settingsOf are those of all queues, as they were some seconds ago at most.
func (a *API) settingsOf(ctx context.Context) (map[string]queue.Settings, error) {
	queues, _, err := latest(ctx, a.standing.queues)
	if err != nil {
		return nil, err
	}
	all := make(map[string]queue.Settings, len(queues))
	for i := range queues {
		all[queues[i].Queue] = queues[i].Settings
	}
	return all, nil
}

// of are the owners of queues and pipelines that may be looked at; nil: all may. They are those with the
// most jobs, and those with the most dead letters.
func (w *owning) of(may func(name string) bool) []api.OwnerInList {
	if may == nil && w.all != nil {
		return w.all
	}
	of := map[string]*api.OwnerInList{}
	at := func(owner string) *api.OwnerInList {
		if of[owner] == nil {
			of[owner] = &api.OwnerInList{Owner: owner}
		}
		return of[owner]
	}
	for i := range w.queues {
		q := &w.queues[i]
		if may != nil && !may(q.queue) {
			continue
		}
		for _, d := range q.deepest {
			o := at(d.Tenant)
			o.Waiting, o.Queues = o.Waiting+d.Waiting, o.Queues+1
			_, limited := q.Tenants[d.Tenant]
			o.Limited = o.Limited || limited || q.Tenant != (queue.Limit{})
			if !d.Oldest.IsZero() && (o.Oldest.IsZero() || d.Oldest.Before(o.Oldest)) {
				o.Oldest = d.Oldest.UTC()
			}
		}
	}
	for _, d := range w.dead {
		if may == nil || may(d.Pipeline) {
			at(d.Tenant).Dead += int64(d.Count)
		}
	}
	all := make([]api.OwnerInList, 0, len(of))
	for _, o := range of {
		all = append(all, *o)
	}
	if len(all) <= ownersMost {
		return all
	}
	most := map[string]bool{}
	for _, order := range []string{"", api.OrderByDead} {
		slices.SortFunc(all, func(a, b api.OwnerInList) int {
			return cmp.Or(cmp.Compare(ownersSize(&b, order), ownersSize(&a, order)), cmp.Compare(a.Owner, b.Owner))
		})
		for _, o := range all[:ownersMost] {
			most[o.Owner] = true
		}
	}
	return slices.DeleteFunc(all, func(o api.OwnerInList) bool { return !most[o.Owner] })
}

// ownersSize is what an order that is not by name goes by.
func ownersSize(o *api.OwnerInList, order string) int64 {
	if order == api.OrderByDead {
		return o.Dead
	}
	return o.Waiting
}

// owners lists whose jobs wait, and who has dead letters.
func (a *API) owners(ctx context.Context, q *api.OwnerFilter) (iter.Seq2[api.OwnerInList, error], error) {
	found, _, err := latest(ctx, a.standing.owners)
	if err != nil {
		return nil, err
	}
	var some func(string) bool
	if may := sightOf(ctx); !may.all() {
		some = func(queue string) bool { return may.of(a.systemOf(queue)) }
	}
	most, err := q.Most(q.Max)
	if err != nil {
		return nil, err
	}
	chosen := []api.OwnerInList{}
	for _, o := range found.of(some) {
		if strings.HasPrefix(o.Owner, q.Prefix) && (o.Limited || !q.Limited) {
			o.Position = ownerAt(&o, q.Order)
			chosen = append(chosen, o)
		}
	}
	chosen = onPage(chosen, &q.Page, most)
	return answer.Listed(chosen, func(o *api.OwnerInList) api.OwnerInList { return *o }), nil
}

// ownerAt is where an owner is in a listing of an order, by its bytes.
func ownerAt(o *api.OwnerInList, order string) string {
	if order == api.OrderByName {
		return ownerKey + o.Owner
	}
	return fmt.Sprintf("%020d%s%s", math.MaxInt64-ownersSize(o, order), ownerKey, o.Owner)
}

// ownerKey is before the name in a position: of the owner without a name there is a position too.
const ownerKey = "/"

// onPage are the owners of a page, or the first ones of all, by their positions.
func onPage(all []api.OwnerInList, p *operation.Page, most int) []api.OwnerInList {
	slices.SortFunc(all, func(a, b api.OwnerInList) int { return cmp.Compare(a.Position, b.Position) })
	behind := func(o api.OwnerInList) bool { return o.Position > p.After() }
	if p.Back() {
		slices.Reverse(all)
		behind = func(o api.OwnerInList) bool { return o.Position < p.After() }
	}
	if p.After() != "" {
		all = slices.DeleteFunc(all, func(o api.OwnerInList) bool { return !behind(o) })
	}
	if most > 0 {
		all = all[:min(len(all), most)]
	}
	return all
}

// owner shows one owner over all queues and dead letters.
func (a *API) owner(ctx context.Context, q *api.OneOwner) (out api.Owner, err error) {
	may := sightOf(ctx)
	names, err := a.queueNames(ctx, may)
	if err != nil {
		return out, err
	}
	out = api.Owner{Owner: q.Owner, Queues: []api.OwnerQueue{}}
	depths, at, err := latest(ctx, a.standing.depths.Of(q.Owner))
	if err != nil {
		return out, err
	}
	out.AsOf = at.UTC()
	settings, err := a.settingsOf(ctx)
	if err != nil {
		return out, err
	}
	in := func(d queue.Depth) {
		s := settings[d.Queue]
		of := api.OwnerQueue{Queue: d.Queue, Waiting: d.Waiting, Oldest: answer.When(d.Oldest)}
		if own, has := s.Tenants[q.Owner]; has {
			of.Limit = &own
		}
		if d.Waiting > 0 {
			of.Holds = holds(&s, q.Owner)
		}
		if of.Limit != nil || d.Waiting > 0 {
			out.Queues = append(out.Queues, of)
		}
	}
	for _, d := range depths {
		if i := slices.Index(names, d.Queue); i >= 0 { // else the caller may not look at it
			names = slices.Delete(names, i, i+1)
			in(d)
		}
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		in(queue.Depth{Queue: name})
	}
	if out.Dead, at, _ = a.standing.owned.Of(owned{q.Owner, may.some()}).Get(ctx); at.IsZero() {
		out.Dead.AtLeast = true // they are being counted
	}
	return out, nil
}
