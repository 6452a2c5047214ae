package sqlitequeue

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill"
)

// byID finds the oldest job of a settlement's ID, handed out or not. Its caller has the
// turns "handing" and "ending".
func (s *source) byID(ctx context.Context, q *queueState, e *ending, taken map[uint64]bool) error {
	positions, err := s.store.positions(ctx, q, e.end.ID)
	if err != nil {
		return err
	}
	for _, n := range positions {
		if taken[n] {
			continue
		}
		o, held := q.lock().leases.claimNamed(n, e.end.ID)
		if o != nil {
			e.take(o)
		}
		q.unlock()
		if o != nil {
			return nil
		}
		if held {
			continue // settled in this batch, or another ID
		}
		it, key, err := q.waitingJob(ctx, s.store, n, e.end.ID)
		if err != nil {
			return err
		}
		if it.n != 0 {
			taken[n] = true
			e.item, e.key = it, key
			e.joins, err = q.behind(ctx, s.store, &it)
			return err
		}
	}
	return nil
}

// positions are where jobs of an ID may lie in the queue, in order. They may be gone, or
// have another ID.
func (s *Store) positions(ctx context.Context, q *queueState, id string) (all []uint64, err error) {
	positions, err := s.names.At(ctx, idHash(q.no, id))
	if err != nil {
		return nil, err
	}
	for _, pos := range positions {
		if uint32(pos>>posBits) == q.no { // else the same hash in another queue
			all = append(all, position(pos))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// waitingJob looks for a job that is not handed out, and its key; position 0: none. Its caller
// has the turns "handing" and "ending".
func (q *queueState) waitingJob(ctx context.Context, s *Store, n uint64, id string) (item, []byte, error) {
	f, err := q.at(ctx, s, n)
	if err != nil || f == nil || f.damaged {
		return item{}, nil, err
	}
	var m tidemill.Message
	if _, err := readRecord(f.rec, &m); err != nil || m.ID != id {
		return item{}, nil, nil
	}
	return q.recall(f), m.Key, nil
}

// recall completes a job read from the file with what memory knows of it. Its caller has
// the turns "handing" and "ending".
func (q *queueState) recall(f *item) item {
	mem := q.lock()
	defer q.unlock()
	it := *f
	h, _ := readHead(it.rec)
	it.priority = h.priority
	if it.seg == nil {
		it.group = readGroup(mem.waiting.apart.of(nil, h.priority, h.tenant, h.key))
	}
	if is := mem.waiting.groups[it.group.id]; is != nil {
		it.group = is
	}
	if it.seg != nil {
		mem.log.share(&it)
		if it.group.ordered {
			it.due = h.added
		}
	}
	if w := mem.waiting.backs[it.n]; w != nil {
		it.handed, it.group = w.handed, w.group
	}
	return it
}

// at reads the job at a position, or nil.
func (q *queueState) at(ctx context.Context, s *Store, n uint64) (*item, error) {
	p, err := q.read(ctx, s, n-1, n, 1, "")
	if err != nil {
		return nil, err
	}
	for i := range p.items {
		if p.items[i].n == n {
			return &p.items[i], nil
		}
	}
	return nil, nil
}

// behind says whether a job is not the first of its ordered group. Its caller has the turn
// "handing".
func (q *queueState) behind(ctx context.Context, s *Store, it *item) (bool, error) {
	if !it.group.ordered {
		return false, nil
	}
	mem := q.lock()
	it.group = mem.waiting.keep(it.group)
	mem.waiting.seat(it.group)
	q.unlock()
	if err := q.lookUp(ctx, s); err != nil {
		return false, err
	}
	q.lock()
	defer q.unlock()
	return it.group.behind(it.n), nil
}
