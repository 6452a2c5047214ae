package sqlitequeue

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// moveJobs is how many jobs are changed by hand in one transaction.
const moveJobs = 256

// mover changes jobs of a queue by hand, some at a time, with the turns "handing" and
// "ending".
type mover struct {
	store *Store
	queue *queueState
	k     *change
	in    *intake         // jobs that are added
	after []func(*memory) // what memory changes once it is written
	did   int
}

// move lets do change the jobs that a filter chooses and that are in one of the states, and
// counts those that it changed.
func (s *Store) move(ctx context.Context, f queue.Filter, states []queue.State, do func(context.Context, *mover, []uint64) error) (n int, err error) {
	if f.Queue == "" {
		return 0, rules.NoQueue()
	}
	q := s.find(f.Queue)
	if q == nil {
		return 0, ctx.Err()
	}
	most := f.Max
	f.Max = 0
	for _, state := range states {
		f.State = state
		var some []uint64
		flush := func() error {
			k, err := s.moveSome(ctx, q, some, do)
			n, some = n+k, some[:0]
			return err
		}
		for j, err := range s.search(ctx, q, f) {
			if err != nil {
				return n, err
			}
			some = append(some, j.Mark.Lo)
			if len(some) == moveJobs || most > 0 && len(some) == most-n {
				if err := flush(); err != nil || most > 0 && n >= most {
					return n, err
				}
			}
		}
		if err := flush(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// moveSome lets do change the jobs at some positions.
func (s *Store) moveSome(ctx context.Context, q *queueState, some []uint64, do func(context.Context, *mover, []uint64) error) (int, error) {
	if len(some) == 0 {
		return 0, nil
	}
	if err := q.handing.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer q.handing.Release(1)
	if err := q.ending.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer q.ending.Release(1)
	m := &mover{store: s, queue: q, k: &change{queue: q}}
	mem := q.lock()
	mem.expire(s.o.Now())
	m.k.ends = mem.ends(s.o.Now())
	q.unlock()
	refused := do(ctx, m, some)
	if refused != nil && m.in == nil {
		m.k.failed()
		return 0, refused
	}
	m.k.prepare()
	if err := s.commit(ctx, m.k, m.in); err != nil {
		m.k.failed()
		return 0, fmt.Errorf("move jobs of queue %q: %w", q.name, err)
	}
	q.held.Add(-int64(m.k.left))
	mem = q.lock()
	defer q.unlock()
	mem.applied(m.k)
	for _, do := range m.after {
		do(mem)
	}
	q.wake.signal()
	return m.did, refused
}

// waiting reads a job that is not handed out; nil: none at that position.
func (m *mover) waiting(ctx context.Context, n uint64) (*item, error) {
	out := m.queue.lock().leases.outs[n] != nil
	m.queue.unlock()
	if out {
		return nil, nil
	}
	f, err := m.queue.at(ctx, m.store, n)
	if err != nil || f == nil || f.damaged {
		return nil, err
	}
	it := m.queue.recall(f)
	return &it, nil
}

// Promote implements queue.Mover.
func (s *Store) Promote(ctx context.Context, f queue.Filter) (int, error) {
	return s.move(ctx, f, only(f.State, queue.Delayed), func(ctx context.Context, m *mover, some []uint64) error {
		for _, n := range some {
			if err := m.promote(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// only is the states that the filter does not exclude.
func only(is queue.State, states ...queue.State) (some []queue.State) {
	for _, s := range states {
		if is == "" || is == s {
			some = append(some, s)
		}
	}
	return some
}

func (m *mover) promote(ctx context.Context, n uint64) error {
	it, err := m.waiting(ctx, n)
	if err != nil || it == nil {
		return err
	}
	q := m.queue
	now := m.store.o.Now().UnixMilli()
	mem := q.lock()
	_, hot := mem.waiting.late.hot[n]
	q.unlock()
	if hot || it.at <= now {
		return nil
	}
	joins, err := q.behind(ctx, m.store, it)
	if err != nil {
		return err
	}
	if it.at = 0; joins {
		it.due = now
	}
	m.k.changed = append(m.k.changed, it.lateRow())
	m.did++
	m.after = append(m.after, func(mem *memory) {
		it.rec, it.past = nil, nil
		mem.waiting.takeUp(*it)
	})
	return nil
}

// Remove implements queue.Mover.
func (s *Store) Remove(ctx context.Context, f queue.Filter) (int, error) {
	states := only(f.State, queue.Completed, queue.Failed, queue.Waiting, queue.Delayed)
	return s.move(ctx, f, states, func(ctx context.Context, m *mover, some []uint64) error {
		for _, n := range some {
			if err := m.remove(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *mover) remove(ctx context.Context, n uint64) error {
	if k, err := m.store.keptAt(ctx, m.queue, n); err != nil {
		return err
	} else if k != nil {
		m.forget(k)
		m.did++
		return nil
	}
	it, err := m.waiting(ctx, n)
	if err != nil || it == nil {
		return err
	}
	if it.seg != nil {
		m.k.leaves(it.seg, n)
	} else {
		m.k.dropped = append(m.k.dropped, n)
	}
	m.k.books.Skipped++
	m.k.left++
	m.did++
	m.after = append(m.after, func(mem *memory) { mem.waiting.unwait(it) })
	return nil
}

// forget deletes a kept job.
func (m *mover) forget(k *keptRow) {
	m.k.ends.gone = append(m.k.ends.gone, k.n)
	m.k.ends.less[k.state]++
}

// Retry implements queue.Mover.
func (s *Store) Retry(ctx context.Context, f queue.Filter) (int, error) {
	return s.move(ctx, f, only(f.State, queue.Failed), func(ctx context.Context, m *mover, some []uint64) error {
		return m.retry(ctx, some)
	})
}

// retry adds failed jobs once more, under names that are known.
func (m *mover) retry(ctx context.Context, some []uint64) error {
	s, q := m.store, m.queue
	var rows []*keptRow
	var jobs []incoming
	var names []idset.ID
	var scratch []byte
	now := s.o.Now().UnixMilli()
	for _, n := range some {
		r, err := s.keptAt(ctx, q, n)
		if err != nil {
			return err
		}
		var msg tidemill.Message
		if r == nil || r.state != keptFailed {
			continue
		}
		if _, err := readRecord(r.rec, &msg); err != nil {
			continue
		}
		j := incoming{queue: q, tenant: msg.Tenant, key: msg.Key, priority: msg.Priority, added: now,
			rec: appendRecord(nil, &msg, now), late: true, failures: r.failures, twin: -1}
		j.name, scratch = nameOf(q.no, msg.Tenant, msg.ID, scratch)
		rows, jobs, names = append(rows, r), append(jobs, j), append(names, j.name)
	}
	if len(jobs) == 0 {
		return nil
	}
	in := &intake{jobs: jobs, done: make(chan struct{})}
	var err error
	if in.claim, err = s.names.Renew(ctx, names); err != nil {
		return err
	}
	m.in = in
	for i := range jobs {
		if !in.fit(s.o.Capacity, i, i+1) { // the rest has to wait too
			err = in.refused(i, i+1)
			for k := i + 1; k < len(jobs); k++ {
				jobs[k].state = jobs[i].state
			}
			break
		}
		m.forget(rows[i])
		m.did++
	}
	return err
}

// Look implements queue.Mover.
func (s *Store) Look(ctx context.Context, n queue.Name) (*queue.Job, error) {
	q := s.find(n.Queue)
	if q == nil {
		return nil, cmp.Or(ctx.Err(), queue.NotFound(n))
	}
	f := queue.Filter{Queue: n.Queue, IDs: []string{n.ID}}
	var found *queue.Job
	for _, f.State = range []queue.State{"", queue.Completed, queue.Failed} {
		for j, err := range s.search(ctx, q, f) {
			if err != nil {
				return nil, err
			}
			if j.Tenant == n.Tenant && (found == nil || j.Mark.Lo > found.Mark.Lo) {
				found = j
			}
		}
	}
	if found == nil {
		return nil, queue.NotFound(n)
	}
	return found, nil
}

// Edit implements queue.Mover.
func (s *Store) Edit(ctx context.Context, n queue.Name, payload []byte, seen string) error {
	for {
		j, err := s.Look(ctx, n)
		switch {
		case err != nil:
			return err
		case j.State == queue.Completed:
			return queue.NotFound(n)
		case j.State == queue.Leased:
			return queue.Out(n)
		}
		did, err := s.moveSome(ctx, s.find(n.Queue), []uint64{j.Mark.Lo}, func(ctx context.Context, m *mover, some []uint64) error {
			return m.edit(ctx, some[0], payload, seen)
		})
		if did > 0 || err != nil { // else it has moved on: look again
			return err
		}
	}
}

func (m *mover) edit(ctx context.Context, n uint64, payload []byte, seen string) error {
	q := m.queue
	if k, err := m.store.keptAt(ctx, q, n); err != nil {
		return err
	} else if k != nil {
		if k.state != keptFailed {
			return nil
		}
		if k.rec, err = q.withPayload(k.rec, payload, seen); err != nil {
			return err
		}
		m.k.ends.edited = append(m.k.ends.edited, *k)
		m.did++
		return nil
	}
	it, err := m.waiting(ctx, n)
	if err != nil || it == nil {
		return err
	}
	rec, err := q.withPayload(it.rec, payload, seen)
	if err != nil {
		return err
	}
	row := it.lateRow()
	row.rec = rec
	m.did++
	if it.seg == nil {
		m.k.edited = append(m.k.edited, row)
		m.after = append(m.after, func(mem *memory) {
			if w := mem.waiting.backs[n]; w != nil {
				w.rec, w.past = nil, nil
			}
		})
		return nil
	}
	m.k.moved = append(m.k.moved, row)
	m.k.leaves(it.seg, n)
	m.after = append(m.after, func(mem *memory) { mem.waiting.becomesLate(it) })
	return nil
}

// withPayload is a record with another payload, if it has the version that was seen.
func (q *queueState) withPayload(rec, payload []byte, seen string) ([]byte, error) {
	var msg tidemill.Message
	added, err := readRecord(rec, &msg)
	if err != nil {
		return nil, tidemill.Fail(tidemill.Internal, "edit a job: %w", err)
	}
	if err := rules.CheckEdit(q.name, &msg, payload, seen); err != nil {
		return nil, err
	}
	msg.Payload = payload
	return appendRecord(nil, &msg, added), nil
}
