package clickhousewarehouse

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A page of a listing is read whole before its events are handed out, so a slow reader holds no
// connection. A page is pageRows, or as many rows as fit into pageBytes.
const (
	pageRows  = 1000
	pageBytes = 16 << 20
)

// Events implements warehouse.Reader. Each page reads a few narrow columns twice, of the rows
// left by the filter's project, name and times. Filter where there is much data.
func (s *Store) Events(ctx context.Context, f warehouse.Filter) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := f.Check(); err != nil {
			yield(nil, err)
			return
		}
		l := &listing{store: s, project: f.Project, left: f.Max, pageRows: pageRows, pageBytes: pageBytes}
		l.prepare(f)
		err := l.begin(ctx)
		if err == nil && f.Newest && l.more {
			err = l.newest(ctx, f.Max)
		}
		if f.Follow {
			l.left = 0 // it ends only with ctx
		}
		for err == nil && (l.more || f.Follow) {
			if !l.more {
				err = l.wait(ctx)
				continue
			}
			if err = l.read(ctx); err != nil {
				break
			}
			for i := range l.page {
				if !yield(&l.page[i], nil) {
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
	store               *Store
	project             uuid.UUID
	query               string // of a page
	where               string // the query's condition
	args                []clickhousehttp.Arg
	pageRows, pageBytes int

	upto  int64 // microseconds: the newest row when the listing began
	after int64 // the last row that was read
	last  uuid.UUID
	left  int // 0: no limit
	more  bool
	page  []event.Event
}

// prepare makes the query of a page.
func (l *listing) prepare(f warehouse.Filter) {
	l.args = append(l.args, clickhousehttp.Param("project", f.Project.String()))
	l.where = l.condition(f)
	l.query = l.store.page(`toUnixTimestamp64Micro(stored_at) <= {upto:Int64}
		AND (toUnixTimestamp64Micro(stored_at), event_id) > ({after:Int64}, {last:UUID})`+l.where, "stored_at, event_id")
}

// condition is that of a filter beside its project; it appends what it needs to args.
func (l *listing) condition(f warehouse.Filter) string {
	var where strings.Builder
	and := func(condition string, args ...clickhousehttp.Arg) {
		where.WriteString("\n\t\tAND ")
		where.WriteString(condition)
		l.args = append(l.args, args...)
	}
	overrides := "SELECT distinct_id FROM " + l.store.names.overrides + " WHERE project_id = {project:UUID} GROUP BY distinct_id HAVING argMax(person_id, version)"
	if f.Distinct != "" {
		and("distinct_id = unhex({distinct:String})", clickhousehttp.HexParam("distinct", f.Distinct))
	}
	if f.Name != "" {
		and("event_name = unhex({name:String})", clickhousehttp.HexParam("name", f.Name))
	}
	if f.Person != uuid.Nil {
		and("(distinct_id IN ("+overrides+" = {person:UUID}) OR person_id = {person:UUID} AND distinct_id NOT IN ("+overrides+" != {person:UUID}))",
			clickhousehttp.Param("person", f.Person.String()))
	}
	if at := ceilMilli(f.From); at > oldest {
		and("timestamp >= fromUnixTimestamp64Milli({from:Int64}, 'UTC')", integer("from", min(at, newest)))
	}
	if !f.To.IsZero() && ceilMilli(f.To) < newest {
		and("timestamp < fromUnixTimestamp64Milli({to:Int64}, 'UTC')", integer("to", max(ceilMilli(f.To), oldest)))
	}
	return where.String()
}

// page is the query of a page of a project: first its rows' keys, from narrow columns, then those rows
// by their keys, each with the newest override of its distinct id. order names columns of the table.
func (s *Store) page(where, order string) string {
	return `WITH page AS (
	SELECT event_name, timestamp, event_id, distinct_id
	FROM ` + s.names.events + ` FINAL
	WHERE project_id = {project:UUID}
		AND ` + where + `
	ORDER BY ` + order + `
	LIMIT {rows:UInt64}
)
SELECT ` + rowColumns("if(o.moved, o.person_id, e.person_id)") + `
FROM ` + s.names.events + ` AS e FINAL
LEFT JOIN (
	SELECT distinct_id, argMax(person_id, version) AS person_id, true AS moved
	FROM ` + s.names.overrides + `
	WHERE project_id = {project:UUID} AND distinct_id IN (SELECT distinct_id FROM page)
	GROUP BY distinct_id
) AS o ON o.distinct_id = e.distinct_id
WHERE e.project_id = {project:UUID} AND (e.event_name, e.timestamp, e.event_id) IN (SELECT event_name, timestamp, event_id FROM page)
ORDER BY ` + order + `
SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 0`
}

// The range of a DateTime64: 1900 to 2299, in milliseconds.
const (
	oldest = -2_208_988_800_000
	newest = 10_413_791_999_999
)

// ceilMilli is the first whole millisecond not before t: rows have whole ones.
func ceilMilli(t time.Time) int64 {
	m := t.UnixMilli()
	if time.UnixMilli(m).Before(t) {
		m++
	}
	return m
}

func integer(name string, n int64) clickhousehttp.Arg {
	return clickhousehttp.Param(name, strconv.FormatInt(n, 10))
}

// begin finds where the listing ends.
func (l *listing) begin(ctx context.Context) error {
	rows, err := l.store.conn.Query(ctx, "SELECT toUnixTimestamp64Micro(max(stored_at)), toUnixTimestamp64Micro(min(stored_at)), count() FROM "+l.store.names.events+
		" WHERE project_id = {project:UUID}", clickhousehttp.Param("project", l.project.String()))
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		l.upto, l.after = rows.Int64(), rows.Int64()-1
		l.more = rows.UInt64() > 0
	}
	return rows.Err()
}

// newest makes the listing begin at the last n matching rows.
func (l *listing) newest(ctx context.Context, n int) error {
	query := `SELECT toUnixTimestamp64Micro(stored_at), event_id FROM ` + l.store.names.events + ` FINAL
	WHERE project_id = {project:UUID} AND toUnixTimestamp64Micro(stored_at) <= {upto:Int64}` + l.where + `
	ORDER BY stored_at DESC, event_id DESC LIMIT 1 OFFSET {rows:UInt64}
	SETTINGS do_not_merge_across_partitions_select_final = 1`
	rows, err := l.store.conn.Query(ctx, query, append([]clickhousehttp.Arg{integer("upto", l.upto), integer("rows", int64(n))}, l.args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() { // the one before them
		l.after, l.last = rows.Int64(), rows.UUID()
	}
	return rows.Err()
}

// followEvery is how often a following listing looks again: ClickHouse does not notify. It may
// miss rows of an instance whose clock is behind another's.
const followEvery = time.Second

// wait waits until the next look, and finds where that ends.
func (l *listing) wait(ctx context.Context) error {
	l.page = l.page[:0]
	if err := sleep.For(ctx, followEvery); err != nil {
		return err
	}
	after := l.after
	if err := l.begin(ctx); err != nil {
		return err
	}
	l.after, l.more = max(after, l.after), l.more && l.upto > after
	return nil
}

// read fills page with the next rows.
func (l *listing) read(ctx context.Context) error {
	limit := l.pageRows
	if l.left > 0 {
		limit = min(limit, l.left)
	}
	args := append([]clickhousehttp.Arg{integer("upto", l.upto), integer("after", l.after),
		clickhousehttp.Param("last", l.last.String()), integer("rows", int64(limit))}, l.args...)
	rows, err := l.store.conn.Query(ctx, l.query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	l.page = l.page[:0]
	bytes := 0
	for bytes < l.pageBytes && rows.Next() {
		var e event.Event
		stored := scan(rows, &e)
		if rows.Err() != nil {
			break
		}
		e.Project = l.project
		if stored <= l.upto { // else it was stored again just now
			l.after, l.last = stored, e.ID
		}
		bytes += len(e.Properties) + len(e.UserProperties) + 1000
		l.page = append(l.page, e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	l.more = len(l.page) == limit || bytes >= l.pageBytes
	if l.left > 0 {
		if l.left -= len(l.page); l.left == 0 {
			l.more = false
		}
	}
	return nil
}

// rowColumns are the columns of an event, as scan reads them.
func rowColumns(person string) string {
	columns := make([]string, len(texts))
	for i, t := range texts {
		columns[i] = "toString(e." + t.name + ")"
	}
	return "toUnixTimestamp64Micro(e.stored_at), e.event_id, " + person + ", " + strings.Join(columns, ", ") + `,
	e.screen_width, e.screen_height, e.properties, e.user_properties, e.origin, toUnixTimestamp64Milli(e.timestamp), toUnixTimestamp64Milli(e.ingested_at)`
}

// scan reads a row in the order of the query's columns.
func scan(rows *clickhousehttp.Rows, e *event.Event) (stored int64) {
	stored = rows.Int64()
	e.ID, e.Person = rows.UUID(), rows.UUID()
	for i := range texts {
		*texts[i].of(e) = rows.String()
	}
	e.ScreenWidth, e.ScreenHeight = rows.UInt16(), rows.UInt16()
	e.Properties, e.UserProperties = object(rows), object(rows)
	e.Origin = rows.UInt64()
	e.Timestamp, e.IngestedAt = time.UnixMilli(rows.Int64()).UTC(), time.UnixMilli(rows.Int64()).UTC()
	return stored
}

func object(rows *clickhousehttp.Rows) []byte {
	b := rows.Bytes()
	if string(b) == emptyObject {
		return nil
	}
	return b
}

// Count implements warehouse.Reader. It is exact, and reads the keys for it.
func (s *Store) Count(ctx context.Context, project uuid.UUID) (n int64, err error) {
	query, args := "SELECT toInt64(count()) FROM "+s.names.events+" FINAL", []clickhousehttp.Arg{clickhousehttp.Set("do_not_merge_across_partitions_select_final", "1")}
	if project != uuid.Nil {
		query += " WHERE project_id = {project:UUID}"
		args = append(args, clickhousehttp.Param("project", project.String()))
	}
	if n, err = s.number(ctx, query, args...); err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}
