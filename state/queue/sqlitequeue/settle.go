package sqlitequeue

import (
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// ending is one settlement being made durable.
type ending struct {
	end  *tidemill.Settlement
	item item
	out  *out // nil: the job was not out
	from int  // of Next, in the intake
	to   int
	at   int64 // Again: when it comes back; 0: at once
}

// Settle implements tidemill.Source.
func (s *source) Settle(ctx context.Context, ends []tidemill.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	byID := false
	for i := range ends {
		if err := queue.CheckEnd(&ends[i]); err != nil {
			return err
		}
		ends[i].Took = tidemill.Unanswered
		byID = byID || ends[i].Mark == (tidemill.Mark{})
	}
	l, err := s.line(ctx)
	if err != nil {
		return err
	}
	if byID { // such a job may wait to be handed out: nobody shall do that meanwhile
		if err := l.handing.Acquire(ctx, 1); err != nil {
			return err
		}
		defer l.handing.Release(1)
	}
	if err := l.ending.Acquire(ctx, 1); err != nil {
		return err
	}
	defer l.ending.Release(1)
	work, err := s.claim(ctx, l, ends)
	if err == nil {
		err = s.write(ctx, l, work)
	}
	if err != nil {
		err = fmt.Errorf("settle %d jobs of queue %q: %w", len(ends), l.name, err)
	}
	return err
}

// claim finds the jobs that settlements end, keeps them from anybody else, and answers
// the stale settlements.
func (s *source) claim(ctx context.Context, l *line, ends []tidemill.Settlement) ([]*ending, error) {
	work := make([]*ending, 0, len(ends))
	all := make([]ending, len(ends))
	now := s.store.o.Now()
	l.mu.Lock()
	l.expire(now)
	for i := range ends {
		e := &all[i]
		e.end = &ends[i]
		if e.end.Mark == (tidemill.Mark{}) {
			work = append(work, e) // looked up below
			continue
		}
		o := l.outs[e.end.Mark.Lo]
		if o == nil || o.busy || o.grant.epoch != e.end.Mark.Epoch || e.end.Mark.Shard != l.no {
			e.end.Took = tidemill.Stale
			continue
		}
		e.take(o)
		work = append(work, e)
	}
	l.mu.Unlock()
	found := make([]*ending, 0, len(work))
	taken := map[uint64]bool{} // by ID, of jobs that are not out
	for _, e := range work {
		if e.end.Mark == (tidemill.Mark{}) {
			if err := s.byID(ctx, l, e, taken); err != nil {
				l.letGo(work)
				return nil, err
			}
			if e.item.n == 0 {
				e.end.Took = tidemill.Stale
				continue
			}
		}
		found = append(found, e)
	}
	return found, nil
}

func (e *ending) take(o *out) {
	o.busy = true
	e.out, e.item = o, o.item
}

// letGo gives back what claim took, after an error.
func (l *line) letGo(work []*ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range work {
		if e.out != nil && e.out.busy {
			e.out.busy = false
			l.expires(e.out.grant.until)
		}
	}
	l.signal()
}

// byID finds the oldest job of a settlement's ID, out or not.
func (s *source) byID(ctx context.Context, l *line, e *ending, taken map[uint64]bool) error {
	places, err := s.store.names.places(ctx, l.no, e.end.ID)
	if err != nil {
		return err
	}
	slices.Sort(places)
	for _, place := range places {
		n := position(place)
		if uint32(place>>placeBits) != l.no || taken[n] {
			continue // the same hash in another queue
		}
		l.mu.Lock()
		o := l.outs[n]
		hit := o != nil && !o.busy && o.id == e.end.ID
		if hit {
			e.take(o)
		}
		l.mu.Unlock()
		if hit {
			return nil
		}
		if o != nil {
			continue // settled in this batch, or another ID
		}
		it, err := s.waiting(ctx, l, n, e.end.ID)
		if err != nil {
			return err
		}
		if it.n != 0 {
			taken[n] = true
			e.item = it
			return nil
		}
	}
	return nil
}

// waiting looks for a job that is not out in the file; none has position 0. Its caller
// has the turns "handing" and "ending".
func (s *source) waiting(ctx context.Context, l *line, n uint64, id string) (it item, err error) {
	p, err := l.read(ctx, s.store, n-1, n, 1, 1<<63-1, l.segment)
	if err != nil {
		return item{}, err
	}
	for _, f := range p.items {
		var m tidemill.Message
		if f.n != n || f.damaged {
			continue
		}
		if _, err := readRecord(f.rec, &m); err != nil || m.ID != id {
			continue
		}
		it = f.item
	}
	if it.seg != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.segs[it.seg.first] = it.seg
		if n <= l.boot {
			it.handed = 1
		}
		for _, w := range l.back {
			if w.n == n {
				it.handed = w.handed
			}
		}
	}
	return it, nil
}

