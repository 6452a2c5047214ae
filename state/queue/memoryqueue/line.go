package memoryqueue

import (
	"container/heap"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// line is one queue. Store.mu guards it, except turn and wake.
type line struct {
	name string
	no   uint32

	end     uint64         // jobs accepted so far: the position of the newest
	settled tidemill.Count // what became of those that ended
	jobs    map[uint64]*job
	names   map[name]uint64     // position of every name that is remembered
	ids     map[string][]uint64 // positions of jobs held, by ID alone, oldest first
	known   []remembered        // names in the order in which they may be forgotten

	// Heaps of positions. An entry whose job has moved on is skipped when it comes up.
	due   positions
	later times // by when a job comes due
	outs  times // by when a lease ends

	epoch uint32 // of the last hand-out
	gate  gate

	turn *semaphore.Weighted // who waits for jobs; first come, first served
	wake chan struct{}       // cap 1: whoever has the turn shall look again
}

type name struct{ tenant, id string }

type remembered struct {
	name  name
	until time.Time
}

// gate holds deliveries back.
type gate struct {
	closed bool
	until  time.Time
	probes int
	out    int    // hand-outs since it closed that have not ended
	turn   uint32 // one more at each change, so that those before it are not counted
}

// job is one job in its line.
type job struct {
	m     tidemill.Message // At: when it comes due, if it was put off; Tries, Handed: so far
	pos   uint64
	added time.Time
	state queue.State
	cause string
	out   lease // where Leased
}

type lease struct {
	epoch uint32
	owner *source // whose Keep renews it; nil: nobody's
	until time.Time
	probe uint32 // the gate's turn that it counts in; 0: none
}

func newLine(n string, no uint32) *line {
	return &line{name: n, no: no, jobs: map[uint64]*job{}, names: map[name]uint64{}, ids: map[string][]uint64{},
		turn: semaphore.NewWeighted(1), wake: make(chan struct{}, 1)}
}

// signal lets whoever waits for jobs look again.
func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look lets time pass: leases end, jobs come due, names are forgotten.
func (l *line) look(now time.Time) {
	for len(l.outs) > 0 && !l.outs[0].at.After(now) {
		e := heap.Pop(&l.outs).(instant)
		if j := l.jobs[e.pos]; j != nil && j.state == queue.Leased && j.out.epoch == e.epoch {
			if j.out.until.After(now) { // it was renewed
				heap.Push(&l.outs, instant{at: j.out.until, pos: j.pos, epoch: e.epoch})
				continue
			}
			l.release(j)
			l.wait(j)
		}
	}
	for len(l.later) > 0 && !l.later[0].at.After(now) {
		e := heap.Pop(&l.later).(instant)
		if j := l.jobs[e.pos]; j != nil && j.state == queue.Delayed && j.m.At.Equal(e.at) {
			l.wait(j)
		}
	}
	for len(l.known) > 0 && !l.known[0].until.After(now) {
		r := l.known[0]
		l.known = l.known[1:]
		if l.jobs[l.names[r.name]] != nil { // a name is known as long as its job is held
			l.known = append(l.known, remembered{r.name, now.Add(queue.Remember)})
			continue
		}
		delete(l.names, r.name)
	}
}

// next is when time alone will change something; zero: never.
func (l *line) next(now time.Time) time.Time {
	var at time.Time
	for _, h := range []times{l.later, l.outs} {
		if len(h) > 0 && (at.IsZero() || h[0].at.Before(at)) {
			at = h[0].at
		}
	}
	if l.gate.closed && l.gate.until.After(now) && (at.IsZero() || l.gate.until.Before(at)) {
		at = l.gate.until
	}
	return at
}

// add takes a job in.
func (l *line) add(m *tidemill.Message, now time.Time, capacity int) queue.Added {
	n := name{m.Tenant, m.ID}
	if _, known := l.names[n]; known {
		return queue.Known
	}
	if len(l.jobs) >= capacity {
		return queue.Full
	}
	l.end++
	j := &job{m: clone(m, now), pos: l.end, added: queue.Millis(now)}
	l.jobs[j.pos] = j
	l.names[n] = j.pos
	l.known = append(l.known, remembered{n, now.Add(queue.Remember)})
	l.ids[m.ID] = append(l.ids[m.ID], j.pos)
	l.putOff(j, m.At, now)
	return queue.New
}

// wait makes a job due.
func (l *line) wait(j *job) {
	j.state = queue.Waiting
	heap.Push(&l.due, j.pos)
	l.signal()
}

// putOff lets a job come due at that time.
func (l *line) putOff(j *job, at, now time.Time) {
	if !at.After(now) {
		j.m.At = time.Time{}
		l.wait(j)
		return
	}
	j.m.At = queue.MillisUp(at)
	j.state = queue.Delayed
	heap.Push(&l.later, instant{at: j.m.At, pos: j.pos})
	l.signal()
}

// release takes a job from whoever holds it.
func (l *line) release(j *job) {
	if j.out.probe == l.gate.turn && l.gate.closed {
		l.gate.out--
		l.signal()
	}
	j.out = lease{}
}

// end ends a job for good.
func (l *line) drop(j *job) {
	delete(l.jobs, j.pos)
	rest := slices.DeleteFunc(l.ids[j.m.ID], func(p uint64) bool { return p == j.pos })
	if l.ids[j.m.ID] = rest; len(rest) == 0 {
		delete(l.ids, j.m.ID)
	}
}

// allowed is how many of n jobs the gate lets out now.
func (l *line) allowed(n int, now time.Time) int {
	switch {
	case !l.gate.closed:
		return n
	case l.gate.until.After(now):
		return 0
	}
	return min(n, l.gate.probes-l.gate.out)
}

// take hands out the oldest jobs that are due.
func (l *line) take(owner *source, into []*tidemill.Message, now time.Time) (n int) {
	most := l.allowed(len(into), now)
	for n < most && len(l.due) > 0 {
		pos := heap.Pop(&l.due).(uint64)
		j := l.jobs[pos]
		if j == nil || j.state != queue.Waiting {
			continue
		}
		if n == 0 {
			l.epoch++
		}
		j.state = queue.Leased
		j.m.Handed++
		j.out = lease{epoch: l.epoch, owner: owner, until: now.Add(owner.lease)}
		if l.gate.closed {
			j.out.probe = l.gate.turn
			l.gate.out++
		}
		heap.Push(&l.outs, instant{at: j.out.until, pos: pos, epoch: l.epoch})
		j.fill(into[n], l)
		n++
	}
	return n
}

// fill copies a job into a message.
func (j *job) fill(m *tidemill.Message, l *line) {
	m.ID, m.Tenant, m.Type, m.To = j.m.ID, j.m.Tenant, j.m.Type, l.name
	m.Key = append(m.Key[:0], j.m.Key...)
	m.Payload = append(m.Payload[:0], j.m.Payload...)
	m.Header = cloneHeader(m.Header[:0], j.m.Header)
	m.Time, m.At, m.Priority = j.m.Time, j.m.At, j.m.Priority
	m.Tries, m.Handed = j.m.Tries, j.m.Handed
	m.Mark = tidemill.Mark{Shard: l.no, Epoch: j.out.epoch, Lo: j.pos}
}
