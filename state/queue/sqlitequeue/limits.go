package sqlitequeue

import (
	"context"
	"time"

	"github.com/tidemill/tidemill/state/queue"
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
// out, and every rate has its whole burst. mu of the line guards it.
type limits struct {
	counts    bool                // bounds are set, so hand-outs of tenants and keys are counted
	rates     bool                // rates are set
	out       map[subject]int     // hand-outs of tenants and keys
	spent     map[subject]float64 // until when, in microseconds, a rate is used up
	spentOnce int                 // how many rates there were at the last clean-up
}

// obey sets the limits of the settings.
func (u *limits) obey(s *queue.Settings) {
	u.counts, u.rates = false, s.Limit.PerSecond > 0
	for _, l := range []queue.Limit{s.Tenant, s.Key} {
		u.counts, u.rates = u.counts || l.AtOnce > 0, u.rates || l.PerSecond > 0
	}
	for _, l := range s.Tenants {
		u.counts, u.rates = u.counts || l.AtOnce > 0, u.rates || l.PerSecond > 0
	}
	if u.out == nil {
		u.out, u.spent = map[subject]int{}, map[subject]float64{}
	}
}

// may is how many of most jobs a limit lets a tenant or key have now.
func (t *turn) may(limit queue.Limit, who subject, most int) int {
	if limit == (queue.Limit{}) {
		return most
	}
	return t.allowed(limit, who, t.l.out[who], most)
}

// allowed is how many of most jobs a limit lets go now.
func (t *turn) allowed(limit queue.Limit, who subject, out, most int) int {
	n, at := limit.Allow(out, most, t.l.spent[who], t.now)
	if !at.IsZero() && (t.again.IsZero() || at.Before(t.again)) {
		t.again = at
	}
	return n
}

// Turn implements queue.Limiter.
func (s *Store) Turn(ctx context.Context, name, tenant string, n int) (int, time.Time, error) {
	l := s.find(name)
	if l == nil || ctx.Err() != nil {
		return n, time.Time{}, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var gate time.Time
	if l.gate.closed {
		gate = l.gate.until
	}
	who := [2]subject{{}, theTenant(tenant)}
	spent := [2]float64{l.spent[who[0]], l.spent[who[1]]}
	n, at := l.settings.Turn(tenant, n, gate, s.o.Now(), &spent)
	for i, used := range spent {
		if used > 0 {
			l.spent[who[i]] = used
		}
	}
	return n, at, nil
}

// charge counts jobs that are handed out against all limits. mu is held.
func (l *line) charge(tenant, key string, n int, now time.Time) {
	if n == 0 {
		return
	}
	if l.counts {
		l.count1(theTenant(tenant), n)
		if key != "" {
			l.count1(theKey(tenant, key), n)
		}
	}
	if l.rates {
		l.spend(l.settings.Limit, subject{}, n, now)
		l.spend(l.settings.LimitOf(tenant), theTenant(tenant), n, now)
		if key != "" {
			l.spend(l.settings.Key, theKey(tenant, key), n, now)
		}
	}
	if len(l.spent) > 2*l.spentOnce+1000 { // forget those with a whole burst again
		for who, at := range l.spent {
			if at <= float64(now.UnixMicro()) {
				delete(l.spent, who)
			}
		}
		l.spentOnce = len(l.spent)
	}
}

func (l *line) spend(limit queue.Limit, who subject, n int, now time.Time) {
	if limit.PerSecond > 0 {
		l.spent[who] = limit.Spend(l.spent[who], n, now)
	}
}

// uncount removes a job from the counts that is not handed out any more. mu is held.
func (l *line) uncount(it *item) {
	if !it.counted {
		return
	}
	it.counted = false
	l.bound(it, -1)
}

// bound counts a handed-out job for the bounds of its tenant and key.
func (l *limits) bound(it *item, by int) {
	l.count1(theTenant(it.strand.tenant), by)
	if it.keyed {
		l.count1(theKey(it.strand.tenant, it.strand.key), by)
	}
}

func (l *limits) count1(who subject, by int) {
	if l.out[who] += by; l.out[who] == 0 {
		delete(l.out, who)
	}
}
