package sqlitequeue

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// level is one priority of a queue.
type level struct {
	node
	priority uint8
	// pass is how much it has had so far, in jobs for each of its weight. The level with
	// the lowest comes next; a level gains nothing while it has nothing to hand out.
	pass float64
}

// node is a level, a tenant of a level, or a key of a tenant: the leaf, which has groups. A
// tenant whose jobs are not kept apart by their keys has one leaf without a name. A tenant
// and a leaf exist as long as they have jobs that may be handed out.
type node struct {
	name   string
	up     *node
	kids   map[string]*node
	ring   ring      // the kids with waiting jobs, in the order of their turns
	groups groupHeap // of a leaf

	prev, next *node // in the ring of up
	turning    bool  // it is in that ring
}

// ring is nodes in the order of their turns.
type ring struct {
	first, last *node
	size        int
}

func (r *ring) append(n *node) {
	n.prev, n.next = r.last, nil
	if r.last != nil {
		r.last.next = n
	} else {
		r.first = n
	}
	r.last = n
	r.size++
}

func (r *ring) remove(n *node) {
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		r.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		r.last = n.prev
	}
	n.prev, n.next = nil, nil
	r.size--
}

func (n *node) kid(name string) *node {
	k := n.kids[name]
	if k == nil {
		if n.kids == nil {
			n.kids = map[string]*node{}
		}
		k = &node{name: name, up: n}
		n.kids[name] = k
	}
	return k
}

// enter lets a node, and those above it, take turns.
func (n *node) enter() {
	for ; n.up != nil && !n.turning; n = n.up {
		n.turning = true
		n.up.ring.append(n)
	}
}

// exit removes an empty node from the tree, and those above it that have nothing else.
func (n *node) exit() {
	for ; n.up != nil && n.ring.size == 0 && len(n.groups) == 0; n = n.up {
		if n.turning {
			n.turning = false
			n.up.ring.remove(n)
		}
		delete(n.up.kids, n.name)
	}
}

// oldest is the position of the oldest job below a node, or an earlier one where that has
// to be read.
func (n *node) oldest() uint64 {
	if len(n.groups) > 0 {
		return n.groups[0].oldest()
	}
	least := uint64(math.MaxUint64)
	for k := n.ring.first; k != nil; k = k.next {
		least = min(least, k.oldest())
	}
	return least
}

// turn is one hand-out being made. Its maker has the turn "handing", so no other removes
// jobs from the tree. It holds mu, but releases it while the heads of groups are read from
// the file: meanwhile others may add to the tree.
type turn struct {
	queue  *queueState
	mem    *memory // of l
	ctx    context.Context
	store  *Store
	now    time.Time
	again  time.Time // when a limit lets a held-back job go; zero: none is held back
	chosen []item
	err    error // of reading: push the chosen jobs back
}

// take chooses up to most jobs: priorities by weight. It returns how many the limit of the
// queue lets go.
func (t *turn) take(most int) int {
	s := t.mem.settings
	most = min(most, t.allowed(s.Limit, subject{}, len(t.mem.leases.outs), most))
	var none []*level // without jobs for us now
	for len(t.chosen) < most && t.err == nil {
		var next *level
		others := false
		for _, lv := range t.mem.waiting.levels { // the highest first
			switch {
			case lv.ring.size == 0 || slices.Contains(none, lv):
			case next == nil:
				next = lv
			case max(lv.pass, t.mem.waiting.pass) < max(next.pass, t.mem.waiting.pass):
				next, others = lv, true
			default:
				others = true
			}
		}
		if next == nil {
			return most
		}
		share, weight := most-len(t.chosen), rules.Weight(s, next.priority)
		if others {
			share = min(share, weight)
		}
		next.pass = max(next.pass, t.mem.waiting.pass)
		n := t.share(&next.node, share, s.Fair != queue.Unfair, t.tenant)
		if n == 0 {
			none = append(none, next)
			continue
		}
		t.mem.waiting.pass = next.pass
		if others { // a single level takes no share from others
			next.pass += float64(n) / float64(weight)
		}
	}
	return most
}

// share chooses up to most jobs from below a node: its kids take turns with equal shares,
// or else the oldest job goes first.
func (t *turn) share(n *node, most int, turns bool, take func(kid *node, most int) int) (got int) {
	var held map[*node]bool // held back by a limit
	hold := func(kid *node) {
		if held == nil {
			held = map[*node]bool{}
		}
		held[kid] = true
	}
	for got < most && t.err == nil {
		round := n.ring.size
		for kid := range held {
			if kid.turning { // only counted: in any order
				round--
			}
		}
		if round <= 0 {
			return got
		}
		if !turns && round > 1 {
			k := t.oldestFirst(n, most-got, held, hold, take)
			if got += k; k == 0 {
				return got
			}
			continue
		}
		kid := n.ring.first
		for i := 0; i < round && kid != nil && got < most && t.err == nil; {
			next := kid.next
			if !held[kid] {
				k := take(kid, max(1, (most-got)/(round-i)))
				got += k
				if k == 0 {
					hold(kid)
				} else if turns && kid.turning { // it has more: to the end of the ring
					n.ring.remove(kid)
					n.ring.append(kid)
				}
				i++
			}
			kid = next
		}
	}
	return got
}

