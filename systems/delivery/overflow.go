package delivery

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// A partner's queue has a limit. So that routing never waits for a full queue, events beyond
// the limit are routed to a queue beside it (ParkedOf) in the same transaction. The pipeline of
// that queue applies the partner's policy: it moves jobs into the partner's queue when there is
// room, in their order, or makes dead letters of them. The limit is approximate: one instance
// exceeds it at most by the events that its routing holds, several at most by those of a
// second. The queues themselves take any number of partners' jobs.

// parked is the prefix of the names of the queues beside partners' queues.
const parked = "parked."

// unbounded is the capacity of partners' queues: routing keeps their limits.
const unbounded = 1 << 40

// Reasons of jobs that are skipped without being sent.
const (
	Expired     = "expired"     // older than the partner's maximum age
	SwitchedOff = "partner_off" // the partner is switched off
)

// QueuedHeader says when an event was routed, in ms since 1970, on jobs that have a maximum
// age.
const QueuedHeader = "queued"

// ParkedOf names the queue of jobs that find no room in a partner's queue, and its pipeline.
func ParkedOf(partner string) string { return parked + partner }

// level is how much waits for a partner, and how much this instance dropped.
type level struct {
	queued  atomic.Int64 // jobs in its queue when last counted, plus and minus those that this instance moved since
	parked  atomic.Int64 // the same of the queue beside it
	off     atomic.Bool  // it is switched off
	dropped atomic.Uint64
	expired atomic.Uint64
}

// place names the queue of a new job.
func (t *target) place() string {
	l := &t.level
	switch {
	case l.off.Load(), t.Queue.Full == partner.Hold && l.parked.Load() > 0: // jobs parked before it go first
	case t.Queue.Full == partner.DropOldest || l.queued.Load() < t.limit:
		return t.queue
	}
	return ParkedOf(t.Name)
}

// moved counts the jobs that settlements brought into partners' queues, and those that they
// ended there.
func (s *System) moved(pipeline string, ends []tidemill.Settlement) {
	counts := s.now().counts
	from := counts[pipeline]
	for i := range ends {
		e := &ends[i]
		if e.Outcome != tidemill.Applied || e.End != tidemill.Done {
			continue
		}
		if from != nil {
			from.Add(-1)
		}
		for _, m := range e.Next {
			if to := counts[m.To]; to != nil {
				to.Add(1)
			}
		}
	}
}

// levels counts what waits for partners.
func (s *System) levels(ctx context.Context, targets []*target) error {
	for _, t := range targets {
		if err := s.count(ctx, ParkedOf(t.Name), &t.level.parked); err != nil {
			return err
		}
		if err := s.count(ctx, t.queue, &t.level.queued); err != nil {
			return err
		}
		is, err := s.p.Queues.Settings(ctx, t.queue)
		if err != nil {
			return fmt.Errorf("look at queue %s: %w", t.queue, err)
		}
		t.level.off.Store(!is.Off.IsZero())
	}
	return nil
}

func (s *System) count(ctx context.Context, name string, into *atomic.Int64) error {
	st, err := s.p.Queues.Stats(ctx, name)
	if err != nil {
		return fmt.Errorf("look at queue %s: %w", name, err)
	}
	into.Store(st.Waiting + st.Delayed + st.Leased)
	return nil
}

// parker makes the pipeline of the queue beside a partner's. Its dead letters are the
// partner's: the partner's replay sends them.
func (s *System) parker(t *target) (err error) {
	name := ParkedOf(t.Name)
	p := s.pipeline(t.sources, name, s.open(name, 0, t.Ordered))
	p.Work, p.Dead, p.Batch, p.May = s.unpark(t), lettersAs{s.p.DeadLetters, t.queue}, s.o.Batch, s.mayUnpark(t)
	if !p.Source.Traits().Forwards {
		p.Emits = queue.Sink(s.p.Queues)
	}
	p.Rules = policy.Table{tidemill.Partner: {Do: policy.Dead}} // nothing was sent
	t.over, err = flow.New(p)
	return err
}

