package memoryqueue

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

// node is a level, a tenant of a level, or a key of a tenant: the leaf, which has the jobs.
// A tenant whose jobs are not kept apart by their keys has one leaf without a name.
type node struct {
	name    string
	waiting int // jobs below it that may be handed out
	kids    map[string]*node
	ring    []*node // the kids with waiting jobs, in the order of their turns
	jobs    oldest  // of a leaf
}

// leaf is where the jobs of a tenant and key wait.
func (q *queueState) leaf(j *job) (lv *level, tenant, leaf *node) {
	at, found := slices.BinarySearchFunc(q.levels, j.m.Priority, func(lv *level, p uint8) int { return int(p) - int(lv.priority) })
	if !found {
		q.levels = slices.Insert(q.levels, at, &level{priority: j.m.Priority})
	}
	lv = q.levels[at]
	tenant = lv.kid(j.m.Tenant)
	return lv, tenant, tenant.kid(j.flow)
}

func (n *node) kid(name string) *node {
	k := n.kids[name]
	if k == nil {
		if n.kids == nil {
			n.kids = map[string]*node{}
		}
		k = &node{name: name}
		n.kids[name] = k
	}
	return k
}

// push lets a job wait for its turn.
func (q *queueState) push(j *job) {
	if j.flow = ""; rules.Keyed(&q.settings) {
		j.flow = string(j.m.Key)
	}
	lv, tenant, leaf := q.leaf(j)
	heap.Push(&leaf.jobs, j)
	leaf.waiting++
	tenant.more(leaf)
	lv.more(tenant)
	j.ready = true
}

// more counts one more waiting job below a kid.
func (n *node) more(kid *node) {
	if kid.waiting == 1 {
		n.ring = append(n.ring, kid)
	}
	n.waiting++
}

// pull takes a waiting job out of order.
func (q *queueState) pull(j *job) {
	lv, tenant, leaf := q.leaf(j)
	heap.Remove(&leaf.jobs, j.index)
	leaf.waiting--
	tenant.less(leaf)
	lv.less(tenant)
	j.ready = false
}

// less counts one waiting job less below a kid, and removes the kid with its last job.
func (n *node) less(kid *node) {
	if n.waiting--; kid.waiting == 0 {
		delete(n.kids, kid.name)
		n.ring = slices.DeleteFunc(n.ring, func(k *node) bool { return k == kid })
	}
}

// head is the position of the oldest job below a node.
func (n *node) head() uint64 {
	if len(n.jobs) > 0 {
		return n.jobs[0].pos
	}
	least := uint64(math.MaxUint64)
	for _, k := range n.ring {
		least = min(least, k.head())
	}
	return least
}

// turn is one hand-out being made.
type turn struct {
	queue *queueState
	now   time.Time
	again time.Time // when a limit lets a held-back job go; zero: none is held back
	give  func(*job)
}

// take hands out up to most jobs: priorities by weight.
func (t *turn) take(most int) (got int) {
	q := t.queue
	if most = min(most, t.allowed(q.settings.Limit, subject{}, int(q.count(queue.Leased)), most)); most == 0 {
		return 0
	}
	var none []*level // without jobs for us now
	for got < most {
		var next *level
		others := false
		for _, lv := range q.levels { // the highest first
			switch {
			case lv.waiting == 0 || slices.Contains(none, lv):
			case next == nil:
				next = lv
			case max(lv.pass, q.pass) < max(next.pass, q.pass):
				next, others = lv, true
			default:
				others = true
			}
		}
		if next == nil {
			return got
		}
		share, weight := most-got, rules.Weight(&q.settings, next.priority)
		if others {
			share = min(share, weight)
		}
		next.pass = max(next.pass, q.pass)
		n := t.share(&next.node, share, q.settings.Fair != queue.Unfair, t.tenant)
		if n == 0 {
			none = append(none, next)
			continue
		}
		q.pass = next.pass
		if others { // a single level takes no share from others
			next.pass += float64(n) / float64(weight)
		}
		got += n
	}
	return got
}