// oldestFirst chooses jobs one by one from the kid with the oldest, until only one kid is
// left.
func (t *turn) oldestFirst(n *node, most int, held map[*node]bool, hold func(*node), take func(*node, int) int) (got int) {
	var heads headHeap
	for k := n.ring.first; k != nil; k = k.next {
		if !held[k] {
			heads = append(heads, kidHead{k, k.oldest()})
		}
	}
	heap.Init(&heads)
	for got < most && len(heads) > 1 && t.err == nil {
		kid := heads[0].kid
		if !kid.turning {
			heap.Pop(&heads)
			continue
		}
		if n := kid.oldest(); n != heads[0].n { // it was chosen, or read
			heads[0].n = n
			heap.Fix(&heads, 0)
			continue
		}
		if s := kid.first(); s.shallow() { // it may not be the oldest
			t.fill(s, 1)
			continue
		}
		k := take(kid, 1)
		if got += k; k == 0 {
			hold(kid)
			heap.Pop(&heads)
		}
	}
	if got == 0 && len(heads) == 1 && t.err == nil { // the others turned out to have nothing
		if got = take(heads[0].kid, 1); got == 0 {
			hold(heads[0].kid)
		}
	}
	return got
}

// first is the group below a node that has its oldest job.
func (n *node) first() *group {
	if len(n.groups) > 0 {
		return n.groups[0]
	}
	least := n.ring.first
	for k := least.next; k != nil; k = k.next {
		if k.oldest() < least.oldest() {
			least = k
		}
	}
	return least.first()
}

// tenant chooses jobs of one tenant.
func (t *turn) tenant(tenant *node, most int) int {
	of := theTenant(tenant.name)
	if most = t.may(t.mem.settings.LimitOf(tenant.name), of, most); most == 0 {
		return 0
	}
	return t.share(tenant, most, t.mem.settings.Fair == queue.ByKey, t.leaf)
}

// leaf chooses jobs of one leaf, the oldest first.
func (t *turn) leaf(leaf *node, most int) (n int) {
	tenant := leaf.up.name
	if leaf.name != "" {
		most = t.may(t.mem.settings.Key, theKey(tenant, leaf.name), most)
	}
	for n < most && len(leaf.groups) > 0 && t.err == nil {
		s := leaf.groups[0]
		if s.shallow() {
			t.fill(s, most-n)
			continue
		}
		n += t.from(s, leaf, most-n)
	}
	t.mem.leases.charge(tenant, leaf.name, n, t.now)
	return n
}

// from chooses the first jobs of a group.
func (t *turn) from(s *group, leaf *node, most int) (n int) {
	if s.ordered || len(leaf.groups) > 1 { // another may have the next one
		most = 1
	}
	chosen := len(t.chosen)
	if len(s.back) == 0 { // the common case: all at once
		some := t.mem.waiting.popReady(s, most)
		t.chosen = append(t.chosen, some...)
		clear(some)
	}
	for len(t.chosen)-chosen < most && len(s.back) > 0 && !s.shallow() {
		t.chosen = append(t.chosen, t.mem.waiting.pop(s))
	}
	if n = len(t.chosen) - chosen; n > 0 {
		for i := range t.chosen[chosen:] {
			it := &t.chosen[chosen+i]
			it.group, it.counted, it.keyed = s, t.mem.leases.counts, leaf.name != ""
		}
		first := &t.chosen[chosen]
		t.mem.waiting.tally(s, first, -int64(n))
		if s.ordered {
			s.holder = first.n
		}
	}
	t.mem.waiting.seat(s)
	return n
}

// fill reads the head of a group, and those of groups whose turns come next, while others
// may add to the tree.
func (t *turn) fill(s *group, want int) {
	some := []*group{s}
	for tenant := s.leaf.up.next; tenant != nil && len(some) < fillGroups; tenant = tenant.next {
		for leaf := tenant.ring.first; leaf != nil && len(some) < fillGroups; leaf = leaf.next {
			if next := leaf.groups[0]; next.shallow() {
				some = append(some, next)
			}
		}
	}
	for leaf := s.leaf.next; leaf != nil && len(some) < fillGroups; leaf = leaf.next {
		if next := leaf.groups[0]; next.shallow() {
			some = append(some, next)
		}
	}
	pages := t.mem.waiting.pages(some, want)
	t.mem.log.watch()
	t.queue.unlock()
	err := t.queue.readAhead(t.ctx, t.store, pages)
	t.mem = t.queue.lock()
	gone := t.mem.log.unwatch()
	if err != nil {
		t.err = cmp.Or(t.err, err)
		return
	}
	if t.mem.waiting.listing.relists {
		for i := range t.chosen {
			gone[t.chosen[i].n] = struct{}{}
		}
	}
	t.mem.fill(pages, gone)
}

// kidHead is a kid and the position of its oldest job.
type kidHead struct {
	kid *node
	n   uint64
}

// headHeap is a heap (container/heap) of kids, the oldest first.
type headHeap []kidHead

func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return h[i].n < h[j].n }
func (h headHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *headHeap) Push(x any)        { *h = append(*h, x.(kidHead)) }
func (h *headHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
