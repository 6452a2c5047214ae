package sqlitequeue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// ending is one settlement being made durable.
type ending struct {
	end  *tidemill.Settlement
	item item
	out  *out // nil: the job was not handed out
	from int  // of Next, in the intake
	to   int
	at   int64 // Again: when it comes back; 0: at once
	// joins says that the job was not the first of its ordered group: it joins it anew when
	// it comes back.
	joins bool
	key   []byte // of a job that was not handed out
}

// Settle implements tidemill.Source.
func (s *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	byID := false
	for i := range ends {
		if err := rules.CheckEnd(&ends[i]); err != nil {
			return err
		}
		ends[i].Outcome = tidemill.Unanswered
		byID = byID || ends[i].Mark == (tidemill.Mark{})
	}
	q, err := s.state(ctx)
	if err != nil {
		return err
	}
	if byID { // such a job may be waiting: it must not be handed out meanwhile
		if err := q.handing.Acquire(ctx, 1); err != nil {
			return err
		}
		defer q.handing.Release(1)
	}
	if err := q.ending.Acquire(ctx, 1); err != nil {
		return err
	}
	defer q.ending.Release(1)
	work, err := s.claim(ctx, q, ends)
	var refused error
	for err == nil && len(work) > 0 {
		n := s.store.together(work)
		var full error
		full, err = s.write(ctx, q, work[:n])
		refused, work = cmp.Or(refused, full), work[n:]
	}
	if err != nil {
		q.letGo(work)
	}
	if err = cmp.Or(err, refused); err != nil {
		err = fmt.Errorf("settle %d jobs of queue %q: %w", len(ends), q.name, err)
	}
	return err
}

// nextJobs is how many jobs may follow from the ends of one transaction while requests wait for the
// writer: some milliseconds of it.
const nextJobs = 150

// together is how many ends are written at once.
func (s *Store) together(work []*ending) int {
	most, next := s.o.next, 0
	switch {
	case most > 0:
	case s.db.Contended():
		most = nextJobs
	default:
		return len(work)
	}
	for i, e := range work {
		if next += len(e.end.Next); next > most && i > 0 {
			return i
		}
	}
	return len(work)
}

// claim finds the jobs that settlements end, keeps them from others, and answers the stale
// settlements. Settlements by ID choose first: see tidemill.Source.
func (s *source) claim(ctx context.Context, q *queueState, ends []tidemill.Settlement) ([]*ending, error) {
	all := make([]ending, len(ends))
	taken := map[uint64]bool{} // by ID, of jobs that are not handed out
	var claimed []*ending
	for i := range ends {
		e := &all[i]
		e.end = &ends[i]
		if e.end.Mark != (tidemill.Mark{}) {
			continue
		}
		if err := s.byID(ctx, q, e, taken); err != nil {
			q.letGo(claimed)
			return nil, err
		}
		claimed = append(claimed, e)
	}
	mem := q.lock()
	defer q.unlock()
	mem.expire(s.store.o.Now())
	work := make([]*ending, 0, len(ends)) // in the order of ends
	for i := range all {
		e := &all[i]
		if m := e.end.Mark; m != (tidemill.Mark{}) && m.Shard == q.no {
			if o := mem.leases.claim(m); o != nil {
				e.take(o)
			}
		}
		if e.item.n == 0 {
			e.end.Outcome = tidemill.Stale
			continue
		}
		work = append(work, e)
	}
	return work, nil
}

func (e *ending) take(o *out) {
	e.out, e.item = o, o.item
}

// letGo gives back the claimed jobs, after an error.
func (q *queueState) letGo(work []*ending) {
	mem := q.lock()
	defer q.unlock()
	for _, e := range work {
		if e.out != nil {
			mem.leases.unclaim(e.out)
		}
	}
	q.wake.signal()
}

// write makes claimed settlements durable, together with the jobs that they forward. full says that
// some have no room, and wait on.
func (s *source) write(ctx context.Context, q *queueState, work []*ending) (full, err error) {
	var next []*tidemill.Message
	for _, e := range work {
		e.from = len(next)
		next = append(next, e.end.Next...)
		e.to = len(next)
	}
	var in *intake
	if len(next) > 0 {
		if in, err = s.store.prepare(ctx, next); err != nil {
			q.letGo(work)
			return nil, err
		}
	}
	work, full = s.fit(q, in, work)
	k, err := s.plan(ctx, q, work)
	if err == nil {
		err = s.store.commit(ctx, k, in)
	} else if in != nil {
		in.finish(s.store, err)
	}
	if err != nil {
		k.failed()
		for _, e := range work {
			q.holds(e, 1)
		}
		q.letGo(work)
		return nil, err
	}
	q.settled(k, work)
	return full, nil
}

// holds removes an ending job from the count of the queue, or adds it again.
func (q *queueState) holds(e *ending, n int64) {
	if e.end.End == tidemill.Done {
		q.held.Add(n)
	}
}

