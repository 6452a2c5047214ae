package sqlitequeue

import (
	"context"
	"slices"

	"github.com/tidemill/tidemill"
)

// byID finds the oldest job of a settlement's ID, handed out or not. Its caller has the
// turns "handing" and "ending".
func (s *source) byID(ctx context.Context, l *line, e *ending, taken map[uint64]bool) error {
	positions, err := s.store.positions(ctx, l, e.end.ID)
	if err != nil {
		return err
	}
	for _, n := range positions {
		if taken[n] {
			continue
		}
		o, held := l.lock().leases.claimNamed(n, e.end.ID)
		if o != nil {
			e.take(o)
		}
		l.unlock()
		if o != nil {
			return nil
		}
		if held {
			continue // settled in this batch, or another ID
		}
		it, key, err := l.waits(ctx, s.store, n, e.end.ID)
		if err != nil {
			return err
		}
		if it.n != 0 {
			taken[n] = true
			e.item, e.key = it, key
			e.joins, err = l.behind(ctx, s.store, &it)
			return err
		}
	}
	return nil
}

// positions are where jobs of an ID may lie in the queue, in order. They may be gone, or
// have another ID.
func (s *Store) positions(ctx context.Context, l *line, id string) (all []uint64, err error) {
	places, err := s.names.places(ctx, l.no, id)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		if uint32(place>>placeBits) == l.no { // else the same hash in another queue
			all = append(all, position(place))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// waits looks for a job that is not handed out, and its key; position 0: none. Its caller
// has the turns "handing" and "ending".
func (l *line) waits(ctx context.Context, s *Store, n uint64, id string) (item, []byte, error) {
	f, err := l.at(ctx, s, n)
	if err != nil || f == nil || f.damaged {
		return item{}, nil, err
	}
	var m tidemill.Message
	if _, err := readRecord(f.rec, &m); err != nil || m.ID != id {
		return item{}, nil, nil
	}
	return l.recall(f), m.Key, nil
}

// recall completes a job read from the file with what memory knows of it. Its caller has
// the turns "handing" and "ending".
func (l *line) recall(f *item) item {
	mem := l.lock()
	defer l.unlock()
	it := *f
	h, _ := readHead(it.rec)
	it.priority = h.priority
	if it.seg == nil {
		it.strand = readStrand(mem.waiting.apart.of(nil, h.priority, h.tenant, h.key))
	}
	if is := mem.waiting.strands[it.strand.id]; is != nil {
		it.strand = is
	}
	if it.seg != nil {
		mem.log.knows(&it)
		if it.strand.chain {
			it.due = h.added
		}
	}
	if w := mem.waiting.backs[it.n]; w != nil {
		it.handed, it.strand = w.handed, w.strand
	}
	return it
}

// at reads the job at a position, or nil.
func (l *line) at(ctx context.Context, s *Store, n uint64) (*item, error) {
	p, err := l.read(ctx, s, n-1, n, 1)
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
func (l *line) behind(ctx context.Context, s *Store, it *item) (bool, error) {
	if !it.strand.chain {
		return false, nil
	}
	mem := l.lock()
	it.strand = mem.waiting.keep(it.strand)
	mem.waiting.seat(it.strand)
	l.unlock()
	if err := l.lookUp(ctx, s); err != nil {
		return false, err
	}
	l.lock()
	defer l.unlock()
	return it.strand.behind(it.n), nil
}
