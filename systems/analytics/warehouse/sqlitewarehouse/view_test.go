package sqlitewarehouse

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// rowsOf reads a view as text: names and values.
func rowsOf(t *testing.T, db *sqlitedb.DB, query string) (found []map[string]string) {
	t.Helper()
	err := db.Read(t.Context(), func(tx *sqlitedb.Tx) error {
		rows, err := tx.Query(query)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			values, into := make([]string, len(columns)), make([]any, len(columns))
			for i := range into {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			row := map[string]string{}
			for i, c := range columns {
				row[c] = values[i]
			}
			found = append(found, row)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheViewHasTheColumnsOfTheWarehouse(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{})
	project := uuid.MustParse("33333333-3333-4333-8333-333333333333")
	of := person.ID(person.Ref{Project: project, Distinct: "fixture"})
	survivor := uuid.MustParse("44444444-4444-5444-8444-444444444444")
	full := &event.Event{ID: uuid.MustParse("0190f3c2-7d1a-7c3e-8f4b-0123456789ab"), Project: project, Person: of, Name: "$pageview", Type: "pageview",
		DistinctID: "fixture", Properties: []byte(`{"$set":{"a":[1,"x"]}}`), UserProperties: []byte(`{"plan":"pro"}`),
		Device: event.Device{ScreenWidth: 1920, ScreenHeight: 1080}, Timestamp: time.UnixMilli(1_788_000_000_007), IngestedAt: time.UnixMilli(-1)}
	want := map[string]string{
		"event_id": full.ID.String(), "project_id": project.String(), "person_id": of.String(), "event_name": "$pageview", "event_type": "pageview",
		"distinct_id": "fixture", "properties": `{"$set":{"a":[1,"x"]}}`, "user_properties": `{"plan":"pro"}`,
		"screen_width": "1920", "screen_height": "1080",
		"timestamp": time.UnixMilli(1_788_000_000_007).UTC().Format("2006-01-02 15:04:05.000"), "ingested_at": "1969-12-31 23:59:59.999"}
	for i := range texts { // each its own value, so that mixed-up columns show
		*texts[i].of(full) = texts[i].name + ` "é" \`
		want[texts[i].name] = texts[i].name + ` "é" \`
	}
	empty := &event.Event{ID: uuid.MustParse("0190f3c2-7d1a-7c3e-8f4b-0123456789ac"), Project: project, Name: "x", Type: "track", DistinctID: "moved", Person: of}
	mustInsert(t, s, []*event.Event{full, empty})
	if err := s.Override(t.Context(), []person.Override{{Ref: empty.Ref(), Person: survivor, Version: 1}}); err != nil {
		t.Fatal(err)
	}
	got := rowsOf(t, db, "SELECT * FROM events ORDER BY event_id")
	if len(got) != 2 {
		t.Fatalf("the view has %d rows, want 2", len(got))
	}
	for c, v := range got[0] {
		if v != want[c] {
			t.Errorf("column %s is %q, want %q", c, v, want[c])
		}
	}
	if len(got[0]) != len(want) {
		t.Errorf("the view has %d columns, want %d", len(got[0]), len(want))
	}
	if got[1]["person_id"] != survivor.String() || got[1]["properties"] != "{}" || got[1]["url"] != "" || got[1]["screen_width"] != "0" {
		t.Errorf("an event with nothing but an override is shown as %v", got[1])
	}
	if n := number(t, s, "SELECT count(*) FROM events WHERE json_extract(properties, '$.$set.a[1]') = 'x' AND screen_width > 1000"); n != 1 {
		t.Errorf("properties cannot be asked as JSON: %d rows", n)
	}
}

func TestWarningsAreShownAsTheWarehouseDoes(t *testing.T) {
	db := open(t)
	s := store(t, db, Options{})
	if err := s.Warn(t.Context(), []warehouse.Warning{{Type: "invalid_event", Event: `a"b`, Distinct: "d", Reason: "why", At: time.UnixMilli(1_788_000_000_000)}}); err != nil {
		t.Fatal(err)
	}
	got := rowsOf(t, db, "SELECT * FROM ingestion_warnings")
	var details map[string]string
	if len(got) != 1 || json.Unmarshal([]byte(got[0]["details"]), &details) != nil || details["event_name"] != `a"b` || details["reason"] != "why" || got[0]["type"] != "invalid_event" {
		t.Errorf("shown as %v", got)
	}
}

// A page of warnings reads what it shows, and others of the millisecond that it begins in: it is a
// search in an index that is in its order.
func TestAPageOfWarningsIsReadInItsOrder(t *testing.T) {
	db := open(t)
	store(t, db, Options{})
	for _, oldest := range []bool{false, true} {
		want := "SEARCH warehouse_warning USING INDEX warehouse_warning_project (project=? AND at" + map[bool]string{false: "<", true: ">"}[oldest] + "?)"
		if steps := rowsOf(t, db, "EXPLAIN QUERY PLAN "+strings.ReplaceAll(warningsQuery(oldest), "?", "1")); len(steps) != 1 || steps[0]["detail"] != want {
			t.Errorf("%v, want %q", steps, want)
		}
	}
}
