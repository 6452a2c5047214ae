package clickhousewarehouse

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A page is looked for in a span of time beside the place where it begins, and in a longer one if that
// has too few events: the table's order and its partitions then leave out most of it.
const (
	firstSpan = time.Minute
	widen     = 8
)

// List implements warehouse.Reader. Events of one timestamp are in the order of their ids.
func (s *Store) List(ctx context.Context, l warehouse.Listing) (out warehouse.Listed, err error) {
	l.Newest = false
	if err := l.Check(); err != nil {
		return out, err
	}
	w := &looking{listing: listing{store: s, project: l.Project}, oldestFirst: l.Oldest, most: l.Most()}
	w.args = append(w.args, clickhousehttp.Param("project", l.Project.String()), integer("rows", int64(w.most)))
	if !w.prepare(l) {
		return out, l.NoKey()
	}
	if err = w.bounds(ctx, l); err == nil {
		out, err = w.find(ctx)
	}
	if err != nil {
		return warehouse.Listed{}, fmt.Errorf("list events of project %s: %w", l.Project, err)
	}
	return out, nil
}

// looking looks for a page.
type looking struct {
	listing
	oldestFirst bool
	most        int

	after     bool
	at        int64 // milliseconds: the place that the page begins after
	low, high int64 // milliseconds: all that matches is between, both included
}

// prepare makes the query; ok says that the key is one.
func (w *looking) prepare(l warehouse.Listing) (ok bool) {
	where := "timestamp >= fromUnixTimestamp64Milli({low:Int64}, 'UTC') AND timestamp <= fromUnixTimestamp64Milli({high:Int64}, 'UTC')" + w.condition(l.Filter)
	compare, order := "<", "timestamp DESC, event_id DESC"
	if l.Oldest {
		compare, order = ">", "timestamp, event_id"
	}
	if w.after = l.After != ""; w.after {
		at, id, _ := strings.Cut(l.After, ".")
		var bad error
		if w.at, bad = strconv.ParseInt(at, 10, 64); bad != nil {
			return false
		}
		which, bad := uuid.Parse(id)
		if bad != nil || keyOf(w.at, which) != l.After {
			return false
		}
		w.args = append(w.args, clickhousehttp.Param("which", id), integer("at", w.at))
		where += "\n\t\tAND (timestamp, event_id) " + compare + " (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {which:UUID})"
	}
	w.query = w.store.page(where, order)
	return true
}

// bounds finds the times that the page may have. Those of the whole table are known without reading it.
func (w *looking) bounds(ctx context.Context, l warehouse.Listing) error {
	rows, err := w.store.conn.Query(ctx, "SELECT toUnixTimestamp64Milli(min(timestamp)), toUnixTimestamp64Milli(max(timestamp)) FROM "+w.store.names.events)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		w.low, w.high = rows.Int64(), rows.Int64()
	}
	if !l.From.IsZero() {
		w.low = max(w.low, ceilMilli(l.From))
	}
	if !l.To.IsZero() {
		w.high = min(w.high, ceilMilli(l.To)-1)
	}
	switch {
	case w.after && w.oldestFirst:
		w.low = max(w.low, w.at)
	case w.after:
		w.high = min(w.high, w.at)
	}
	return rows.Err()
}

// find looks in longer and longer spans.
func (w *looking) find(ctx context.Context) (out warehouse.Listed, err error) {
	for span := firstSpan.Milliseconds(); w.low <= w.high; span *= widen {
		low, high := w.low, w.high
		whole := span > math.MaxInt64/widen || high-low <= span
		switch {
		case whole:
		case w.oldestFirst:
			high = low + span
		default:
			low = high - span
		}
		if out, err = w.look(ctx, low, high); err != nil || whole || len(out.Events) == w.most {
			return out, err
		}
	}
	return out, nil
}

func (w *looking) look(ctx context.Context, low, high int64) (out warehouse.Listed, err error) {
	rows, err := w.store.conn.Query(ctx, w.query, append([]clickhousehttp.Arg{integer("low", low), integer("high", high)}, w.args...)...)
	if err != nil {
		return out, err
	}
	defer rows.Close()
	for rows.Next() {
		e := new(event.Event)
		scan(rows, e)
		e.Project = w.project
		out.Events, out.Keys = append(out.Events, e), append(out.Keys, keyOf(e.Timestamp.UnixMilli(), e.ID))
	}
	return out, rows.Err()
}

// keyOf is where an event is.
func keyOf(at int64, id uuid.UUID) string { return strconv.FormatInt(at, 10) + "." + id.String() }
