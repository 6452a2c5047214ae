package clickhousewarehouse

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// slice is a partition of the table of events.
type slice struct {
	id          string
	end         time.Time // of its month or day; zero: it has many
	rows, bytes int64
}

// byTime are the partition keys whose partitions are months or days of the timestamp.
var byTime = regexp.MustCompile(`toYYYYMM(DD)?\(timestamp`)

// Bound implements warehouse.Bounder. Bytes are those that the table's active parts have on this
// server's disks, compressed. It drops whole partitions, the oldest month first, which takes no room and
// no time of merges: so up to a month more may go than has to. The partition of the years before 2000
// and after 2099 stays. An event of a month that was dropped, sent again, is stored again.
func (s *Store) Bound(ctx context.Context, most int64, young time.Time) (n int64, more bool, err error) {
	if n, err = s.bound(ctx, most, young); err != nil {
		return 0, false, fmt.Errorf("make room for events: %w", err)
	}
	return n, n > 0, nil
}

func (s *Store) bound(ctx context.Context, most int64, young time.Time) (int64, error) {
	all, have, err := s.slices(ctx)
	if err != nil || have <= most {
		return 0, err
	}
	for _, p := range all {
		if p.end.IsZero() || p.end.After(young) {
			continue
		}
		// The months of a table that is not ours may be those of another time zone.
		newest, err := s.newest(ctx, p.id)
		if err != nil {
			return 0, err
		}
		if !newest.Before(young) {
			continue
		}
		// The server's own limit, of 50 GB, is for those who drop one by mistake.
		if err := s.conn.Exec(ctx, "ALTER TABLE "+s.names.events+" DROP PARTITION ID "+clickhousehttp.Text(p.id), clickhousehttp.Set("max_partition_size_to_drop", "0")); err != nil {
			return 0, fmt.Errorf("drop the partition %s of %s: %w", p.id, s.names.events, err)
		}
		return p.rows, nil
	}
	return 0, warehouse.Over(have, most, young)
}

// slices are the table's partitions, in the order of their ids, and what all have.
func (s *Store) slices(ctx context.Context) (all []slice, have int64, err error) {
	db := clickhousehttp.Param("database", s.conn.Database())
	rows, err := s.conn.Query(ctx, "SELECT partition_key FROM system.tables WHERE database = {database:String} AND name = '"+eventsTable+"'", db)
	if err != nil {
		return nil, 0, err
	}
	key := ""
	for rows.Next() {
		key = rows.String()
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	if !byTime.MatchString(key) {
		return nil, 0, tidemill.Fail(tidemill.Business, "the partitions of %s, by %q, are no months or days of the timestamp: its size cannot be bounded here, leave analytics.keep_most out", s.names.events, key)
	}
	if rows, err = s.conn.Query(ctx, "SELECT partition_id, toInt64(sum(rows)), toInt64(sum(bytes_on_disk)) FROM system.parts WHERE database = {database:String} AND table = '"+eventsTable+"' AND active GROUP BY partition_id ORDER BY partition_id", db); err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		p := slice{id: rows.String(), rows: rows.Int64(), bytes: rows.Int64()}
		if at, err := time.Parse("200601", p.id); err == nil {
			p.end = at.AddDate(0, 1, 0)
		} else if at, err := time.Parse("20060102", p.id); err == nil {
			p.end = at.AddDate(0, 0, 1)
		}
		all, have = append(all, p), have+p.bytes
	}
	return all, have, rows.Err()
}

// newest is the time of a partition's last event. The server has it beside the data.
func (s *Store) newest(ctx context.Context, partition string) (time.Time, error) {
	at, err := s.number(ctx, "SELECT toInt64(toUnixTimestamp64Milli(toDateTime64(max(timestamp), 3))) FROM "+s.names.events+" WHERE _partition_id = {id:String}", clickhousehttp.Param("id", partition))
	return time.UnixMilli(at), err
}

// number is the one number that a query selects; 0: it selects nothing.
func (s *Store) number(ctx context.Context, query string, args ...clickhousehttp.Arg) (n int64, err error) {
	rows, err := s.conn.Query(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n = rows.Int64()
	}
	return n, rows.Err()
}

// BoundWarnings implements warehouse.WarningBounder. It deletes whole seconds, and only where there are a
// tenth more than there may be: each deletion is a part of the table for the server to merge.
func (s *Store) BoundWarnings(ctx context.Context, most int) (n int64, more bool, err error) {
	if n, err = s.boundWarnings(ctx, int64(most)); err != nil {
		return 0, false, fmt.Errorf("remove warnings beyond %d: %w", most, err)
	}
	return n, false, nil
}

func (s *Store) boundWarnings(ctx context.Context, most int64) (int64, error) {
	have, err := s.number(ctx, "SELECT toInt64(count()) FROM "+s.names.warnings)
	if err != nil || have <= most+most/10 {
		return 0, err
	}
	from, err := s.number(ctx, fmt.Sprintf("SELECT toInt64(toUnixTimestamp(timestamp)) FROM %s ORDER BY timestamp DESC LIMIT 1 OFFSET %d", s.names.warnings, most-1))
	if err != nil {
		return 0, err
	}
	gone, err := s.number(ctx, fmt.Sprintf("SELECT toInt64(count()) FROM %s WHERE timestamp < toDateTime(%d)", s.names.warnings, from))
	if err != nil || gone == 0 {
		return 0, err
	}
	return gone, s.conn.Exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE timestamp < toDateTime(%d)", s.names.warnings, from))
}
