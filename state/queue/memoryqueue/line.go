package memoryqueue

import (
	"container/heap"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// line is one queue. Store.mu guards it, except turn and wake.
type line struct {
	name     string
	no       uint32
	settings queue.Settings
	version  int // how often they were set

	end     uint64         // jobs accepted so far: the position of the newest
	settled tidemill.Count // the fates of ended jobs
	jobs    map[uint64]*job
	states  map[queue.State]int
	names   map[name]uint64     // position of every name that is remembered
	ids     map[string][]uint64 // positions of jobs held, by ID alone, oldest first
	known   []remembered        // names in the order in which they may be forgotten

	levels []*level           // those that ever had a job, the highest first
	pass   float64            // of the level that was served last
	chains map[subject]*chain // of keys, with strict order

	out       map[subject]int     // hand-outs of tenants and keys
	spent     map[subject]float64 // until when, in microseconds, a rate is used up
	spentOnce int                 // how many rates there were at the last clean-up
	again     time.Time           // when a limit lets a held-back job go; zero: none is held back

	// Heaps. An entry whose job has moved on is skipped when it comes up.
	later times // by when a job comes due
	outs  times // by when a lease ends

	ended map[queue.State][]*job // kept after their end, the first to end first

	epoch uint32 // of the last hand-out
	gate  gate

	turn *semaphore.Weighted // callers that wait for jobs; first come, first served
	wake chan struct{}       // cap 1: the holder of turn shall look again
}

type name struct{ tenant, id string }

type remembered struct {
	name  name
	pos   uint64 // of its job
	until time.Time
}

// chain is the ordered group of jobs of one key.
type chain struct {
	first *job   // may be handed out, is handed out, or is delayed after a try
	rest  []*job // wait for its end
}

// gate holds deliveries back.
type gate struct {
	closed bool
	until  time.Time
	probes int
	out    int    // hand-outs since it closed that have not ended
	turn   uint32 // one more at each change, so that earlier hand-outs are not counted
}

// job is one job in its line.
type job struct {
	m     tidemill.Message // At: when it comes due, if it was delayed; Tries, Handed: so far
	pos   uint64
	added time.Time
	state queue.State
	cause string
	fails []queue.Failure
	out   lease // where Leased

	flow  string // the leaf that it waits in
	index int    // in that leaf
	ready bool   // it waits there: else an earlier job of its key holds it back

	fate  tidemill.Fate // once it has ended
	ended time.Time
}

type lease struct {
	epoch uint32
	owner *source // its Keep renews it; nil: none
	until time.Time
	probe uint32 // the gate's turn that it counts in; 0: none
}

func newLine(n string, no uint32) *line {
	return &line{name: n, no: no, jobs: map[uint64]*job{}, states: map[queue.State]int{}, names: map[name]uint64{}, ids: map[string][]uint64{},
		chains: map[subject]*chain{}, out: map[subject]int{}, spent: map[subject]float64{}, ended: map[queue.State][]*job{},
		turn: semaphore.NewWeighted(1), wake: make(chan struct{}, 1)}
}

func (l *line) count(s queue.State) int64 { return int64(l.states[s]) }

// held is how many jobs have not ended.
func (l *line) held() int {
	return l.states[queue.Waiting] + l.states[queue.Delayed] + l.states[queue.Leased]
}

// is gives a job another state.
func (l *line) is(j *job, s queue.State) {
	l.states[j.state]--
	j.state = s
	l.states[s]++
}

// signal wakes the holder of the turn.
func (l *line) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look lets time pass: leases end, jobs come due, kept jobs and names are forgotten.
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
		switch {
		case l.jobs[r.pos] != nil: // a name is known as long as its job is stored
			l.known = append(l.known, remembered{r.name, r.pos, now.Add(queue.Remember)})
		case l.names[r.name] == r.pos: // else it was accepted again
			delete(l.names, r.name)
		}
	}
	l.trim(now)
}

// next is when time alone will change something; zero: never.
func (l *line) next(now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, h := range []times{l.later, l.outs} {
		if len(h) > 0 {
			sooner(h[0].at)
		}
	}
	if l.gate.closed && l.gate.until.After(now) {
		sooner(l.gate.until)
	}
	sooner(l.again)
	return at
}

// add takes a job in.
func (l *line) add(m *tidemill.Message, now time.Time, capacity int) queue.Added {
	n := name{m.Tenant, m.ID}
	if _, known := l.names[n]; known {
		return queue.Known
	}
	if l.settings.Closed {
		return queue.Closed
	}
	if l.held() >= rules.Capacity(&l.settings, capacity) {
		return queue.Full
	}
	l.accept(clone(m, now), nil, m.At, now)
	return queue.New
}

// accept gives a job the next position.
func (l *line) accept(m tidemill.Message, fails []queue.Failure, at, now time.Time) {
	l.end++
	j := &job{m: m, pos: l.end, added: queue.Millis(now), fails: fails}
	l.jobs[j.pos] = j
	n := name{m.Tenant, m.ID}
	l.names[n] = j.pos
	l.known = append(l.known, remembered{n, j.pos, now.Add(queue.Remember)})
	l.ids[m.ID] = append(l.ids[m.ID], j.pos)
	l.putOff(j, at, now)
}

