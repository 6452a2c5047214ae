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

// queueState is one queue. Store.mu guards it, except turn and wake.
type queueState struct {
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

	levels []*level                  // those that ever had a job, the highest first
	pass   float64                   // of the level that was served last
	groups map[subject]*orderedGroup // of keys, with strict order

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

// orderedGroup is the jobs of one key, in order.
type orderedGroup struct {
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

// job is one job in its queue.
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

func newQueueState(n string, no uint32) *queueState {
	return &queueState{name: n, no: no, jobs: map[uint64]*job{}, states: map[queue.State]int{}, names: map[name]uint64{}, ids: map[string][]uint64{},
		groups: map[subject]*orderedGroup{}, out: map[subject]int{}, spent: map[subject]float64{}, ended: map[queue.State][]*job{},
		turn: semaphore.NewWeighted(1), wake: make(chan struct{}, 1)}
}

func (q *queueState) count(s queue.State) int64 { return int64(q.states[s]) }

// held is how many jobs have not ended.
func (q *queueState) held() int {
	return q.states[queue.Waiting] + q.states[queue.Delayed] + q.states[queue.Leased]
}

// is gives a job another state.
func (q *queueState) is(j *job, s queue.State) {
	q.states[j.state]--
	j.state = s
	q.states[s]++
}

// signal wakes the holder of the turn.
func (q *queueState) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// look lets time pass: leases end, jobs come due, kept jobs and names are forgotten.
func (q *queueState) look(now time.Time) {
	for len(q.outs) > 0 && !q.outs[0].at.After(now) {
		e := heap.Pop(&q.outs).(instant)
		if j := q.jobs[e.pos]; j != nil && j.state == queue.Leased && j.out.epoch == e.epoch {
			if j.out.until.After(now) { // it was renewed
				heap.Push(&q.outs, instant{at: j.out.until, pos: j.pos, epoch: e.epoch})
				continue
			}
			q.release(j)
			q.wait(j)
		}
	}
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		e := heap.Pop(&q.later).(instant)
		if j := q.jobs[e.pos]; j != nil && j.state == queue.Delayed && j.m.At.Equal(e.at) {
			q.wait(j)
		}
	}
	for len(q.known) > 0 && !q.known[0].until.After(now) {
		r := q.known[0]
		q.known = q.known[1:]
		switch {
		case q.jobs[r.pos] != nil: // a name is known as long as its job is stored
			q.known = append(q.known, remembered{r.name, r.pos, now.Add(queue.Remember)})
		case q.names[r.name] == r.pos: // else it was accepted again
			delete(q.names, r.name)
		}
	}
	q.trim(now)
}

// next is when time alone will change something; zero: never.
func (q *queueState) next(now time.Time) time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, h := range []times{q.later, q.outs} {
		if len(h) > 0 {
			sooner(h[0].at)
		}
	}
	if q.gate.closed && q.gate.until.After(now) {
		sooner(q.gate.until)
	}
	sooner(q.again)
	return at
}

// add takes a job in.
func (q *queueState) add(m *tidemill.Message, now time.Time, capacity int) queue.Added {
	n := name{m.Tenant, m.ID}
	if _, known := q.names[n]; known {
		return queue.Known
	}
	if q.settings.Closed {
		return queue.Closed
	}
	if q.held() >= rules.Capacity(&q.settings, capacity) {
		return queue.Full
	}
	q.accept(clone(m, now), nil, m.At, now)
	return queue.New
}

// accept gives a job the next position.
func (q *queueState) accept(m tidemill.Message, fails []queue.Failure, at, now time.Time) {
	q.end++
	j := &job{m: m, pos: q.end, added: queue.Millis(now), fails: fails}
	q.jobs[j.pos] = j
	n := name{m.Tenant, m.ID}
	q.names[n] = j.pos
	q.known = append(q.known, remembered{n, j.pos, now.Add(queue.Remember)})
	q.ids[m.ID] = append(q.ids[m.ID], j.pos)
	q.putOff(j, at, now)
}

// wait makes a job due.
func (q *queueState) wait(j *job) {
	q.is(j, queue.Waiting)
	if q.settings.Ordered && len(j.m.Key) > 0 {
		c := q.groups[j.groupKey()]
		if c == nil {
			c = &orderedGroup{first: j}
			q.groups[j.groupKey()] = c
		}
		if c.first != j {
			c.rest = append(c.rest, j)
			return
		}
	}
	q.push(j)
	q.signal()
}

// holds lets a job that goes back be the first of its key. It may not have been: a
// settlement by ID alone may settle a job that waits behind another.
func (q *queueState) holds(j *job) {
	if c := q.groups[j.groupKey()]; c != nil && c.first != j {
		c.rest = slices.DeleteFunc(c.rest, func(o *job) bool { return o == j })
	}
}

func (j *job) groupKey() subject { return theKey(j.m.Tenant, string(j.m.Key)) }

