package sqlitewarehouse

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A page of a listing is one snapshot: at most pageRows found among at most pageSpan ids, so
// that no listing, however long or selective, holds an old snapshot for longer than about 10
// ms. (A held snapshot stops the log from being checkpointed.)
const (
	pageRows = 200
	pageSpan = 5000
)

// pageColumns are the columns of an event, as scan reads them.
const pageColumns = "SELECT e.id, e.event_id, coalesce(o.person, e.person), e.name, e.type, e.distinct_id, e.timestamp, e.ingested_at, e.origin, e.context, e.properties, e.user_properties"

// Events implements warehouse.Reader.
func (s *Store) Events(ctx context.Context, f warehouse.Filter) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := f.Check(); err != nil {
			yield(nil, err)
			return
		}
		p, err := s.listing(ctx, f)
		left := f.Max
		if f.Follow {
			left = 0 // it ends only with ctx
		}
		for err == nil && (p.next <= p.last || f.Follow) {
			if p.next > p.last {
				err = s.more(ctx, p)
			} else if err = ctx.Err(); err == nil {
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
	query      string // of a page
	where      string // the query's condition
	project    uuid.UUID
	args       []any // the filter's
	next, last int64 // ids
	found      []event.Event
}

func (s *Store) listing(ctx context.Context, f warehouse.Filter) (*listing, error) {
	p := &listing{project: f.Project}
	p.condition(f)
	p.where = `
FROM warehouse_event e LEFT JOIN warehouse_override o ON o.project = e.project AND o.distinct_id = e.distinct_id
WHERE e.id >= ? AND e.id < ? AND e.project = ?` + p.where
	p.query = fmt.Sprintf("%s%s ORDER BY e.id LIMIT %d", pageColumns, p.where, pageRows)
	// Two queries: for both in one, SQLite reads the whole table.
	err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT coalesce((SELECT min(id) FROM warehouse_event), 1), coalesce((SELECT max(id) FROM warehouse_event), 0)").Scan(&p.next, &p.last)
	})
	if err == nil && f.Newest {
		err = s.newest(ctx, p, f.Max)
	}
	return p, err
}

// condition makes where and args the condition of a filter beside its project: few different texts, that
// are kept prepared.
func (p *listing) condition(f warehouse.Filter) {
	var q strings.Builder
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
	p.where = q.String()
}

// newest makes a listing begin at the last matching rows.
func (s *Store) newest(ctx context.Context, p *listing, left int) error {
	first := p.next
	for end := p.last + 1; end > first && left > 0; {
		begin := max(end-pageSpan, first)
		found := 0
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			rows, err := tx.Query("SELECT e.id"+p.where+" ORDER BY e.id DESC LIMIT ?", append(p.chosen(begin, end), left)...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := rows.Scan(&p.next); err != nil {
					return err
				}
				found++
			}
			return rows.Err()
		})
		if err != nil {
			return err
		}
		if left -= found; left > 0 {
			p.next = begin
		}
		end = begin
	}
	return ctx.Err()
}

// more waits until events are stored that a listing has not seen.
func (s *Store) more(ctx context.Context, p *listing) error {
	p.found = p.found[:0]
	_, err := s.came.Receive(ctx, func() (int, time.Duration, error) {
		err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
			return tx.QueryRow("SELECT coalesce(max(id), 0) FROM warehouse_event").Scan(&p.last)
		})
		return int(max(p.last-p.next+1, 0)), bell.Idle, err
	})
	return err
}

// chosen are the arguments of p.where for ids from begin to before end.
func (p *listing) chosen(begin, end int64) []any {
	return append([]any{begin, end, p.project[:]}, p.args...)
}

// ceilMilli is the first whole millisecond not before t: rows have whole ones.
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
	rows, err := tx.Query(p.query, p.chosen(p.next, end)...)
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

// Count implements warehouse.Reader. Every insert updates the counts.
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