// share hands out up to most jobs from below a node: its kids take turns with equal shares,
// or else the oldest job goes first.
func (t *turn) share(n *node, most int, turns bool, take func(parent, kid *node, most int) int) (got int) {
	held := map[*node]bool{} // held back by a limit
	for got < most {
		round := slices.DeleteFunc(slices.Clone(n.ring), func(k *node) bool { return held[k] })
		if len(round) == 0 {
			return got
		}
		if !turns && len(round) > 1 {
			first := slices.MinFunc(round, func(a, b *node) int { return cmp.Compare(a.head(), b.head()) })
			k := take(n, first, 1)
			held[first] = k == 0
			got += k
			continue
		}
		for i, kid := range round {
			if got == most {
				break
			}
			k := take(n, kid, max(1, (most-got)/(len(round)-i)))
			held[kid] = k == 0
			got += k
			if at := slices.Index(n.ring, kid); turns && k > 0 && at >= 0 { // it has more: to the end of the ring
				n.ring = append(slices.Delete(n.ring, at, at+1), kid)
			}
		}
	}
	return got
}

// tenant hands out jobs of one tenant.
func (t *turn) tenant(lv, tenant *node, most int) int {
	q := t.queue
	of := theTenant(tenant.name)
	most = min(most, t.allowed(q.settings.LimitOf(tenant.name), of, q.out[of], most))
	return t.share(tenant, most, q.settings.Fair == queue.ByKey, func(tenant, leaf *node, most int) int {
		if leaf.name != "" {
			of := theKey(tenant.name, leaf.name)
			most = min(most, t.allowed(q.settings.Key, of, q.out[of], most))
		}
		n := 0
		for ; n < most && leaf.waiting > 0; n++ {
			j := leaf.jobs[0]
			q.pull(j)
			t.give(j)
		}
		return n
	})
}

// subject is what a limit applies to.
type subject struct {
	kind        byte
	tenant, key string
}

const (
	ofQueue byte = iota
	ofTenant
	ofKey
)

func theTenant(name string) subject     { return subject{kind: ofTenant, tenant: name} }
func theKey(tenant, key string) subject { return subject{kind: ofKey, tenant: tenant, key: key} }

// allowed is how many of most jobs a limit lets go now.
func (t *turn) allowed(limit queue.Limit, of subject, out, most int) int {
	n, at := rules.Allow(limit, out, most, t.queue.spent[of], t.now)
	if !at.IsZero() && (t.again.IsZero() || at.Before(t.again)) {
		t.again = at
	}
	return n
}

// Turn implements queue.Limiter.
func (s *Store) Turn(ctx context.Context, name, tenant string, n int) (int, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.state(name)
	var gate time.Time
	if q.gate.closed {
		gate = q.gate.until
	}
	of := [2]subject{{}, theTenant(tenant)}
	spent := [2]float64{q.spent[of[0]], q.spent[of[1]]}
	n, at := rules.Turn(&q.settings, tenant, n, gate, s.o.Now(), &spent)
	for i, used := range spent {
		if used > 0 {
			q.spent[of[i]] = used
		}
	}
	return n, at, nil
}

// charge counts a job that is handed out against all limits of its rate.
func (q *queueState) charge(j *job, now time.Time) {
	for _, c := range []struct {
		limit queue.Limit
		of    subject
		on    bool
	}{
		{q.settings.Limit, subject{}, true},
		{q.settings.LimitOf(j.m.Tenant), theTenant(j.m.Tenant), true},
		{q.settings.Key, theKey(j.m.Tenant, j.flow), j.flow != ""},
	} {
		if c.on && c.limit.PerSecond > 0 {
			q.spent[c.of] = rules.Spend(c.limit, q.spent[c.of], 1, now)
		}
	}
	if len(q.spent) > 2*q.spentOnce+1000 { // forget those with a whole burst again
		for of, at := range q.spent {
			if at <= float64(now.UnixMicro()) {
				delete(q.spent, of)
			}
		}
		q.spentOnce = len(q.spent)
	}
}

// counts adds a hand-out to those of its tenant and its key, or takes it away.
func (q *queueState) counts(j *job, by int) {
	q.count1(theTenant(j.m.Tenant), by)
	if j.flow != "" {
		q.count1(theKey(j.m.Tenant, j.flow), by)
	}
}

func (q *queueState) count1(of subject, by int) {
	if q.out[of] += by; q.out[of] == 0 {
		delete(q.out, of)
	}
}
