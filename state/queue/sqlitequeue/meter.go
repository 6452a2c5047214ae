package sqlitequeue

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Queues implements queue.Meter.
func (s *Store) Queues(ctx context.Context) (names []string, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query("SELECT name FROM queue WHERE next>0 OR settings IS NOT NULL")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name []byte
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, string(name))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

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
	return s.ages(ctx, name, all, func(*group) []int { return each }, func(d queue.Depth, of *group, it *item) bool { return of.has(d.Priority, it) })
}

// Tenants implements queue.Meter.
func (s *Store) Tenants(ctx context.Context, name string, most int) ([]queue.Depth, error) {
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
	return s.ages(ctx, name, all, func(of *group) []int { return at[of.tenant] }, func(d queue.Depth, of *group, _ *item) bool { return d.Tenant == of.tenant })
}

// has says whether one of its jobs is of that priority; nil: whether one may be.
func (s *group) has(priority uint8, it *item) bool {
	if s.ordered {
		return it == nil || it.priority == priority
	}
	return s.priority == priority
}

// depths counts waiting jobs, by the result of of.
func (s *Store) depths(ctx context.Context, name string, of func(tally) queue.Depth) (all []queue.Depth, err error) {
	q := s.find(name)
	if q == nil {
		return nil, ctx.Err()
	}
	if err := q.handing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer q.handing.Release(1)
	mem := q.lock()
	mem.expire(s.o.Now())
	q.unlock()
	if err := q.look(ctx, s); err != nil {
		return nil, err
	}
	mem = q.lock()
	defer q.unlock()
	sums := map[queue.Depth]int64{}
	for t, n := range mem.waiting.tallies {
		sums[of(t)] += n
	}
	for d, n := range sums { // in any order: the caller sorts
		if d.Waiting = n; n > 0 {
			all = append(all, d)
		}
	}
	return all, nil
}

// ages finds for each depth when its oldest job was added. It reads only the groups that
// may have it: may says to which depths a group may belong.
func (s *Store) ages(ctx context.Context, name string, all []queue.Depth, may func(*group) []int, is func(queue.Depth, *group, *item) bool) ([]queue.Depth, error) {
	if len(all) == 0 { // there may be no such queue
		return nil, nil
	}
	q := s.find(name)
	heads := q.lock().waiting.heads(all, may, is)
	q.unlock()
	for i := range all {
		n, err := q.oldest(ctx, s, heads[i], func(of *group, it *item) bool { return is(all[i], of, it) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		f, err := q.at(ctx, s, n)
		if err != nil {
			return nil, err
		}
		if f != nil {
			h, _ := readHead(f.rec)
			all[i].Oldest = time.UnixMilli(h.added).UTC()
		}
	}
	return all, nil
}

// groupHead is the oldest job of a group, or a position before it.
type groupHead struct {
	id    string
	n     uint64
	after uint64 // where to look for it
	found bool
}

// heads are for each depth the oldest jobs of the groups that may have it, in any order. It looks at
// each group once for each depth that it may belong to, since nobody else comes by meanwhile.
func (w *waitingSet) heads(all []queue.Depth, may func(*group) []int, is func(queue.Depth, *group, *item) bool) [][]groupHead {
	heads := make([][]groupHead, len(all))
	for id, s := range w.groups {
		for _, i := range may(s) {
			if d := all[i]; is(d, s, nil) {
				heads[i] = s.heads(heads[i], id, func(it *item) bool { return is(d, s, it) })
			}
		}
	}
	return heads
}

// heads adds the group's oldest jobs to those of others. In an ordered group it looks at all jobs in
// memory.
func (s *group) heads(heads []groupHead, id string, is func(*item) bool) []groupHead {
	least := uint64(math.MaxUint64)
	for i := range s.ready {
		if is(&s.ready[i]) {
			least = min(least, s.ready[i].n)
			break
		}
	}
	for _, it := range s.back {
		if is(it) {
			least = min(least, it.n)
		}
	}
	if s.unread() && len(s.ready) == 0 && least > s.cursor {
		heads = append(heads, groupHead{id: id, n: s.cursor + 1, after: s.cursor})
	}
	if least < math.MaxUint64 {
		heads = append(heads, groupHead{n: least, found: true})
	}
	return heads
}

// oldest is the position of the oldest chosen job; 0: none. In an ordered group it reads at
// most a page.
func (q *queueState) oldest(ctx context.Context, s *Store, heads groupHeads, is func(*group, *item) bool) (uint64, error) {
	heap.Init(&heads)
	for len(heads) > 0 {
		h := &heads[0]
		if h.found {
			return h.n, nil
		}
		p := &page{group: readGroup([]byte(h.id)), after: h.after, upTo: posMask, want: 1, bytes: pageBytes}
		if p.group.ordered {
			p.want = pageJobs
		}
		if err := q.readAhead(ctx, s, []*page{p}); err != nil {
			return 0, err
		}
		at := slices.IndexFunc(p.items, func(it item) bool { return is(p.group, &it) })
		if at < 0 {
			heap.Pop(&heads)
			continue
		}
		h.n, h.found = p.items[at].n, true
		heap.Fix(&heads, 0)
	}
	return 0, nil
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
