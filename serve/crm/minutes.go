package crm

import (
	"net/http"
	"sync"
	"time"
)

// minutes count the events of tenants, minute by minute. There are as many entries as
// tenants that have a key and used it.
type minutes struct {
	mu sync.Mutex // guards what follows
	of map[string]*minute
}

// minute is a tenant's current one.
type minute struct {
	until time.Time
	count int
}

// admit counts n events in the tenant's minute if there is room for all of them. What is
// more than a whole minute's is let in where it is a minute's first.
func (m *minutes) admit(tenant string, n, most int, now time.Time) (ok bool, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*minute{}
	}
	t := m.of[tenant]
	if t == nil {
		t = &minute{}
		m.of[tenant] = t
	}
	if !now.Before(t.until) {
		*t = minute{until: now.Truncate(time.Minute).Add(time.Minute)}
	}
	if t.count > 0 && t.count+n > most {
		return false, t.until
	}
	t.count += n
	return true, t.until
}

// admit refuses events of a tenant that has sent too many.
func (x *exchange) admit(n int) *problem {
	most := x.h.o.Limits.PerMinute
	if most == 0 {
		return nil
	}
	now := x.h.o.Now()
	ok, until := x.h.minutes.admit(x.tenant, n, most, now)
	if ok {
		return nil
	}
	return &problem{code: http.StatusTooManyRequests, error: "rate_limited", text: "the tenant's events of this minute are used up, or would be with these", after: int(until.Sub(now)/time.Second) + 1}
}
