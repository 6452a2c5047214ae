package access

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/recent"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// toldMost is how many refused logins are told of in triesFor, from all addresses together.
const toldMost = 200

// untold bounds how many refused logins somebody is told of, as strangers can cause them at any rate:
// one in triesFor of each sender, and toldMost in all. What it remembers is bounded as that of tries.
type untold struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows; held for work in memory only
	of    recent.Cache[string, silence]
	begun time.Time // of the present triesFor
	told  int       // in it
}

// silence is since a refused login of a sender was told of.
type silence struct {
	since   time.Time // zero: none was yet
	refused int       // after it
}

func newUntold(now func() time.Time) *untold {
	return &untold{now: now, of: recent.New[string, silence](triesKept)}
}

// refused counts a refused login of a sender. If due, it is to be told of, with how many there were
// before it that were not. One that had to wait is counted, and never due.
func (u *untold) refused(sender string, waits bool) (more int, due bool) {
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.of.Of(sender)
	if now.Sub(u.begun) >= triesFor {
		u.begun, u.told = now, 0
	}
	if waits || u.told >= toldMost || !s.since.IsZero() && now.Sub(s.since) < triesFor {
		s.refused++
		return 0, false
	}
	u.told++
	more, s.since, s.refused = s.refused, now, 0
	return more, true
}

// letIn is how many of a sender's logins were refused before one that was not, and not told of.
func (u *untold) letIn(sender string) (more int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s, known := u.of.Get(sender); known {
		more, s.refused = s.refused, 0
	}
	return more
}

// tell tells of an attempt to log in: of each that let in, and of some that did not. One that was
// refused as somebody whom a provider knows is one of that person, else of the address alone.
func (g *Guard) tell(r *http.Request, l Login) {
	sender := network(g.from(r))
	if l.Err == nil {
		l.More = g.untold.letIn(sender)
		g.o.Told(r, l)
		return
	}
	g.refused.WithLabelValues(wrongLogin).Inc()
	if l.Who.Via == byProvider && l.Who.Name != stranger {
		sender += " " + l.Who.Name
	}
	p, _ := errors.AsType[*operation.Problem](l.Err)
	more, due := g.untold.refused(sender, p != nil && p.Status == http.StatusTooManyRequests)
	if l.More = more; due {
		g.o.Told(r, l)
	}
}