// lettersAs puts dead letters under the name of another pipeline.
type lettersAs struct {
	tidemill.DeadLetters
	pipeline string
}

func (l lettersAs) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for i := range letters {
		letters[i].Pipeline = l.pipeline
	}
	return l.DeadLetters.Put(ctx, letters)
}

func (l lettersAs) Has(ctx context.Context, _ string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	return l.DeadLetters.Has(ctx, l.pipeline, ids, marks)
}

// unpark ends jobs that found no room in their partner's queue when they came.
func (s *System) unpark(t *target) func(flow.Env) flow.Work {
	one := func(it *flow.Item[struct{}]) {
		switch off := t.level.off.Load(); {
		case s.expired(t, &it.Message):
			t.level.expired.Add(1)
			it.Skip(Expired)
		case off && !purchase(&it.Message):
			it.Skip(SwitchedOff)
		case off:
			it.Fail(tidemill.Fail(tidemill.Partner, "%s is switched off", t.Name))
		case t.Queue.Full == partner.DeadLetter && t.level.queued.Load() >= t.limit:
			it.Fail(tidemill.Fail(tidemill.Partner, "the queue of %s is full: it holds %d jobs", t.Name, t.limit))
		default:
			t.forward(it)
		}
	}
	return flow.Steps[struct{}]{Decode: func(*tidemill.Message, *struct{}) error { return nil },
		Stages: []flow.Stage[struct{}]{{Name: "park", Repeat: true, Do: func(_ context.Context, batch []*flow.Item[struct{}]) error {
			for _, it := range batch {
				one(it)
			}
			return nil
		}}}}.Lane
}

// forward moves a job into the partner's queue.
func (t *target) forward(it *flow.Item[struct{}]) {
	j := &tidemill.Message{ID: it.ID, To: t.queue, Tenant: it.Tenant, Type: it.Type, Key: it.Key, Payload: it.Payload, Time: it.Time, Priority: it.Priority, Header: slices.Clone(queue.Sent(&it.Message))}
	it.Emit(j)
	it.Deliver()
}

// asksRoom is how long until a parked job that found no room looks for room again.
const asksRoom = 100 * time.Millisecond

// mayUnpark lets jobs go if the partner's queue has room for them, or if they end otherwise.
func (s *System) mayUnpark(t *target) func(context.Context, []*flow.Task) (int, time.Duration) {
	return func(_ context.Context, batch []*flow.Task) (n int, wait time.Duration) {
		if t.level.off.Load() || t.Queue.Full == partner.DeadLetter {
			return len(batch), 0
		}
		for room := t.limit - t.level.queued.Load(); n < len(batch); n++ {
			if s.expired(t, &batch[n].Message) {
				continue
			}
			if room--; room < 0 {
				return n, asksRoom
			}
		}
		return n, 0
	}
}

// maxAge is how old a job of an event may be; 0: no limit.
func (t *target) maxAge(m *tidemill.Message) time.Duration {
	if purchase(m) {
		return t.Queue.MaxAgePurchases
	}
	return t.Queue.MaxAge
}

// ages reports whether any jobs of the partner have a maximum age.
func (t *target) ages() bool { return t.Queue.MaxAge > 0 || t.Queue.MaxAgePurchases > 0 }

// expired reports whether a job is older than its maximum age. A job that was routed while none
// was set never is.
func (s *System) expired(t *target, m *tidemill.Message) bool {
	most := t.maxAge(m)
	if most == 0 {
		return false
	}
	ms, err := strconv.ParseInt(string(m.Get(QueuedHeader)), 10, 64)
	return err == nil && s.o.Now().Sub(time.UnixMilli(ms)) > most
}

// skipExpired skips jobs that are older than their maximum age.
func (s *System) skipExpired(t *target) func(context.Context, []*flow.Item[struct{}]) error {
	return func(_ context.Context, batch []*flow.Item[struct{}]) error {
		for _, it := range batch {
			if s.expired(t, &it.Message) {
				t.level.expired.Add(1)
				it.Skip(Expired)
			}
		}
		return nil
	}
}

