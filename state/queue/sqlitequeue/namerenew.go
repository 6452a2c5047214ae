package sqlitequeue

import "context"

// renew claims names whose jobs get other positions, known or not. It waits for other callers
// that are adding some of them.
func (x *names) renew(ctx context.Context, want []name) (*claim, error) {
	for {
		c, other := x.tryRenew(want)
		if other == nil {
			return c, nil
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (x *names) tryRenew(want []name) (c, other *claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range want {
		for _, t := range x.tables {
			if e := t.find(n); e != nil && e.claim != nil {
				return nil, e.claim
			}
		}
	}
	t := x.tables[len(x.tables)-1]
	c = &claim{table: t, first: len(t.entries), done: make(chan struct{})}
	for i, n := range want {
		t.insert(entry{named: named{name: n}, claim: c})
		c.owns = append(c.owns, i)
	}
	t.open += len(c.owns)
	return c, nil
}
