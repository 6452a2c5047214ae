package admin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/figures"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
)

const (
	ownersMost   = 1000 // of each queue, and of all
	ownersFresh  = 10 * time.Second
	ownersOldest = time.Minute // where reading takes long
	ownersWithin = 30 * time.Second
	countWithin  = 300 * time.Millisecond // of one owner
)

// ownersOf are the owners with the most jobs of a queue.
type ownersOf struct {
	queue string
	queue.Settings
	deepest []queue.Depth
}

// newOwners are those whose jobs wait, read while somebody asks.
func (a *API) newOwners(s *standing, life context.Context) *figures.Latest[[]ownersOf] {
	return &figures.Latest[[]ownersOf]{Read: a.readOwners, Fresh: ownersFresh, Most: ownersOldest, Wait: booksWithin, Within: ownersWithin, Life: life, Begun: &s.begun, Now: a.Now}
}

// readOwners reads the owners with the most jobs of each queue.
func (a *API) readOwners(ctx context.Context) (all []ownersOf, err error) {
	names, err := a.Queues.Queues(ctx)
	if err != nil {
		return nil, err
	}
	all = make([]ownersOf, len(names))
	err = together(len(names), func(i int) (err error) {
		of := &all[i]
		of.queue = names[i]
		if of.Settings, err = a.Queues.Settings(ctx, of.queue); err == nil {
			of.deepest, err = a.Queues.Tenants(ctx, of.queue, ownersMost)
		}
		return err
	})
	return all, err
}

// waitingOwners are the owners of the queues that a request may look at, the deepest first.
func (a *API) waitingOwners(may sight, queues []ownersOf) []api.WaitingOwner {
	of := map[string]*api.WaitingOwner{}
	for i := range queues {
		q := &queues[i]
		if !may.all() && !may.of(a.systemOf(q.queue)) {
			continue
		}
		for _, d := range q.deepest {
			o := of[d.Tenant]
			if o == nil {
				o = &api.WaitingOwner{Owner: d.Tenant}
				of[d.Tenant] = o
			}
			o.Waiting, o.Queues = o.Waiting+d.Waiting, o.Queues+1
			_, limited := q.Tenants[d.Tenant]
			o.Limited = o.Limited || limited || q.Tenant != (queue.Limit{})
			if !d.Oldest.IsZero() && (o.Oldest.IsZero() || d.Oldest.Before(o.Oldest)) {
				o.Oldest = d.Oldest.UTC()
			}
		}
	}
	all := make([]api.WaitingOwner, 0, len(of))
	for _, o := range of {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b api.WaitingOwner) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Owner, b.Owner))
	})
	return all[:min(len(all), ownersMost)]
}

// owners lists whose jobs wait.
func (a *API) owners(ctx context.Context, q *api.OwnerFilter) (iter.Seq2[api.WaitingOwner, error], error) {
	queues, at, err := a.standing.owners.Get(ctx)
	if at.IsZero() {
		return nil, answer.Busy(cmp.Or(err, errNotYet))
	}
	chosen := []api.WaitingOwner{}
	for _, o := range a.waitingOwners(sightOf(ctx), queues) {
		if strings.HasPrefix(o.Owner, q.Prefix) && (q.Max == 0 || len(chosen) < q.Max) {
			chosen = append(chosen, o)
		}
	}
	return answer.Listed(chosen, func(o *api.WaitingOwner) api.WaitingOwner { return *o }), nil
}

var errNotYet = errors.New("the owners were not read yet")

// owner shows one owner over all queues and dead letters.
func (a *API) owner(ctx context.Context, q *api.OneOwner) (out api.Owner, err error) {
	may := sightOf(ctx)
	names, err := a.queueNames(ctx, may)
	if err != nil {
		return out, err
	}
	out = api.Owner{Owner: q.Owner, Queues: []api.OwnerQueue{}, AsOf: a.Now().UTC()}
	depths, err := a.Queues.Tenant(ctx, q.Owner)
	if err != nil {
		return out, err
	}
	for _, d := range depths {
		if slices.Contains(names, d.Queue) { // else the caller may not look at it
			out.Queues = append(out.Queues, api.OwnerQueue{Queue: d.Queue, Waiting: d.Waiting, Oldest: answer.When(d.Oldest)})
		}
	}
	if err := together(len(out.Queues), func(i int) error {
		s, err := a.Queues.Settings(ctx, out.Queues[i].Queue)
		out.Queues[i].Holds = holds(&s, q.Owner)
		return err
	}); err != nil {
		return out, err
	}
	stores, err := a.stores("", deadletter.Filter{})
	if err != nil {
		return out, err
	}
	for _, s := range stores {
		n, given := countFor(ctx, func(ctx context.Context) (int, error) {
			return s.Count(ctx, deadletter.Filter{Only: a.pipelines(may), Tenant: q.Owner, Max: ownersMost})
		})
		out.Dead.Value, out.Dead.AtLeast = out.Dead.Value+n, out.Dead.AtLeast || given || n >= ownersMost
	}
	return out, nil
}

// countFor counts for a moment, and says whether it was given up.
func countFor(ctx context.Context, count func(context.Context) (int, error)) (n int, given bool) {
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	n, err := count(ctx)
	return n, err != nil
}
