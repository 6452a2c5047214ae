package sqlitewarehouse

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A page of a listing is one snapshot: at most pageRows found in at most pageSpan ids
// looked at, so that no listing, however long or picky, holds an old snapshot for longer
// than some 10 ms. (A snapshot that is held keeps the log from being folded back.)
const (
	pageRows = 200
	pageSpan = 5000
)

// Events implements warehouse.Reader.
func (s *Store) Events(ctx context.Context, f warehouse.Filter) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := f.Check(); err != nil {
			yield(nil, err)
			return
		}
		p, err := s.listing(ctx, f)
		left := f.Max
		for err == nil && p.next <= p.last {
			if err = ctx.Err(); err == nil {
				err = s.db.Read(ctx, p.read)
			}
			for i := 0; err == nil && i < len(p.found); i++ {
				if left--; !yield(&p.found[i], nil) || left == 0 {
					return
				}
			}
		}
		if err != nil {
			yield(nil, fmt.Errorf("list events of project %s: %w", f.Project, err))
		}
	}
}

// listing reads page after page.
type listing struct {
	query      string
	project    uuid.UUID
	args       []any // the filter's
	next, last int64 // ids
	found      []event.Event
}

func (s *Store) listing(ctx context.Context, f warehouse.Filter) (*listing, error) {
	p := &listing{project: f.Project, args: []any{f.Project[:]}}
	var q strings.Builder // the same few texts again and again: they are kept prepared
	q.WriteString(`SELECT e.id, e.event_id, coalesce(o.person, e.person), e.name, e.type, e.distinct_id, e.timestamp, e.ingested_at, e.origin, e.context, e.properties, e.user_properties
FROM warehouse_event e LEFT JOIN warehouse_override o ON o.project = e.project AND o.distinct_id = e.distinct_id
WHERE e.id >= ? AND e.id < ? AND e.project = ?`)
	and := func(condition string, arg any) {
		q.WriteString(" AND ")
		q.WriteString(condition)
		p.args = append(p.args, arg)
	}
	if f.Distinct != "" {
		and("e.distinct_id = ?", f.Distinct)
	}
	if f.Name != "" {
		and("e.name = ?", f.Name)
	}
	if f.Person != uuid.Nil {
		and("coalesce(o.person, e.person) = ?", f.Person[:])
	}
	if !f.From.IsZero() {
		and("e.timestamp >= ?", ceilMilli(f.From))
	}
	if !f.To.IsZero() {
		and("e.timestamp < ?", ceilMilli(f.To))
	}
	fmt.Fprintf(&q, " ORDER BY e.id LIMIT %d", pageRows)
	p.query = q.String()
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT coalesce(min(id), 1), coalesce(max(id), 0) FROM warehouse_event").Scan(&p.next, &p.last)
	})
	return p, err
}

// ceilMilli is the first whole millisecond that is not before t: rows have whole ones.
func ceilMilli(t time.Time) int64 {
	m := t.UnixMilli()
	if time.UnixMilli(m).Before(t) {
		m++
	}
	return m
}

// read fills found with the next page.
func (p *listing) read(tx *sqlitedb.Tx) error {
	end := min(p.next+pageSpan, p.last+1)
	rows, err := tx.Query(p.query, append([]any{p.next, end}, p.args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	p.found = p.found[:0]
	var id int64
	for rows.Next() {
		var e event.Event
		if id, err = p.scan(rows, &e); err != nil {
			return err
		}
		p.found = append(p.found, e)
	}
	if len(p.found) == pageRows {
		end = id + 1
	}
	p.next = end
	return rows.Err()
}

func (p *listing) scan(rows *sql.Rows, e *event.Event) (id int64, err error) {
	var eventID, person, properties, user []byte
	var context sql.RawBytes
	var at, ingested, origin int64
	if err := rows.Scan(&id, &eventID, &person, &e.Name, &e.Type, &e.DistinctID, &at, &ingested, &origin, &context, &properties, &user); err != nil {
		return 0, err
	}
	e.ID, e.Project, e.Person, e.Origin = uuidOf(eventID), p.project, uuidOf(person), uint64(origin)
	e.Timestamp, e.IngestedAt = time.UnixMilli(at).UTC(), time.UnixMilli(ingested).UTC()
	e.Properties, e.UserProperties = properties, user
	return id, readContext(context, e)
}

// Count implements warehouse.Reader. The counts are kept with every insert.
func (s *Store) Count(ctx context.Context, project uuid.UUID) (n int64, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if project == uuid.Nil {
			return tx.QueryRow("SELECT coalesce(sum(events), 0) FROM warehouse_count").Scan(&n)
		}
		return tx.QueryRow("SELECT coalesce(max(events), 0) FROM warehouse_count WHERE project = ?", project[:]).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}
