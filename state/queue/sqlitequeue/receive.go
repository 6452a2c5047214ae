package sqlitequeue

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// source hands out the jobs of one queue.
type source struct {
	store   *Store
	queue   string
	lease   time.Duration
	ordered bool
}

var (
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Gater      = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
	_ tidemill.Counter    = (*source)(nil)
)

// Open implements queue.Store.
func (s *Store) Open(name string, o queue.Options) tidemill.Source {
	if o.Lease <= 0 {
		o.Lease = queue.Lease
	}
	return &source{store: s, queue: name, lease: o.Lease, ordered: o.Ordered}
}

// Traits implements tidemill.Source.
func (s *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Forwards: true, Ordered: s.ordered, Keep: s.lease / 3}
}

func (s *source) state(ctx context.Context) (*queueState, error) { return s.store.state(ctx, s.queue) }

// Receive implements tidemill.Source.
func (s *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := ctx.Err(); err != nil || len(into) == 0 {
		return 0, err
	}
	q, err := s.state(ctx)
	if err != nil {
		return 0, err
	}
	if err := q.receiving.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer q.receiving.Release(1)
	for {
		n, next, err := s.handOut(ctx, q, into)
		if n > 0 || err != nil {
			return n, err
		}
		if err := s.wait(ctx, q, next); err != nil {
			return 0, err
		}
	}
}

// maxWait bounds a source's wait for a time: the clock may jump ahead, or the machine sleep,
// which timers do not see.
const maxWait = 5 * time.Second