// putOff delays a job until at.
func (q *queueState) putOff(j *job, at, now time.Time) {
	if !at.After(now) {
		j.m.At = time.Time{}
		q.wait(j)
		return
	}
	j.m.At = queue.MillisUp(at)
	q.is(j, queue.Delayed)
	heap.Push(&q.later, instant{at: j.m.At, pos: j.pos})
	q.signal()
}

// release takes a job from its holder, if it has one.
func (q *queueState) release(j *job) {
	if j.state != queue.Leased {
		return
	}
	if j.out.probe == q.gate.turn && q.gate.closed {
		q.gate.out--
	}
	j.out = lease{}
	q.counts(j, -1)
	q.signal()
}

// leave removes a job from where it waits or is.
func (q *queueState) leave(j *job) {
	q.release(j)
	if j.ready {
		q.pull(j)
	}
}

// drop ends a job for good: the next of its key may go.
func (q *queueState) drop(j *job, fate tidemill.Fate, kind tidemill.Kind, cause string, now time.Time) {
	q.leave(j)
	if c := q.groups[j.groupKey()]; c != nil {
		switch {
		case c.first != j:
			c.rest = slices.DeleteFunc(c.rest, func(o *job) bool { return o == j })
		case len(c.rest) == 0:
			delete(q.groups, j.groupKey())
		default:
			c.first, c.rest = c.rest[0], c.rest[1:]
			q.push(c.first)
			q.signal()
		}
	}
	rest := slices.DeleteFunc(q.ids[j.m.ID], func(p uint64) bool { return p == j.pos })
	if q.ids[j.m.ID] = rest; len(rest) == 0 {
		delete(q.ids, j.m.ID)
	}
	state, keep := queue.Completed, q.settings.Completed
	if fate == tidemill.Dead {
		state, keep = queue.Failed, q.settings.Failed
	}
	if keep.Count == 0 || fate == tidemill.None {
		q.forget(j)
		return
	}
	q.is(j, state)
	j.fate, j.ended, j.m.At = fate, queue.Millis(now), time.Time{}
	if fate == tidemill.Dead {
		j.fails = rules.AddFailure(j.fails, queue.Failure{At: now, Kind: kind, Cause: cause})
	}
	if cause != "" {
		j.cause = cause
	}
	q.ended[state] = append(q.ended[state], j)
	q.trim(now)
}

// forget deletes a job. Its name stays known for its time.
func (q *queueState) forget(j *job) {
	q.states[j.state]--
	delete(q.jobs, j.pos)
}

// trim deletes what need not be kept any longer.
func (q *queueState) trim(now time.Time) {
	for _, k := range []struct {
		state queue.State
		keep  queue.Keep
	}{{queue.Completed, q.settings.Completed}, {queue.Failed, q.settings.Failed}} {
		kept := q.ended[k.state]
		for len(kept) > 0 && (len(kept) > k.keep.Count || k.keep.Age > 0 && !kept[0].ended.Add(k.keep.Age).After(now)) {
			q.forget(kept[0])
			kept = kept[1:]
		}
		q.ended[k.state] = kept
	}
}

// allowed is how many of n jobs the gate lets out now.
func (q *queueState) allowed(n int, now time.Time) int {
	switch {
	case q.settings.Paused:
		return 0
	case !q.gate.closed:
		return n
	case q.gate.until.After(now):
		return 0
	}
	return min(n, q.gate.probes-q.gate.out)
}

// take hands out due jobs.
func (q *queueState) take(owner *source, into []*tidemill.Message, now time.Time) (n int) {
	t := turn{queue: q, now: now}
	t.give = func(j *job) {
		if n == 0 {
			q.epoch++
		}
		q.is(j, queue.Leased)
		j.m.Handed++
		j.out = lease{epoch: q.epoch, owner: owner, until: now.Add(owner.lease)}
		if q.gate.closed {
			j.out.probe = q.gate.turn
			q.gate.out++
		}
		q.charge(j, now)
		q.counts(j, 1)
		heap.Push(&q.outs, instant{at: j.out.until, pos: j.pos, epoch: q.epoch})
		j.fill(into[n], q)
		into[n].Header = rules.AppendFailures(into[n].Header, j.fails)
		n++
	}
	t.take(q.allowed(len(into), now))
	q.again = t.again
	return n
}

// fill copies a job into a message.
func (j *job) fill(m *tidemill.Message, q *queueState) {
	m.ID, m.Tenant, m.Type, m.To = j.m.ID, j.m.Tenant, j.m.Type, q.name
	m.Key = append(m.Key[:0], j.m.Key...)
	m.Payload = append(m.Payload[:0], j.m.Payload...)
	m.Header = cloneHeader(m.Header[:0], j.m.Header)
	m.Time, m.At, m.Priority = j.m.Time, j.m.At, j.m.Priority
	m.Tries, m.Handed = j.m.Tries, j.m.Handed
	m.Mark = tidemill.Mark{Shard: q.no, Epoch: j.out.epoch, Lo: j.pos}
}