// write makes claimed settlements durable, together with what they forward.
func (s *source) write(ctx context.Context, l *line, work []*ending) error {
	var next []*tidemill.Message
	for _, e := range work {
		e.from = len(next)
		next = append(next, e.end.Next...)
		e.to = len(next)
	}
	var in *intake
	if len(next) > 0 {
		var err error
		if in, err = s.store.prepare(ctx, next); err != nil {
			l.letGo(work)
			return err
		}
	}
	work, full := s.fit(l, in, work)
	k, err := s.stroke(ctx, l, work)
	if err == nil {
		err = s.commit(ctx, k, in)
	} else if in != nil {
		in.finish(s.store, err)
	}
	if err != nil {
		k.failed()
		for _, e := range work {
			l.holds(e, 1)
		}
		l.letGo(work)
		return err
	}
	l.settled(k, work)
	return full
}

// holds counts a job that ends out of the queue, or in again.
func (l *line) holds(e *ending, n int64) {
	if e.end.End == tidemill.Done {
		l.held.Add(n)
	}
}

// fit leaves those settlements out whose Next finds no room: they stay unanswered. Jobs
// that end make room, for their own Next first.
func (s *source) fit(l *line, in *intake, work []*ending) ([]*ending, error) {
	var out []*ending
	var full error
	fits := make([]*ending, 0, len(work))
	for _, e := range work {
		l.holds(e, -1)
		if in.fit(s.store.o.Capacity, e.from, e.to) {
			fits = append(fits, e)
			continue
		}
		l.holds(e, 1)
		in.unfit(e.from, e.to)
		out = append(out, e)
		full = queue.FullError(e.end.Next[0].To)
	}
	l.letGo(out)
	return fits, full
}

// commit writes a stroke and the jobs that come with it in one transaction.
func (s *source) commit(ctx context.Context, k *stroke, in *intake) error {
	if in == nil {
		if k.idle() {
			return nil
		}
		return s.store.db.Write(ctx, k.apply)
	}
	b := newBatch([]*intake{in})
	if k.idle() && len(b.parts) == 0 {
		b.finish(s.store, nil)
		return nil
	}
	err := s.store.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if err := b.apply(tx); err != nil {
			return err
		}
		return k.apply(tx)
	})
	b.finish(s.store, err)
	return err
}

// stroke turns settlements into what happens in the file.
func (s *source) stroke(ctx context.Context, l *line, work []*ending) (*stroke, error) {
	k := &stroke{line: l}
	var moving []item // put off, and in a segment so far: their records go with them
	for _, e := range work {
		if e.end.End == tidemill.Again && e.item.seg != nil {
			moving = append(moving, e.item)
		}
	}
	if err := l.load(ctx, s.store, moving); err != nil {
		return k, err
	}
	now := s.store.o.Now()
	for _, e := range work {
		it := &e.item
		switch e.end.End {
		case tidemill.Done:
			k.books.Add(e.end.Row())
			if it.seg != nil {
				k.leaves(it.seg, it.n)
			} else {
				k.dropped = append(k.dropped, it.n)
			}
		case tidemill.Again:
			var cause []byte
			if e.end.Burn {
				it.tries++
				cause = append([]byte{}, e.end.Cause...)
			}
			e.at = l.putAt(now.Add(e.end.After), now)
			row := lateRow{n: it.n, seg: it.seg, at: e.at, tries: it.tries, handed: it.handed, cause: cause}
			if it.seg == nil {
				k.changed = append(k.changed, row)
				break
			}
			row.rec, moving = moving[0].rec, moving[1:]
			k.moved = append(k.moved, row)
			k.leaves(it.seg, it.n)
		}
	}
	k.prepare()
	return k, nil
}

// settled makes memory agree with what was written, and answers.
func (l *line) settled(k *stroke, work []*ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.happened()
	left := map[*grant][]*out{}
	gone := map[uint64]bool{} // those that were not out: they no longer wait
	for _, e := range work {
		e.end.Took = tidemill.Applied
		switch {
		case e.out == nil:
			gone[e.item.n] = e.end.End != tidemill.Left
		case e.end.End == tidemill.Left:
			e.out.busy = false
			if g := e.out.grant; g.owner != nil {
				left[g] = append(left[g], e.out)
			}
			l.expires(e.out.grant.until)
		default:
			l.release(e.out)
		}
	}
	l.leave(left)
	if len(gone) > 0 {
		l.ready = slices.DeleteFunc(l.ready, func(it item) bool { return gone[it.n] })
		l.back = slices.DeleteFunc(l.back, func(it item) bool { return gone[it.n] })
		heap.Init(&l.back)
	}
	for _, e := range work {
		if e.end.End == tidemill.Again {
			l.comesBack(e)
		}
	}
	l.signal()
}

// comesBack lets a job wait that was put off: it is late now. mu is held.
func (l *line) comesBack(e *ending) {
	delete(l.hot, e.item.n)
	it := item{n: e.item.n, tries: e.item.tries, handed: e.item.handed, at: e.at}
	switch {
	case e.at > l.seen.at: // found by time
		l.comesAt(e.at)
	case it.n <= l.cursor: // else found by position
		l.takeUp(it)
	}
}