// sweepLease is how long one instance alone may remove jobs of a partner's queue, and
// sweepExpired how often it looks for expired ones.
const (
	sweepLease   = time.Minute
	sweepExpired = 30 * time.Second
)

// alone runs do on a partner's queue while no other instance does. It does nothing if one does.
func (s *System) alone(ctx context.Context, t *target, do func(context.Context) error) error {
	e := []*ledger.Entry{{Key: "sweep/" + t.queue, Call: s.chance.next()}}
	if err := s.p.Sent.Begin(ctx, e, ledger.Begin{Lease: sweepLease}); err != nil || e[0].State != ledger.Fresh {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, sweepLease/2)
	defer cancel()
	err := do(limited)
	e[0].State = ledger.Dropped
	if err2 := s.p.Sent.End(context.WithoutCancel(ctx), e); err == nil {
		err = err2
	}
	return err
}

// dropOldest removes the oldest jobs of a queue that holds more than its limit.
func (s *System) dropOldest(ctx context.Context, t *target) error {
	if t.level.queued.Load() <= t.limit {
		return nil
	}
	return s.alone(ctx, t, func(ctx context.Context) error {
		for _, state := range []queue.State{queue.Waiting, queue.Delayed} {
			st, err := s.p.Queues.Stats(ctx, t.queue) // the earlier count may date from before another instance's removal
			if err != nil {
				return fmt.Errorf("look at queue %s: %w", t.queue, err)
			}
			more := st.Waiting + st.Delayed + st.Leased - t.limit
			if more <= 0 {
				return nil
			}
			n, err := s.p.Queues.Remove(ctx, queue.Filter{Queue: t.queue, State: state, Max: int(more)})
			t.level.dropped.Add(uint64(n))
			t.level.queued.Add(-int64(n))
			if err != nil {
				return fmt.Errorf("drop the oldest jobs of queue %s: %w", t.queue, err)
			}
		}
		return nil
	})
}

// dropExpired removes the expired jobs of a partner's queue: nothing is handed out, and so
// skipped, while the partner's circuit is open or the queue is paused.
func (s *System) dropExpired(ctx context.Context, t *target) error {
	if t.level.queued.Load() == 0 {
		return nil
	}
	return s.alone(ctx, t, func(ctx context.Context) error {
		for _, state := range []queue.State{queue.Waiting, queue.Delayed} {
			if err := s.dropExpiredOf(ctx, t, state); err != nil {
				return fmt.Errorf("drop the expired jobs of queue %s: %w", t.queue, err)
			}
		}
		return nil
	})
}

// expiredAtOnce is how many jobs of a site one call removes.
const expiredAtOnce = 500

func (s *System) dropExpiredOf(ctx context.Context, t *target, state queue.State) error {
	least := t.Queue.MaxAge
	if p := t.Queue.MaxAgePurchases; least == 0 || p > 0 && p < least {
		least = p
	}
	var sites []string // in the order in which they were found
	ids := map[string][]string{}
	for j, err := range s.p.Queues.List(ctx, queue.Filter{Queue: t.queue, State: state, Before: s.o.Now().Add(-least)}) {
		if err != nil {
			return err
		}
		if j.ID == "" || !s.expired(t, &j.Message) {
			continue
		}
		if _, known := ids[j.Tenant]; !known {
			sites = append(sites, j.Tenant)
		}
		if ids[j.Tenant] = append(ids[j.Tenant], j.ID); len(ids[j.Tenant]) == expiredAtOnce {
			if err := s.removeExpired(ctx, t, state, j.Tenant, ids[j.Tenant]); err != nil {
				return err
			}
			ids[j.Tenant] = ids[j.Tenant][:0]
		}
	}
	for _, site := range sites {
		if err := s.removeExpired(ctx, t, state, site, ids[site]); err != nil {
			return err
		}
	}
	return nil
}

func (s *System) removeExpired(ctx context.Context, t *target, state queue.State, site string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := s.p.Queues.Remove(ctx, queue.Filter{Queue: t.queue, Tenant: site, State: state, IDs: ids})
	t.level.expired.Add(uint64(n))
	t.level.queued.Add(-int64(n))
	return err
}
