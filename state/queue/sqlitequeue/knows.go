package sqlitequeue

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/state/queue"
)

// Knows implements queue.Register.
func (s *Store) Knows(ctx context.Context, names []queue.Name, known []bool) error {
	if err := queue.CheckKnows(ctx, names, known); err != nil {
		return err
	}
	var want []idset.ID
	var of []int // the index in names of each
	var buf []byte
	for i, n := range names {
		known[i] = false
		q := s.find(n.Queue)
		if q == nil {
			continue
		}
		var is idset.ID
		is, buf = nameOf(q.no, n.Tenant, n.ID, buf)
		want, of = append(want, is), append(of, i)
	}
	says := make([]bool, len(want))
	if err := s.names.Knows(ctx, want, says); err != nil {
		return fmt.Errorf("look for %d names: %w", len(names), err)
	}
	for k, i := range of {
		known[i] = says[k]
	}
	return nil
}
