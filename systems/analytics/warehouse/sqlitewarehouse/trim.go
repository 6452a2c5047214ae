package sqlitewarehouse

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// What one slice of Trim looks at and removes: some milliseconds of a reader, and some of the writer.
const (
	trimSpan = 2000 // ids that are looked at
	trimRows = 500  // rows that one write removes
)

// wholeEvery is how often all events are looked at for old ones. Between, a pass ends at the first
// slice without any: events are mostly stored in the order of their times.
const wholeEvery = 24 * time.Hour

// rowBytes is how many bytes a row has beside its texts.
const rowBytes = 80

// octets is the size of a row as warehouse_count has it.
var octets = fmt.Sprintf("%d + octet_length(name) + octet_length(distinct_id) + coalesce(octet_length(context), 0) + coalesce(octet_length(properties), 0) + coalesce(octet_length(user_properties), 0)", rowBytes)

// trimming is how far passes of Trim are.
type trimming struct {
	mu     sync.Mutex // guards the rest, and makes one call follow the other
	next   int64      // id at which the pass goes on; 0: at the first event
	whole  bool       // the pass looks at all
	looked int64      // when the last whole pass began, by before; milliseconds
}

// Trim implements warehouse.Trimmer.
func (s *Store) Trim(ctx context.Context, before time.Time) (n int64, more bool, err error) {
	s.trim.mu.Lock()
	defer s.trim.mu.Unlock()
	if n, more, err = s.trimAge(ctx, before); err != nil {
		return 0, false, fmt.Errorf("remove old events: %w", err)
	}
	return n, more, nil
}

// Bound implements warehouse.Bounder: the events that were stored first make room. The last one stays.
func (s *Store) Bound(ctx context.Context, most int64, young time.Time) (n int64, more bool, err error) {
	s.trim.mu.Lock()
	defer s.trim.mu.Unlock()
	var have, first, until int64
	held := false // by one that is young
	if err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if err := tx.QueryRow("SELECT coalesce(sum(bytes), 0) FROM warehouse_count").Scan(&have); err != nil || have <= most {
			return err
		}
		rows, err := tx.Query("SELECT id, timestamp, "+octets+" FROM warehouse_event ORDER BY id LIMIT ?", trimRows)
		if err != nil {
			return err
		}
		defer rows.Close()
		for over := have - most; over > 0 && rows.Next(); {
			var id, at, size int64
			if err := rows.Scan(&id, &at, &size); err != nil {
				return err
			}
			if held = at >= ceilMilli(young); held {
				break
			}
			if until = id; first == 0 {
				first = id
			}
			over -= size
		}
		return rows.Err()
	}); err == nil && first > 0 {
		n, err = s.remove(ctx, "id >= ? AND id <= ?", first, until)
	}
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("make room for events: %w", err)
	case n == 0 && held:
		return 0, false, warehouse.Over(have, most, young)
	}
	return n, n > 0, nil
}

// trimAge removes the old events of a slice.
func (s *Store) trimAge(ctx context.Context, before time.Time) (n int64, more bool, err error) {
	t, at := &s.trim, ceilMilli(before)
	var last, end int64
	var until int64 // the last of those that one write removes; 0: there is none
	if err := s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		if t.next == 0 {
			t.whole = t.looked == 0 || at-t.looked >= wholeEvery.Milliseconds()
			if t.whole {
				t.looked = at
			}
			if err := tx.QueryRow("SELECT coalesce(min(id), 1) FROM warehouse_event").Scan(&t.next); err != nil {
				return err
			}
		}
		end = t.next + trimSpan
		return tx.QueryRow("SELECT (SELECT coalesce(max(id), 0) FROM warehouse_event), (SELECT coalesce(max(id), 0) FROM (SELECT id FROM warehouse_event WHERE id >= ? AND id < ? AND timestamp < ? ORDER BY id LIMIT ?))", t.next, end, at, trimRows).Scan(&last, &until)
	}); err != nil {
		return 0, false, err
	}
	if until > 0 {
		if n, err = s.remove(ctx, "id >= ? AND id <= ? AND timestamp < ?", t.next, until, at); err != nil {
			return 0, false, err
		}
	}
	if n == trimRows {
		end = until + 1 // there may be more in this slice
	}
	t.next = end
	if more = end <= last && (t.whole || until > 0); !more {
		t.next = 0
	}
	return n, more, nil
}

// remove removes events and counts them. The newest row stays: the next id is made of it, and an id
// is never given twice.
func (s *Store) remove(ctx context.Context, where string, args ...any) (n int64, err error) {
	where += " AND id < (SELECT max(id) FROM warehouse_event)"
	err = s.db.Write(ctx, func(tx *sqlitedb.Tx) (err error) {
		if _, err := tx.Exec("UPDATE warehouse_count SET events = events - g.n, bytes = bytes - g.size, removed = removed + g.n FROM (SELECT project, count(*) AS n, sum("+octets+") AS size FROM warehouse_event WHERE "+where+" GROUP BY project) AS g WHERE g.project = warehouse_count.project", args...); err != nil {
			return err
		}
		ids, err := chosenIDs(tx, where, args)
		if err == nil {
			err = s.index.Removed(tx, ids)
		}
		if err != nil {
			return err
		}
		n, err = tx.Exec("DELETE FROM warehouse_event WHERE "+where, args...)
		return err
	})
	return n, err
}

// chosenIDs are the ids of events, in order.
func chosenIDs(tx *sqlitedb.Tx, where string, args []any) (ids []int64, err error) {
	rows, err := tx.Query("SELECT id FROM warehouse_event WHERE "+where+" ORDER BY id", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Removed implements warehouse.Trimmer.
func (s *Store) Removed(ctx context.Context) (n int64, err error) {
	err = s.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT coalesce(sum(removed), 0) FROM warehouse_count").Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count events that were removed: %w", err)
	}
	return n, nil
}
