package redissource

import "time"

// lefts are the entries that were left: their leases are not renewed, and they are not
// handed out until an ack comes or they have been idle for a lease. Two generations forget
// each of them after one lease to two, without a search.
type lefts struct {
	young, old map[place]struct{}
	turned     time.Time
}

func (l *lefts) empty() { l.young, l.old = map[place]struct{}{}, map[place]struct{}{} }

func (l *lefts) add(p place) { l.young[p] = struct{}{} }

func (l *lefts) drop(p place) {
	delete(l.young, p)
	delete(l.old, p)
}

func (l *lefts) has(p place) bool {
	_, young := l.young[p]
	_, old := l.old[p]
	return young || old
}

// turn forgets the old generation, once in a lease.
func (l *lefts) turn(lease time.Duration) {
	if now := time.Now(); now.Sub(l.turned) >= lease {
		l.turned, l.old, l.young = now, l.young, map[place]struct{}{}
	}
}
