package sqlitequeue

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

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

// limits is the use of a queue's limits. It is in memory: after a restart nothing is handed
// out, and every rate has its whole burst.
type limits struct {
	settings  *queue.Settings
	counts    bool                // bounds are set, so hand-outs of tenants and keys are counted
	rates     bool                // rates are set
	out       map[subject]int     // hand-outs of tenants and keys
	spent     map[subject]float64 // until when, in microseconds, a rate is used up
	spentOnce int                 // how many rates there were at the last clean-up
	again     time.Time           // when a limit lets a held-back job go; zero: none is held back
}

// set takes over settings. Other limits than before begin with their whole burst.
func (u *limits) set(s *queue.Settings) {
	if u.out == nil {
		u.out, u.spent = map[subject]int{}, map[subject]float64{}
	} else if !rules.SameLimits(s, u.settings) {
		clear(u.spent)
	}
	u.settings = s
	u.counts, u.rates = false, s.Limit.PerSecond > 0
	for _, l := range []queue.Limit{s.Tenant, s.Key} {
		u.counts, u.rates = u.counts || l.AtOnce > 0, u.rates || l.PerSecond > 0
	}
	for _, l := range s.Tenants {
		u.counts, u.rates = u.counts || l.AtOnce > 0, u.rates || l.PerSecond > 0
	}
}

// turn takes n jobs of a tenant from the rates, as far as they allow: see queue.Limiter.
func (u *limits) turn(tenant string, n int, gate, now time.Time) (int, time.Time) {
	of := [2]subject{{}, theTenant(tenant)}
	spent := [2]float64{u.spent[of[0]], u.spent[of[1]]}
	n, at := rules.Turn(u.settings, tenant, n, gate, now, &spent)
	for i, used := range spent {
		if used > 0 {
			u.spent[of[i]] = used
		}
	}
	return n, at
}

// may is how many of most jobs a limit lets a tenant or key have now.
func (t *turn) may(limit queue.Limit, of subject, most int) int {
	if limit == (queue.Limit{}) {
		return most
	}
	return t.allowed(limit, of, t.mem.leases.out[of], most)
}

// allowed is how many of most jobs a limit lets go now.
func (t *turn) allowed(limit queue.Limit, of subject, out, most int) int {
	n, at := rules.Allow(limit, out, most, t.mem.leases.spent[of], t.now)
	if !at.IsZero() && (t.again.IsZero() || at.Before(t.again)) {
		t.again = at
	}
	return n
}

// Turn implements queue.Limiter.
func (s *Store) Turn(ctx context.Context, name, tenant string, n int) (int, time.Time, error) {
	q := s.find(name)
	if q == nil || ctx.Err() != nil {
		return n, time.Time{}, ctx.Err()
	}
	mem := q.lock()
	defer q.unlock()
	var gate time.Time
	if mem.leases.gate.closed {
		gate = mem.leases.gate.until
	}
	n, at := mem.leases.turn(tenant, n, gate, s.o.Now())
	return n, at, nil
}

// charge counts jobs that are handed out against all limits.
func (u *limits) charge(tenant, key string, n int, now time.Time) {
	if n == 0 {
		return
	}
	if u.counts {
		u.count1(theTenant(tenant), n)
		if key != "" {
			u.count1(theKey(tenant, key), n)
		}
	}
	if u.rates {
		u.spend(u.settings.Limit, subject{}, n, now)
		u.spend(u.settings.LimitOf(tenant), theTenant(tenant), n, now)
		if key != "" {
			u.spend(u.settings.Key, theKey(tenant, key), n, now)
		}
	}
	if len(u.spent) > 2*u.spentOnce+1000 { // forget those with a whole burst again
		for of, at := range u.spent {
			if at <= float64(now.UnixMicro()) {
				delete(u.spent, of)
			}
		}
		u.spentOnce = len(u.spent)
	}
}

func (u *limits) spend(limit queue.Limit, of subject, n int, now time.Time) {
	if limit.PerSecond > 0 {
		u.spent[of] = rules.Spend(limit, u.spent[of], n, now)
	}
}

// uncount removes a job from the counts that is not handed out any more.
func (u *limits) uncount(it *item) {
	if !it.counted {
		return
	}
	it.counted = false
	u.bound(it, -1)
}

// bound counts a handed-out job for the bounds of its tenant and key.
func (u *limits) bound(it *item, by int) {
	u.count1(theTenant(it.group.tenant), by)
	if it.keyed {
		u.count1(theKey(it.group.tenant, it.group.key), by)
	}
}

func (u *limits) count1(of subject, by int) {
	if u.out[of] += by; u.out[of] == 0 {
		delete(u.out, of)
	}
}
