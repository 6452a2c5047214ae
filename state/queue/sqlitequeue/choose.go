package sqlitequeue

import (
	"context"
	"time"
)

// look takes up due jobs, and what has to be known before turns are taken. Its caller has
// the turn "handing".
func (q *queueState) look(ctx context.Context, s *Store) error {
	for _, do := range []func(context.Context, *Store) error{q.due, q.list, q.lookUp} {
		if err := do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// choose takes up to most jobs whose turn it is. Its caller has the turn "handing".
func (q *queueState) choose(ctx context.Context, s *Store, most int, now time.Time) ([]item, error) {
	if most <= 0 {
		return nil, nil
	}
	mem := q.lock()
	defer q.unlock()
	t := &turn{queue: q, mem: mem, ctx: ctx, store: s, now: now, chosen: make([]item, 0, min(most, max(mem.waiting.ahead, pageJobs)+len(mem.waiting.backs)))}
	free := t.take(most)
	mem.leases.again = t.again
	mem.waiting.late.limited = len(t.chosen) < free && len(mem.waiting.backs) >= mem.waiting.bounds.backs
	mem.waiting.listing.chose(len(t.chosen), most)
	if t.err != nil {
		mem.putBack(t.chosen)
		return nil, t.err
	}
	return t.chosen, nil
}
