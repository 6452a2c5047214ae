package clickhousewarehouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// A page reads what the table's order and its partitions do not leave out: a small part.
func TestAPageLeavesOutMostOfTheTable(t *testing.T) {
	s := store(t, fresh(t), Options{NoDictionary: true})
	project := uuid.New()
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const all, batch = 60_000, 6000
	for from := 0; from < all; from += batch {
		rows := make([]*event.Event, batch)
		for i := range rows {
			n := from + i
			rows[i] = &event.Event{Project: project, ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)), Name: fmt.Sprint("name ", n%2), DistinctID: "ada",
				Timestamp: first.Add(time.Duration(n) * time.Minute), IngestedAt: first, Origin: uint64(n + 1)}
		}
		if err := s.Insert(t.Context(), rows, make([]warehouse.Outcome, batch)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.conn.Exec(t.Context(), "OPTIMIZE TABLE "+s.names.events+" FINAL"); err != nil {
		t.Fatal(err)
	}
	if n := estimate(t, s, project, "", first.UnixMilli(), first.Add(all*time.Minute).UnixMilli()); n < all {
		t.Fatalf("of the whole time %d rows are read, want all %d", n, all)
	}
	for name, f := range map[string]warehouse.Filter{"all": {}, "by name": {Name: "name 1"}} {
		f.Project = project
		for _, oldest := range []bool{false, true} {
			l := warehouse.Listing{Filter: f, Oldest: oldest}
			l.Max = 50
			got, err := s.List(t.Context(), l)
			if err != nil || len(got.Events) != 50 {
				t.Fatalf("%s: %d events, %v", name, len(got.Events), err)
			}
			span := got.Events[0].Timestamp.Sub(got.Events[49].Timestamp).Abs().Milliseconds()
			low := first.UnixMilli()
			if !oldest {
				low = first.Add(all*time.Minute).UnixMilli() - widen*span
			}
			if n := estimate(t, s, project, f.Name, low, low+widen*span); n == 0 || n > all/3 {
				t.Errorf("%s, oldest first %t: %d rows are read, of %d", name, oldest, n, all)
			}
		}
	}
}

// estimate is how many rows the server reads for a span of time.
func estimate(t *testing.T, s *Store, project uuid.UUID, name string, low, high int64) (n uint64) {
	t.Helper()
	q := fmt.Sprintf("EXPLAIN ESTIMATE SELECT event_id FROM %s FINAL WHERE project_id = '%s' AND timestamp >= fromUnixTimestamp64Milli(toInt64(%d), 'UTC') AND timestamp <= fromUnixTimestamp64Milli(toInt64(%d), 'UTC')", s.names.events, project, low, high)
	if name != "" {
		q += " AND event_name = '" + name + "'"
	}
	rows, err := s.conn.Query(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		_, _, _ = rows.String(), rows.String(), rows.UInt64() // database, table, parts
		n += rows.UInt64()
		_ = rows.UInt64() // marks
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}