// wait waits until the queue may have something to hand out.
func (s *source) wait(ctx context.Context, q *queueState, next time.Time) error {
	var alarm <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(min(max(next.Sub(s.store.o.Now()), 0), maxWait))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-q.wake:
	case <-alarm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handOut hands out due jobs, or says when to look again.
func (s *source) handOut(ctx context.Context, q *queueState, into []*tidemill.Message) (int, time.Time, error) {
	if err := q.handing.Acquire(ctx, 1); err != nil {
		return 0, time.Time{}, err
	}
	defer q.handing.Release(1)
	if err := ctx.Err(); err != nil {
		return 0, time.Time{}, err
	}
	if err := s.order(ctx, q); err != nil {
		return 0, time.Time{}, err
	}
	now := s.store.o.Now()
	mem := q.lock()
	mem.expire(now)
	most := mem.allowed(len(into), now)
	q.unlock()
	if most > 0 {
		if err := q.look(ctx, s.store); err != nil {
			return 0, time.Time{}, err
		}
	}
	chosen, err := q.choose(ctx, s.store, most, now)
	if err != nil {
		return 0, time.Time{}, err
	}
	if len(chosen) == 0 {
		mem = q.lock()
		defer q.unlock()
		return 0, mem.nextLook(now, most), nil
	}
	n, err := s.lend(ctx, q, chosen, into)
	return n, now, err
}

// lend hands chosen jobs out, durably counted. After an error they wait again.
func (s *source) lend(ctx context.Context, q *queueState, chosen []item, into []*tidemill.Message) (n int, err error) {
	defer func() {
		if err != nil {
			mem := q.lock()
			defer q.unlock()
			mem.putBack(chosen)
		}
	}()
	if err := q.load(ctx, s.store, chosen); err != nil {
		return 0, err
	}
	k := &change{queue: q}
	good := make([]item, 0, len(chosen))
	for _, it := range chosen {
		err := errDamaged
		if !it.damaged {
			_, err = readRecord(it.rec, into[n])
		}
		if err != nil {
			_, ms := s.store.now()
			k.damaged = append(k.damaged, damage{it, ms, err})
			continue
		}
		into[n].Header = rules.AppendFailures(into[n].Header, readFailures(it.failures()))
		good = append(good, it)
		n++
	}
	if err := q.count(ctx, s.store, k, good); err != nil {
		return 0, err
	}
	for _, d := range k.damaged {
		// Logged when a row of the queue is not what was written; its bytes are kept beside the queue,
		// and the books count it as dead.
		// To do: check the disk; `tidemill queue show` has what is left of it. If there are many,
		// restore a backup.
		s.store.o.Log.ErrorContext(ctx, "job is damaged and was taken out", "queue", q.name, "position", d.item.n, "error", d.err)
	}
	mem := q.lock()
	defer q.unlock()
	g := mem.lend(good, k.damaged, into, s)
	if g == nil {
		return 0, nil
	}
	for i, it := range good {
		m := into[i]
		m.To, m.Tries, m.Handed = q.name, int(it.tries), int(it.handed)+1
		m.At = time.Time{}
		if it.at != 0 {
			m.At = time.UnixMilli(it.at).UTC()
		}
		m.Mark = tidemill.Mark{Shard: q.no, Epoch: g.epoch, Lo: it.n}
	}
	return n, nil
}

// count makes it durable that jobs are about to be handed out, and removes damaged ones.
//
// First hand-outs cost one small row now and then: jobs up to a mark, which runs ahead by
// the number of jobs read ahead, count as handed out once. So after a crash a job's count
// may be one too high, never too low. Every further hand-out is counted in the job's own
// row, for which it leaves its segment.
func (q *queueState) count(ctx context.Context, s *Store, k *change, good []item) error {
	top, repeats := uint64(0), false
	for _, it := range good {
		switch {
		case it.seg == nil:
			k.again = append(k.again, it.n)
			repeats = true
		case it.handed > 0:
			repeats = true
			row := it.lateRow()
			row.handed++
			k.moved = append(k.moved, row)
		default:
			top = max(top, it.n)
		}
	}
	q.lock().marks(k, top)
	q.unlock()
	if repeats || len(k.damaged) > 0 {
		if err := q.ending.Acquire(ctx, 1); err != nil {
			return err
		}
		defer q.ending.Release(1)
		for _, r := range k.moved {
			k.leaves(r.seg, r.n)
		}
		for _, d := range k.damaged {
			k.books.Dead++
			k.left++
			if d.item.seg != nil {
				k.leaves(d.item.seg, d.item.n)
			} else {
				k.dropped = append(k.dropped, d.item.n)
			}
		}
	} else if k.mark == 0 {
		return nil
	}
	k.prepare()
	if err := s.db.Write(ctx, k.apply); err != nil {
		k.failed()
		return fmt.Errorf("count hand-outs of queue %q: %w", q.name, err)
	}
	mem := q.lock()
	defer q.unlock()
	mem.applied(k)
	q.held.Add(-int64(len(k.damaged)))
	return nil
}

// load reads the records of jobs that were handed out before.
func (q *queueState) load(ctx context.Context, s *Store, items []item) error {
	missing := false
	for _, it := range items {
		missing = missing || it.rec == nil && !it.damaged
	}
	if !missing {
		return nil
	}
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		var seg *segment
		var records [][]byte
		for i := range items {
			it := &items[i]
			if it.rec != nil || it.damaged {
				continue
			}
			if it.seg == nil {
				it.past = new(past)
				err := tx.QueryRow("SELECT job, failures, cause FROM queue_late WHERE pos=?", q.filePos(it.n)).Scan((*sqlitedb.Blob)(&it.rec), &it.past.failures, &it.past.cause)
				if err != nil {
					return fmt.Errorf("late job %d: %w", it.n, err)
				}
				continue
			}
			if it.seg != seg {
				var blob sqlitedb.Blob
				if err := tx.QueryRow("SELECT jobs FROM queue_segment WHERE pos=?", q.filePos(it.seg.first)).Scan(&blob); err != nil {
					return fmt.Errorf("segment at %d: %w", it.seg.first, err)
				}
				var err error
				if records, err = cutSegment(blob, it.seg.n); err != nil {
					records = nil
				}
				seg = it.seg
			}
			if records == nil {
				it.damaged = true
				continue
			}
			it.rec = records[it.n-seg.first]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read jobs of queue %q: %w", q.name, err)
	}
	return nil
}

// Keep implements tidemill.Keeper.
func (s *source) Keep(ctx context.Context) error {
	q, err := s.state(ctx)
	if err != nil {
		return err
	}
	now := s.store.o.Now()
	mem := q.lock()
	defer q.unlock()
	mem.expire(now)
	mem.leases.renew(s, now, now.Add(s.lease))
	return ctx.Err()
}

// Gate implements tidemill.Gater. A restart opens it: its state is out of date then.
func (s *source) Gate(ctx context.Context, until time.Time, probes int) error {
	q, err := s.state(ctx)
	if err != nil {
		return err
	}
	q.lock().leases.gate.set(until, probes)
	q.unlock()
	q.wake.signal()
	return nil
}
