package sqlitequeue

import (
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// memory is what this process knows of a queue, in three parts with one duty each: what of
// the log on disk has to be known, which jobs wait, and which are handed out. A job that has
// not ended is in one of the last two, or only in the file. No part knows another: memory
// moves jobs between them, and is reached by queueState.lock alone.
type memory struct {
	settings *queue.Settings // as in queueState.is
	version  int             // how often they were set
	log      fileLog
	waiting  waitingSet
	leases   leases
}

// setSettings takes over settings.
func (m *memory) setSettings(s *queue.Settings) {
	m.settings = s
	m.version++
	m.waiting.apart = howApart(m.waiting.apart.no, s)
	m.leases.setLimits(s)
}

// added takes up added jobs once those before them were taken up.
func (m *memory) added(p *part) {
	w := &m.waiting
	w.early = append(w.early, p)
	for i := 0; i < len(w.early); i++ {
		if next := w.early[i]; next.base == w.end {
			w.early = slices.Delete(w.early, i, i+1)
			w.addPart(next, len(m.leases.outs))
			m.log.added(next)
			i = -1
		}
	}
}

// next is when time alone will change something, if most jobs may be handed out now; zero:
// never.
func (m *memory) next(now time.Time, most int) time.Time {
	if g := &m.leases.gate; g.closed && g.until.After(now) {
		return g.until
	}
	at := m.leases.expiry
	if most <= 0 {
		return at
	}
	at = sooner(at, m.waiting.next(now))
	return sooner(at, m.leases.again)
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// nextLook is when to look again after no job was chosen. That is at once while the file has
// groups that were not read.
func (m *memory) nextLook(now time.Time, most int) time.Time {
	next := m.next(now, most)
	if most <= 0 || !m.waiting.listing.unlisted {
		return next
	}
	if m.waiting.listing.again() {
		return now
	}
	return sooner(next, now.Add(time.Second)) // some of them may go on in a while
}

// expire lets jobs wait again whose leases have ended.
func (m *memory) expire(now time.Time) {
	for _, o := range m.leases.expire(now) {
		if o.past = nil; o.group.ordered {
			o.due = firstDue
		}
		m.waiting.push(o.item)
	}
}

// allowed is how many of n jobs may be handed out now, by the gate.
func (m *memory) allowed(n int, now time.Time) int {
	if m.settings.Paused {
		return 0
	}
	return m.leases.gate.allows(n, now)
}

// putBack lets chosen jobs wait again.
func (m *memory) putBack(chosen []item) {
	for _, it := range chosen {
		m.leases.uncount(&it)
		m.waiting.push(it)
	}
	m.waiting.wake.signal()
}

// marks plans to count jobs up to top as handed out once, where they are not yet.
func (m *memory) marks(k *change, top uint64) {
	epoch := m.leases.epoch
	if top <= m.log.mark && epoch+1 < m.log.epochs {
		return
	}
	k.mark, k.epochs = max(top, m.log.mark, m.waiting.nextMark()), epoch+pageJobs
}

// lend hands chosen jobs out to a source, except the damaged ones, which have left the queue;
// nil: all were damaged.
func (m *memory) lend(good []item, damaged []damage, into []*tidemill.Message, to *source) *grant {
	for i := range good { // a job that was handed out before is late now
		if good[i].seg != nil && good[i].handed > 0 {
			good[i].seg = nil
			m.waiting.late.hot[good[i].n] = struct{}{}
		}
	}
	for i := range damaged {
		it := &damaged[i].item
		m.leases.uncount(it)
		m.waiting.free(it.group, it.n)
	}
	if len(good) == 0 {
		m.waiting.wake.signal() // look again
		return nil
	}
	for i := range good {
		good[i].group = m.waiting.apart.withKey(good[i].group, into[i].Key)
	}
	return m.leases.lease(good, into, to, to.store.o.Now())
}

// moveOn lets a settled job wait again, or the next one of its key.
func (m *memory) moveOn(e *ending) {
	it := &e.item
	switch e.end.End {
	case tidemill.Done:
		if !it.group.ordered {
			return
		}
		if s := m.waiting.groups[it.group.id]; s != nil {
			m.waiting.free(s, it.n)
		}
	case tidemill.Again: // it is late now
		delete(m.waiting.late.hot, it.n)
		it.seg, it.rec, it.past, it.counted = nil, nil, nil, false
		it.group = m.waiting.apart.withKey(it.group, e.key)
		if e.at == 0 {
			m.waiting.takeUp(*it)
			return
		}
		m.waiting.late.noteDue(e.at) // found by time
		if it.group.ordered && !e.joins {
			m.waiting.putOff(it, len(m.leases.outs))
		}
	}
}

// fill takes up the jobs that were read, except those that are gone.
func (m *memory) fill(pages []*page, gone map[uint64]struct{}) {
	for _, p := range pages {
		s := m.waiting.keep(p.group)
		if m.waiting.listing.relists { // it may have been read before
			p.items = slices.DeleteFunc(p.items, func(it item) bool {
				_, is := gone[it.n]
				return is || m.leases.outs[it.n] != nil || m.waiting.backs[it.n] != nil
			})
		}
		for i := range p.items {
			m.log.share(&p.items[i])
		}
		m.waiting.readAhead(s, p)
	}
}

// applied makes a change that was written.
func (m *memory) applied(k *change) {
	m.log.applied(k)
	m.waiting.late.applied(k)
}

// ends begins to change what is kept.
func (m *memory) ends(now time.Time) *ends {
	return &ends{settings: m.settings, now: now.UnixMilli(), had: m.log.kept}
}

// learn takes up the result of a look-up, without jobs that have ended meanwhile.
func (m *memory) learn(k *lookUp, gone map[uint64]struct{}, now int64) {
	s := k.group
	s.unsure, s.lateTo = false, after{}
	for i := range k.late {
		it := &k.late[i]
		if _, ended := gone[it.n]; ended {
			continue
		}
		it.group, it.priority = s, it.head.priority
		if k.more {
			s.lateTo = it.after()
		}
		if _, hot := m.waiting.late.hot[it.n]; !hot && it.at > now {
			s.holder = it.n // delayed: it comes when it is due
		} else {
			m.waiting.takeUp(it.item)
		}
	}
	if k.segs {
		m.fill([]*page{&k.page}, gone)
	}
	s.asked = false
	m.waiting.seat(s)
}
