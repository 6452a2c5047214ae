package sqlitewarehouse

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Find implements warehouse.Reader: by the set of ids.
func (s *Store) Find(ctx context.Context, project, id uuid.UUID) (*event.Event, error) {
	rows, err := s.ids.At(ctx, s.idOf(project, id).Hash)
	if err != nil {
		return nil, fmt.Errorf("find event %v of project %v: %w", id, project, err)
	}
	var found *event.Event
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) (err error) {
		if len(rows) == 0 {
			return nil
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
