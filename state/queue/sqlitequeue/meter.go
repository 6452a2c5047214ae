package sqlitequeue

import (
	"cmp"
	"container/heap"
	"context"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Depths implements queue.Meter.
func (s *Store) Depths(ctx context.Context, name string) ([]queue.Depth, error) {
	all, err := s.depths(ctx, name, func(t tally) queue.Depth { return queue.Depth{Priority: t.priority} })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b queue.Depth) int { return int(b.Priority) - int(a.Priority) })
	each := make([]int, len(all))
	for i := range each {
		each[i] = i
	}
	return s.ages(ctx, name, all, func(w *waitingSet) [][]groupHead {
		return w.heads(all, maps.Values(w.groups), func(*group) []int { return each }, ofPriority)
	}, ofPriority)
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) (all []queue.Depth, err error) {
	if name != "" {
		return s.tenants(ctx, name, most)
	}
	for _, q := range s.chosen("") {
		some, err := s.tenants(ctx, q.name, most)
		if err != nil {
			return nil, err
		}
		for _, d := range some {
			d.Queue = q.name
			all = append(all, d)
		}
	}
	return all, nil
}

func (s *Store) tenants(ctx context.Context, name string, most int) ([]queue.Depth, error) {
	all, err := s.depths(ctx, name, func(t tally) queue.Depth { return queue.Depth{Tenant: t.tenant} })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, rules.Deeper)
	all = all[:min(len(all), cmp.Or(most, 100))]
	at := make(map[string][]int, len(all))
	for i, d := range all {
		at[d.Tenant] = []int{i}
	}
	return s.ages(ctx, name, all, func(w *waitingSet) [][]groupHead {
		return w.heads(all, maps.Values(w.groups), func(of *group) []int { return at[of.tenant] }, ofTheTenant)
	}, ofTheTenant)
}

// Tenant implements queue.Meter.
func (s *Store) Tenant(ctx context.Context, tenant string) (all []queue.Depth, err error) {
	only := []int{0}
	for _, q := range s.chosen("") {
		d := []queue.Depth{{Queue: q.name, Tenant: tenant}}
		if err := q.counted(ctx, s, func(w *waitingSet) { d[0].Waiting = w.of(tenant) }); err != nil {
			return nil, err
		}
		if d[0].Waiting <= 0 {
			continue
		}
		if d, err = s.ages(ctx, q.name, d, func(w *waitingSet) [][]groupHead {
			return w.heads(d, w.groupsOf(tenant), func(*group) []int { return only }, ofTheTenant)
		}, ofTheTenant); err != nil {
			return nil, err
		}
		all = append(all, d[0])
	}
	return all, nil
}

// ofPriority says whether a job of a group is of a depth's priority; nil: whether one may be.
func ofPriority(d queue.Depth, s *group, it *item) bool {
	if s.ordered {
		return it == nil || it.priority == d.Priority
	}
	return s.priority == d.Priority
}

// ofTheTenant says whether a group's jobs are of a depth's tenant.
func ofTheTenant(d queue.Depth, s *group, _ *item) bool { return s.tenant == d.Tenant }

// priorities are those that jobs ever waited in.
func (w *waitingSet) priorities() iter.Seq[uint8] {
	return func(yield func(uint8) bool) {
		for i, some := range w.waited {
			for ; some != 0; some &= some - 1 {
				if !yield(uint8(i<<6 + bits.TrailingZeros64(some))) {
					return
				}
			}
		}
	}
}

// of is how many jobs of a tenant wait.
func (w *waitingSet) of(tenant string) (n int64) {
	for p := range w.priorities() {
		n += w.tallies[tally{p, tenant}]
	}
	return n
}

// groupsOf are groups in memory, among them all of a tenant. Where none has a key they are found by
// their names.
func (w *waitingSet) groupsOf(tenant string) iter.Seq[*group] {
	if w.keyed > 0 {
		return maps.Values(w.groups)
	}
	return func(yield func(*group) bool) {
		for p := range w.priorities() {
			if s := w.groups[string(groupName(nil, w.apart.no, false, p, tenant, ""))]; s != nil && !yield(s) {
				return
			}
		}
	}
}

// counted brings what time changes into the counts, and lets read them.
func (q *queueState) counted(ctx context.Context, s *Store, read func(*waitingSet)) error {
	if err := q.handing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer q.handing.Release(1)
	mem := q.lock()
	mem.expire(s.o.Now())
	q.unlock()
	if err := q.look(ctx, s); err != nil {
		return err
	}
	mem = q.lock()
	defer q.unlock()
	read(&mem.waiting)
	return nil
}

// depths counts waiting jobs, by the result of of.
func (s *Store) depths(ctx context.Context, name string, of func(tally) queue.Depth) (all []queue.Depth, err error) {
	q := s.find(name)
	if q == nil {
		return nil, ctx.Err()
	}
	err = q.counted(ctx, s, func(w *waitingSet) {
		sums := map[queue.Depth]int64{}
		for t, n := range w.tallies {
			sums[of(t)] += n
		}
		for d, n := range sums { // in any order: the caller sorts
			if d.Waiting = n; n > 0 {
				all = append(all, d)
			}
		}
	})
	return all, err
}

