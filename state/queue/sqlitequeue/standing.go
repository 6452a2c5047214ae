package sqlitequeue

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// Queues implements queue.Meter.
func (s *Store) Queues(ctx context.Context) (names []string, err error) {
	var all []queue.Standing
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) { all, err = counters(tx); return err }); err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	for i := range all {
		names = append(names, all[i].Queue)
	}
	return names, nil
}

// counters are the queues by their names, with their books alone.
func counters(tx *sqlitedb.Tx) (all []queue.Standing, err error) {
	rows, err := tx.Query("SELECT name, next, delivered, skipped, dead FROM queue WHERE next>0 OR settings IS NOT NULL")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name []byte
		var q queue.Standing
		if err := rows.Scan(&name, &q.Books.Accepted, &q.Books.Settled.Delivered, &q.Books.Settled.Skipped, &q.Books.Settled.Dead); err != nil {
			return nil, err
		}
		q.Queue = string(name)
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b queue.Standing) int { return cmp.Compare(a.Queue, b.Queue) })
	return all, rows.Err()
}

// Standing implements queue.Meter: from one snapshot of the file.
func (s *Store) Standing(ctx context.Context) (all []queue.Standing, err error) {
	for _, q := range s.chosen("") {
		if err := s.tidy(ctx, q); err != nil {
			return nil, err
		}
	}
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		if all, err = counters(tx); err != nil {
			return err
		}
		for i := range all {
			of := &all[i]
			q := s.find(of.Queue)
			if q == nil { // it is being made
				continue
			}
			of.Settings = q.is.Load().Clone()
			if of.Stats, err = q.stats(tx, s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("see how the queues stand: %w", err)
	}
	return all, nil
}
