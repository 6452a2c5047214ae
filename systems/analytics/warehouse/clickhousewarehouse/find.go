package clickhousewarehouse

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// findIndex skips the parts of the table that do not have an event's id. A table that was made
// without it can be given it:
//
//	ALTER TABLE events ADD INDEX by_event_id event_id TYPE bloom_filter(0.001) GRANULARITY 1
//	ALTER TABLE events MATERIALIZE INDEX by_event_id
const findIndex = "INDEX by_event_id event_id TYPE bloom_filter(0.001) GRANULARITY 1"

// findSeconds bounds the look-up where a table has no such index: one column of the project is read.
const findSeconds = "1"

// Find implements warehouse.Reader. It reads without FINAL, which would not use the index: of rows
// that are to be merged it takes the one that stays.
func (s *Store) Find(ctx context.Context, project, id uuid.UUID) (*event.Event, error) {
	e, err := s.find(ctx, project, id)
	if err == nil && e == nil {
		err = warehouse.ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("find event %v of project %v: %w", id, project, err)
	}
	return e, nil
}

func (s *Store) find(ctx context.Context, project, id uuid.UUID) (*event.Event, error) {
	rows, err := s.conn.Query(ctx, `SELECT `+rowColumns("e.person_id")+`
FROM `+s.names.events+` AS e
WHERE e.project_id = {project:UUID} AND e.event_id = {event:UUID}
ORDER BY e.ingested_at DESC LIMIT 1`,
		clickhousehttp.Param("project", project.String()), clickhousehttp.Param("event", id.String()), clickhousehttp.Set("max_execution_time", findSeconds))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var e *event.Event
	if rows.Next() {
		e = &event.Event{}
		scan(rows, e)
		e.Project = project
	}
	if err := rows.Err(); err != nil || e == nil {
		return nil, err
	}
	return e, s.override(ctx, e)
}

// override applies the newest override of an event's distinct id.
func (s *Store) override(ctx context.Context, e *event.Event) error {
	rows, err := s.conn.Query(ctx, "SELECT person_id FROM "+s.names.overrides+" WHERE project_id = {project:UUID} AND distinct_id = unhex({distinct:String}) ORDER BY version DESC LIMIT 1",
		clickhousehttp.Param("project", e.Project.String()), clickhousehttp.HexParam("distinct", e.DistinctID))
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		e.Person = rows.UUID()
	}
	return rows.Err()
}