// ages finds for each depth when its oldest job was added, from the heads of the groups that may
// have it. What it reads it keeps for the next time.
func (s *Store) ages(ctx context.Context, name string, all []queue.Depth, from func(*waitingSet) [][]groupHead, is func(queue.Depth, *group, *item) bool) ([]queue.Depth, error) {
	if len(all) == 0 { // there may be no such queue
		return nil, nil
	}
	q := s.find(name)
	w := &q.lock().waiting
	heads, removed := from(w), w.removed
	q.unlock()
	for i := range all {
		h, err := q.oldest(ctx, s, heads[i], removed, func(of *group, it *item) bool { return is(all[i], of, it) })
		if err != nil {
			return nil, err
		}
		if h.n > 0 && h.added == 0 {
			f, err := q.at(ctx, s, h.n)
			if err != nil {
				return nil, err
			}
			if f != nil {
				h.added, _ = addedOf(f.rec)
			}
		}
		if h.added > 0 {
			all[i].Oldest = time.UnixMilli(h.added).UTC()
		}
	}
	return all, nil
}

// groupHead is the oldest job of a group, or a position before it.
type groupHead struct {
	peek
	id    string
	after uint64 // where to look for it
	found bool
}

// heads are for each depth the oldest jobs of the groups that may have it, in any order. It looks at
// each group once for each depth that it may belong to, since nobody else comes by meanwhile.
func (w *waitingSet) heads(all []queue.Depth, groups iter.Seq[*group], may func(*group) []int, is func(queue.Depth, *group, *item) bool) [][]groupHead {
	heads := make([][]groupHead, len(all))
	for s := range groups {
		for _, i := range may(s) {
			if d := all[i]; is(d, s, nil) {
				heads[i] = s.heads(heads[i], func(it *item) bool { return is(d, s, it) })
			}
		}
	}
	return heads
}

// heads adds the group's oldest jobs to those of others. In an ordered group it looks at all jobs in
// memory.
func (s *group) heads(heads []groupHead, is func(*item) bool) []groupHead {
	least := peek{n: math.MaxUint64}
	for i := range s.ready {
		if is(&s.ready[i]) {
			least = peekAt(&s.ready[i])
			break
		}
	}
	for _, it := range s.back {
		if it.n < least.n && is(it) {
			least = peekAt(it)
		}
	}
	if s.unread() && len(s.ready) == 0 && least.n > s.cursor {
		if s.peek.n > s.cursor {
			heads = append(heads, groupHead{peek: s.peek, found: true})
		} else {
			heads = append(heads, groupHead{peek: peek{n: s.cursor + 1}, id: s.id, after: s.cursor})
		}
	}
	if least.n < math.MaxUint64 {
		heads = append(heads, groupHead{peek: least, found: true})
	}
	return heads
}

// peekAt is where a job is, and when it was added, if its record is at hand.
func peekAt(it *item) peek {
	added, _ := addedOf(it.rec)
	return peek{it.n, added}
}

// oldest is the oldest chosen job; position 0: none. In an ordered group it reads at most a page.
func (q *queueState) oldest(ctx context.Context, s *Store, heads groupHeads, removed int, is func(*group, *item) bool) (peek, error) {
	heap.Init(&heads)
	for len(heads) > 0 {
		h := &heads[0]
		if h.found {
			return h.peek, nil
		}
		p := &page{group: readGroup([]byte(h.id)), after: h.after, upTo: posMask, want: 1, bytes: pageBytes}
		if p.group.ordered {
			p.want = pageJobs
		}
		if err := q.readAhead(ctx, s, []*page{p}); err != nil {
			return peek{}, err
		}
		at := slices.IndexFunc(p.items, func(it item) bool { return is(p.group, &it) })
		if at < 0 {
			heap.Pop(&heads)
			continue
		}
		h.peek, h.found = peekAt(&p.items[at]), true
		if !p.group.ordered {
			q.note(h, removed)
		}
		heap.Fix(&heads, 0)
	}
	return peek{}, nil
}

// note keeps where the first job of a group is that was not read ahead, if no job was removed since.
func (q *queueState) note(h *groupHead, removed int) {
	mem := q.lock()
	defer q.unlock()
	if s := mem.waiting.groups[h.id]; s != nil && s.cursor == h.after && mem.waiting.removed == removed {
		s.peek = h.peek
	}
}

// groupHeads is a heap (container/heap): the oldest first.
type groupHeads []groupHead

func (h groupHeads) Len() int           { return len(h) }
func (h groupHeads) Less(i, j int) bool { return h[i].n < h[j].n }
func (h groupHeads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *groupHeads) Push(x any)        { *h = append(*h, x.(groupHead)) }
func (h *groupHeads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
