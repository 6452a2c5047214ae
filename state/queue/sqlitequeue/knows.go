package sqlitequeue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill/state/queue"
)

// Knows implements queue.Register.
func (s *Store) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	if err := queue.CheckKnows(ctx, names, known); err != nil {
		return err
	}
	var want []name
	var of []int // the index in names of each
	var buf []byte
	for i, n := range names {
		known[i] = false
		q := s.find(n.Queue)
		if q == nil {
			continue
		}
		var is name
		is, buf = nameOf(q.no, n.Tenant, n.ID, buf)
		want, of = append(want, is), append(of, i)
	}
	says := make([]bool, len(want))
	err := s.names.knows(ctx, want, says)
	for errors.Is(err, sql.ErrNoRows) { // a run was merged away while it was read
		err = s.names.knows(ctx, want, says)
	}
	if err != nil {
		return fmt.Errorf("look for %d names: %w", len(names), err)
	}
	for k, i := range of {
		known[i] = says[k]
	}
	return nil
}

// knows says which names are known, in the tables and in the runs.
func (x *names) knows(ctx context.Context, want []name, says []bool) error {
	x.mu.Lock()
	runs := x.runs
	for i, n := range want {
		says[i] = false
		for _, t := range x.tables {
			e := t.find(n)
			says[i] = says[i] || e != nil && e.claim == nil
		}
	}
	x.mu.Unlock()
	return x.search(ctx, runs, want, func(i int) bool { return !says[i] }, func(i int) { says[i] = true })
}
