package sqlitewarehouse

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Find implements warehouse.Reader: by the index, in memory and in its table.
func (s *Store) Find(ctx context.Context, project, id uuid.UUID) (*event.Event, error) {
	hash := s.index.hash(project, id)
	rows := s.index.candidates(hash)
	var found *event.Event
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		rows, err := selectInts(tx, rows, "SELECT k.id FROM json_each(?) j JOIN warehouse_key k ON k.hash = j.value", []uint64{hash})
		if err != nil || len(rows) == 0 {
			return err
		}
		p := &listing{project: project}
		all, err := tx.Query(pageColumns+`
FROM json_each(?) j JOIN warehouse_event e ON e.id = j.value LEFT JOIN warehouse_override o ON o.project = e.project AND o.distinct_id = e.distinct_id
WHERE e.project = ? AND e.event_id = ? LIMIT 1`, jsonInts(rows), project[:], id[:])
		if err != nil {
			return err
		}
		defer all.Close()
		for all.Next() {
			found = new(event.Event)
			if _, err := p.scan(all, found); err != nil {
				return err
			}
		}
		return all.Err()
	})
	if err == nil && found == nil {
		err = warehouse.ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("find event %v of project %v: %w", id, project, err)
	}
	return found, nil
}

// candidates are the rows of a hash that are not in the table of the index yet.
func (x *index) candidates(h uint64) (ids []int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range []map[uint64]int64{x.young, x.old} {
		if id, ok := m[h]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}
