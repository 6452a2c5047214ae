package rules

import (
	"maps"
	"math"
	"time"

	"github.com/tidemill/tidemill/state/queue"
)

// Turn is Limiter.Turn of a queue whose gate is shut until gate. spent is what Spend
// returned for its rate and for the tenant's, and is moved on.
func Turn(s *queue.Settings, tenant string, n int, gate, now time.Time, spent *[2]float64) (may int, at time.Time) {
	if s.Paused {
		return 0, time.Time{}
	}
	if gate.After(now) {
		return 0, gate
	}
	both := [2]queue.Limit{s.Limit, s.LimitOf(tenant)}
	for i := range both {
		both[i].AtOnce = 0 // bounds count what is leased
		var later time.Time
		if n, later = Allow(both[i], 0, n, spent[i], now); at.IsZero() || !later.IsZero() && later.Before(at) {
			at = later
		}
	}
	for i, l := range both {
		if n > 0 && l.PerSecond > 0 {
			spent[i] = Spend(l, spent[i], n, now)
		}
	}
	return n, at
}

// Interval is the time for one job, in microseconds; 0: no limit of the rate.
func Interval(l queue.Limit) float64 {
	if l.PerSecond <= 0 {
		return 0
	}
	return 1e6 / l.PerSecond
}

// Ahead is how many jobs may go at once after a pause.
func Ahead(l queue.Limit) int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(math.Floor(l.PerSecond/10)))
}

// Allow says how many of most jobs the limit lets go now, while out of its jobs are leased.
// spent is what Spend returned last; 0: nothing yet. Where none may go, at is when the rate
// lets one go; zero: when a leased one ends.
func Allow(l queue.Limit, out, most int, spent float64, now time.Time) (n int, at time.Time) {
	if l.AtOnce > 0 {
		most = min(most, max(0, l.AtOnce-out))
	}
	each := Interval(l)
	if each == 0 || most == 0 {
		return most, time.Time{}
	}
	micros, ahead := float64(now.UnixMicro()), float64(Ahead(l))
	spent = sane(l, spent, micros)
	if free := math.Floor((micros+ahead*each-max(spent, micros))/each + 1e-6); free >= 1 {
		return min(most, int(free)), time.Time{}
	}
	return 0, time.UnixMicro(int64(math.Ceil(spent + each - ahead*each)))
}

// Spend is until when the rate is used up, in microseconds since 1970, after n more jobs
// have gone now. Call it only for limits with a rate.
func Spend(l queue.Limit, spent float64, n int, now time.Time) float64 {
	micros := float64(now.UnixMicro())
	return max(sane(l, spent, micros), micros) + float64(n)*Interval(l)
}

// sane is spent, or 0 where it is more than can be used up: the clock stepped back.
func sane(l queue.Limit, spent, micros float64) float64 {
	if spent > micros+float64(Ahead(l)+1)*Interval(l) {
		return 0
	}
	return spent
}

// SameLimits says whether all limits are the same. Where one changed, the use of the old
// ones is forgotten.
func SameLimits(s, o *queue.Settings) bool {
	return s.Limit == o.Limit && s.Tenant == o.Tenant && s.Key == o.Key && maps.Equal(s.Tenants, o.Tenants)
}

// Keyed says whether a tenant's jobs are kept apart by their keys.
func Keyed(s *queue.Settings) bool { return s.Fair == queue.ByKey || s.Key != queue.Limit{} }

// Weight of a priority.
func Weight(s *queue.Settings, p uint8) int {
	if w := s.Weights[p]; w > 0 {
		return w
	}
	return 1 << (2 * min(p, 4))
}

// Capacity is how many jobs the queue may hold in a store with that limit for each queue.
func Capacity(s *queue.Settings, store int) int {
	if s.Max > 0 {
		return s.Max
	}
	return store
}