// wait makes a job due.
func (l *line) wait(j *job) {
	l.is(j, queue.Waiting)
	if l.settings.Ordered && len(j.m.Key) > 0 {
		c := l.chains[j.chain()]
		if c == nil {
			c = &chain{first: j}
			l.chains[j.chain()] = c
		}
		if c.first != j {
			c.rest = append(c.rest, j)
			return
		}
	}
	l.push(j)
	l.signal()
}

// holds lets a job that goes back be the first of its key. It may not have been: a
// settlement by ID alone may settle a job that waits behind another.
func (l *line) holds(j *job) {
	if c := l.chains[j.chain()]; c != nil && c.first != j {
		c.rest = slices.DeleteFunc(c.rest, func(o *job) bool { return o == j })
	}
}

func (j *job) chain() subject { return theKey(j.m.Tenant, string(j.m.Key)) }

// putOff delays a job until at.
func (l *line) putOff(j *job, at, now time.Time) {
	if !at.After(now) {
		j.m.At = time.Time{}
		l.wait(j)
		return
	}
	j.m.At = queue.MillisUp(at)
	l.is(j, queue.Delayed)
	heap.Push(&l.later, instant{at: j.m.At, pos: j.pos})
	l.signal()
}

// release takes a job from its holder, if it has one.
func (l *line) release(j *job) {
	if j.state != queue.Leased {
		return
	}
	if j.out.probe == l.gate.turn && l.gate.closed {
		l.gate.out--
	}
	j.out = lease{}
	l.counts(j, -1)
	l.signal()
}

// leave removes a job from where it waits or is.
func (l *line) leave(j *job) {
	l.release(j)
	if j.ready {
		l.pull(j)
	}
}

// drop ends a job for good: the next of its key may go.
func (l *line) drop(j *job, fate tidemill.Fate, kind tidemill.Kind, cause string, now time.Time) {
	l.leave(j)
	if c := l.chains[j.chain()]; c != nil {
		switch {
		case c.first != j:
			c.rest = slices.DeleteFunc(c.rest, func(o *job) bool { return o == j })
		case len(c.rest) == 0:
			delete(l.chains, j.chain())
		default:
			c.first, c.rest = c.rest[0], c.rest[1:]
			l.push(c.first)
			l.signal()
		}
	}
	rest := slices.DeleteFunc(l.ids[j.m.ID], func(p uint64) bool { return p == j.pos })
	if l.ids[j.m.ID] = rest; len(rest) == 0 {
		delete(l.ids, j.m.ID)
	}
	state, keep := queue.Completed, l.settings.Completed
	if fate == tidemill.Dead {
		state, keep = queue.Failed, l.settings.Failed
	}
	if keep.Count == 0 || fate == tidemill.None {
		l.forget(j)
		return
	}
	l.is(j, state)
	j.fate, j.ended, j.m.At = fate, queue.Millis(now), time.Time{}
	if fate == tidemill.Dead {
		j.fails = rules.AddFailure(j.fails, queue.Failure{At: now, Kind: kind, Cause: cause})
	}
	if cause != "" {
		j.cause = cause
	}
	l.ended[state] = append(l.ended[state], j)
	l.trim(now)
}

// forget deletes a job. Its name stays known for its time.
func (l *line) forget(j *job) {
	l.states[j.state]--
	delete(l.jobs, j.pos)
}

// trim deletes what need not be kept any longer.
func (l *line) trim(now time.Time) {
	for _, k := range []struct {
		state queue.State
		keep  queue.Keep
	}{{queue.Completed, l.settings.Completed}, {queue.Failed, l.settings.Failed}} {
		kept := l.ended[k.state]
		for len(kept) > 0 && (len(kept) > k.keep.Count || k.keep.Age > 0 && !kept[0].ended.Add(k.keep.Age).After(now)) {
			l.forget(kept[0])
			kept = kept[1:]
		}
		l.ended[k.state] = kept
	}
}

// allowed is how many of n jobs the gate lets out now.
func (l *line) allowed(n int, now time.Time) int {
	switch {
	case l.settings.Paused:
		return 0
	case !l.gate.closed:
		return n
	case l.gate.until.After(now):
		return 0
	}
	return min(n, l.gate.probes-l.gate.out)
}

// take hands out due jobs.
func (l *line) take(owner *source, into []*tidemill.Message, now time.Time) (n int) {
	t := turn{l: l, now: now}
	t.give = func(j *job) {
		if n == 0 {
			l.epoch++
		}
		l.is(j, queue.Leased)
		j.m.Handed++
		j.out = lease{epoch: l.epoch, owner: owner, until: now.Add(owner.lease)}
		if l.gate.closed {
			j.out.probe = l.gate.turn
			l.gate.out++
		}
		l.charge(j, now)
		l.counts(j, 1)
		heap.Push(&l.outs, instant{at: j.out.until, pos: j.pos, epoch: l.epoch})
		j.fill(into[n], l)
		into[n].Header = rules.AppendFailures(into[n].Header, j.fails)
		n++
	}
	t.take(l.allowed(len(into), now))
	l.again = t.again
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