// fit leaves out settlements for whose Next a queue has no capacity: they stay unanswered. Jobs
// that end free capacity, for their own Next first.
func (s *source) fit(q *queueState, in *intake, work []*ending) ([]*ending, error) {
	var out []*ending
	var full error
	fits := make([]*ending, 0, len(work))
	for _, e := range work {
		q.holds(e, -1)
		if in.fit(s.store.o.Capacity, e.from, e.to) {
			fits = append(fits, e)
			continue
		}
		q.holds(e, 1)
		full = in.refused(e.from, e.to)
		in.unfit(e.from, e.to)
		out = append(out, e)
	}
	q.letGo(out)
	return fits, full
}

// commit writes the changes of settlements and their new jobs in one transaction.
func (s *Store) commit(ctx context.Context, k *change, in *intake) error {
	if in == nil {
		if k.idle() {
			return nil
		}
		return s.db.Write(ctx, k.apply)
	}
	b := newBatch([]*intake{in})
	if k.idle() && len(b.parts) == 0 {
		b.finish(s, nil)
		return nil
	}
	err := b.write(ctx, s, k.apply)
	b.finish(s, err)
	return err
}

// plan turns settlements into changes of the file.
func (s *source) plan(ctx context.Context, q *queueState, work []*ending) (*change, error) {
	now := s.store.o.Now()
	k := &change{queue: q}
	mem := q.lock()
	is := mem.settings
	if kept := mem.ends(now); !kept.none() || is.Completed.Count+is.Failed.Count > 0 {
		k.ends = kept
	}
	q.unlock()
	keeps := func(e *ending) bool {
		return e.end.End == tidemill.Done && keeping(is, keptState(e.end.Fate)).Count > 0
	}
	var records []item // of jobs in a segment that are delayed, and of those that are kept
	for _, e := range work {
		if e.end.End == tidemill.Again && e.item.seg != nil || keeps(e) {
			records = append(records, e.item)
		}
	}
	if err := q.load(ctx, s.store, records); err != nil {
		return k, err
	}
	loaded := func() (it item) {
		it, records = records[0], records[1:]
		return it
	}
	for _, e := range work {
		it := &e.item
		switch e.end.End {
		case tidemill.Done:
			k.left++
			if k.books.Add(e.end.Row()); keeps(e) {
				k.ends.rows = append(k.ends.rows, e.keptRow(loaded(), now))
			}
			if it.seg != nil {
				k.leaves(it.seg, it.n)
			} else {
				k.dropped = append(k.dropped, it.n)
			}
		case tidemill.Again:
			row := e.putOff(now)
			if it.seg == nil {
				k.changed = append(k.changed, row)
				break
			}
			row.rec = loaded().rec
			k.moved = append(k.moved, row)
			k.leaves(it.seg, it.n)
		}
	}
	k.prepare()
	return k, nil
}

// putOff is the row of a job that is to come back.
func (e *ending) putOff(now time.Time) lateRow {
	it := &e.item
	e.at = putAt(now.Add(e.end.After), now)
	var cause, failures []byte
	if e.end.CountTry {
		it.tries++
		cause = append([]byte{}, e.end.Cause...)
		failures = addFailure(it.failures(), queue.Failure{At: now, Kind: e.end.Kind, Cause: e.end.Cause})
	}
	if it.group.ordered && e.joins { // it was behind another of its key: now it is the last
		it.due = max(e.at, now.UnixMilli())
	} else if it.group.ordered { // it stays the first, at whatever time the others came
		it.due = firstDue
	}
	it.at = e.at
	row := it.lateRow()
	row.cause, row.failures = cause, failures
	return row
}

// keptRow is the row of an ended job, if it is kept.
func (e *ending) keptRow(loaded item, now time.Time) keptRow {
	it := &e.item
	r := keptRow{n: it.n, state: keptState(e.end.Fate), fate: e.end.Fate, tries: int(it.tries), handed: int(it.handed),
		cause: []byte(e.end.Cause), failures: it.failures(), rec: loaded.rec}
	if e.end.Fate == tidemill.Dead {
		r.failures = addFailure(r.failures, queue.Failure{At: now, Kind: e.end.Kind, Cause: e.end.Cause})
	}
	if e.end.Cause == "" && loaded.past != nil {
		r.cause = loaded.past.cause
	}
	return r
}

// settled updates memory to match the file, and answers.
func (q *queueState) settled(k *change, work []*ending) {
	mem := q.lock()
	defer q.unlock()
	mem.applied(k)
	left := map[*grant][]*out{}
	for _, e := range work {
		e.end.Outcome = tidemill.Applied
		switch {
		case e.out == nil: // it waited
			if e.end.End != tidemill.Left {
				mem.waiting.unwait(&e.item)
			}
		case e.end.End == tidemill.Left:
			mem.leases.unclaim(e.out)
			if g := e.out.grant; g.owner != nil {
				left[g] = append(left[g], e.out)
			}
		default:
			mem.leases.release(e.out)
		}
	}
	mem.leases.leave(left)
	for _, e := range work {
		mem.moveOn(e)
	}
	q.wake.signal()
}
