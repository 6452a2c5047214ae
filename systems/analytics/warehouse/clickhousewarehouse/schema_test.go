package clickhousewarehouse

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// text reads one text from the server.
func text(t testing.TB, conn *clickhousehttp.Conn, query string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Fatalf("%s: no row (%v)", query, rows.Err())
	}
	s := rows.String()
	if rows.Err() != nil {
		t.Fatalf("%s: %v", query, rows.Err())
	}
	return s
}

func exec(t testing.TB, conn *clickhousehttp.Conn, statement string) {
	t.Helper()
	if err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// The table of an earlier deployment, with its own columns and none of ours.
const deployed = `CREATE TABLE %.events (
	event_id UUID DEFAULT generateUUIDv4(), project_id UUID, person_id UUID,
	event_name LowCardinality(String), event_type LowCardinality(String) DEFAULT 'track',
	device_type LowCardinality(String), browser LowCardinality(String), os LowCardinality(String),
	country LowCardinality(String), language LowCardinality(String), sdk_name LowCardinality(String),
	distinct_id String DEFAULT '', anonymous_id String DEFAULT '', user_id String DEFAULT '', session_id String DEFAULT '',
	url String DEFAULT '', referrer String DEFAULT '', page_title String DEFAULT '', page_path String DEFAULT '',
	browser_version String DEFAULT '', os_version String DEFAULT '', region String DEFAULT '', city String DEFAULT '',
	timezone String DEFAULT '', sdk_version String DEFAULT '', batch_id String DEFAULT '', ip String DEFAULT '',
	screen_width UInt16, screen_height UInt16, properties String DEFAULT '{}', user_properties String DEFAULT '{}',
	timestamp DateTime64(3, 'UTC'), ingested_at DateTime64(3, 'UTC') DEFAULT now64(3), theirs String DEFAULT 'own'
) ENGINE = ReplacingMergeTree(ingested_at) PARTITION BY toYYYYMM(timestamp)
ORDER BY (project_id, event_name, timestamp, event_id) TTL toDateTime(timestamp) + INTERVAL 365 DAY`

func TestTablesOfADeploymentAreTakenOver(t *testing.T) {
	conn := fresh(t)
	in := func(q string) string {
		return strings.ReplaceAll(q, "%", clickhousehttp.Name(conn.Database()))
	}
	exec(t, conn, "CREATE DATABASE "+clickhousehttp.Name(conn.Database()))
	exec(t, conn, in(deployed))
	exec(t, conn, in(`CREATE TABLE %.person_distinct_id_overrides (project_id UUID, distinct_id String, person_id UUID, version UInt64) ENGINE = ReplacingMergeTree(version) ORDER BY (project_id, distinct_id)`))
	exec(t, conn, in(`CREATE TABLE %.ingestion_warnings (project_id UUID, type LowCardinality(String), details String, timestamp DateTime) ENGINE = MergeTree ORDER BY (project_id, timestamp)`))
	old := ev(1)
	ms := time.Now().UTC().Truncate(time.Hour).Format("2006-01-02 15:04:05")
	exec(t, conn, in(`INSERT INTO %.events (event_id, project_id, person_id, event_name, distinct_id, timestamp, ingested_at) SELECT '`+old.ID.String()+`', '`+old.Project.String()+`', '`+old.Person.String()+`', 'old', 'ann', '`+ms+`', '2020-01-01 00:00:00'`))
	const theirs = 1_788_000_000_000
	exec(t, conn, in(`INSERT INTO %.person_distinct_id_overrides SELECT '`+old.Project.String()+`', 'bob', '`+old.Person.String()+`', 1788000000000`))
	exec(t, conn, in(`INSERT INTO %.ingestion_warnings SELECT '`+old.Project.String()+`', 'invalid_event', 'no json', now()`))

	for range 2 { // opening again changes nothing
		s := store(t, conn, Options{})
		if v, err := s.HighestVersion(t.Context()); err != nil || v != theirs {
			t.Fatalf("HighestVersion = %d, %v; want %d", v, err, theirs)
		}
		if ws, err := s.Warnings(t.Context(), warehouse.WarningFilter{Project: old.Project}); err != nil || len(ws) != 1 || ws[0].Reason != "no json" {
			t.Fatalf("Warnings = %+v, %v", ws, err)
		}
	}
	s := store(t, conn, Options{})
	now := ev(2)
	now.Timestamp = time.Now()
	insert(t, s, now)
	got := list(t, s, warehouse.Filter{Project: old.Project})
	if len(got) != 2 || got[0].Name != "old" || got[0].Properties != nil || got[1].ID != now.ID || got[1].UserAgent != now.UserAgent {
		t.Fatalf("listed %+v", got)
	}
}

func TestOpeningNeedsNoRightsWhenAllIsThere(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{})
	st, err := s.state(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := s.missing(st, time.Hour); len(left) != 0 {
		t.Fatalf("opened a second time, these statements would run: %q", left)
	}
}

func TestTheDefinitionsAreThoseOfTheFacts(t *testing.T) {
	conn := fresh(t)
	if _, err := New(t.Context(), conn, Options{}); err != nil {
		t.Fatal(err)
	}
	for table, parts := range map[string][]string{
		"events": {"ENGINE = ReplacingMergeTree(ingested_at)", "PARTITION BY if((timestamp >= toDateTime64('2000-01-01 00:00:00', 3, 'UTC')) AND (timestamp < toDateTime64('2100-01-01 00:00:00', 3, 'UTC')), toYYYYMM(timestamp), 0)", "ORDER BY (project_id, event_name, timestamp, event_id)",
			"toIntervalSecond(31536000)", "non_replicated_deduplication_window = 10000", "fsync_after_insert = 1", "`screen_width` UInt16", "`event_type` LowCardinality(String) DEFAULT 'track'"},
		"person_distinct_id_overrides": {"ReplacingMergeTree(version)", "ORDER BY (project_id, distinct_id)"},
		"ingestion_warnings":           {"ENGINE = MergeTree", "ORDER BY (project_id, timestamp)", "TTL timestamp + toIntervalSecond(2592000)", "`timestamp` DateTime,"},
		"person_overrides_dict":        {"PRIMARY KEY project_id, distinct_id", "LIFETIME(MIN 30 MAX 60)"},
	} {
		got := text(t, conn, "SELECT create_table_query FROM system.tables WHERE database = "+clickhousehttp.Text(conn.Database())+" AND name = "+clickhousehttp.Text(table))
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%s has no %q:\n%s", table, p, got)
			}
		}
	}
}

func TestTheViewShowsEachEventOnceUnderItsPersonNow(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{Recent: -1})
	in := func(q string) string { return strings.ReplaceAll(q, "%", clickhousehttp.Name(conn.Database())) }
	exec(t, conn, in("SYSTEM STOP MERGES %.events"))
	b := ev(2)
	b.DistinctID = "bob"
	insert(t, s, ev(1), b)
	insert(t, s, b, ev(3))
	insert(t, s, b)
	if raw := text(t, conn, in("SELECT toString(count()) FROM %.events")); raw != "5" {
		t.Fatalf("%s rows are stored, want 5", raw)
	}
	survivor := uuid.MustParse("44444444-4444-5444-8444-444444444444")
	for _, o := range []person.Override{{Person: uuid.Max, Version: 8}, {Person: survivor, Version: 9}, {Person: uuid.Max, Version: 7}} {
		o.Ref = b.Ref()
		if err := s.Override(t.Context(), []person.Override{o}); err != nil {
			t.Fatal(err)
		}
	}
	if n := text(t, conn, in("SELECT toString(count()) FROM %.events_resolved")); n != "3" {
		t.Errorf("the view has %s rows, want 3", n)
	}
	if got := text(t, conn, in("SELECT toString(groupArray(person_id)) FROM %.events_resolved WHERE distinct_id = 'bob'")); got != "['"+survivor.String()+"']" {
		t.Errorf("bob's event belongs to %s, want %s", got, survivor)
	}
	if got := text(t, conn, in("SELECT toString(groupUniqArray(person_id)) FROM %.events_resolved WHERE distinct_id = 'ann'")); got != "['"+ev(1).Person.String()+"']" {
		t.Errorf("ann's events belong to %s", got)
	}
	if got := text(t, conn, in("SELECT toString(dictGet('"+conn.Database()+".person_overrides_dict', 'person_id', (toUUID('"+b.Project.String()+"'), 'bob')))")); got != survivor.String() {
		t.Errorf("the dictionary has %s, want %s", got, survivor)
	}
}

func TestInspectionFindsWhatIsUnfit(t *testing.T) {
	conn := fresh(t)
	s := store(t, conn, Options{})
	verdicts := func() map[string]string {
		m := map[string]string{}
		for _, f := range s.Inspect(t.Context()) {
			t.Logf("%s: %s: %s. %s", f.Verdict, f.Check, f.Detail, f.Advice)
			m[f.Check] = f.Verdict
			if f.Verdict != preflight.OK && f.Advice == "" {
				t.Errorf("%s has no advice", f.Check)
			}
		}
		return m
	}
	for check, v := range verdicts() {
		if v != preflight.OK && !strings.HasPrefix(check, "clickhouse: disk") {
			t.Errorf("%s is %s in what New made", check, v)
		}
	}
	name := s.names.events
	exec(t, conn, "DROP TABLE "+name)
	exec(t, conn, "CREATE TABLE "+name+" (project_id UUID, event_name String, timestamp DateTime64(3), event_id UUID) ENGINE = MergeTree ORDER BY (project_id, event_id)")
	got := verdicts()
	for check, want := range map[string]string{
		"clickhouse: engine of events":                              preflight.Fail,
		"clickhouse: order of events":                               preflight.Fail,
		"clickhouse: deduplication of events":                       preflight.Warn,
		"clickhouse: events are on disk when they are acknowledged": preflight.Warn,
	} {
		if got[check] != want {
			t.Errorf("%s is %q, want %q", check, got[check], want)
		}
	}
	exec(t, conn, "DROP TABLE "+name)
	if got := verdicts()["clickhouse: engine of events"]; got != preflight.Fail {
		t.Errorf("without a table the verdict is %q", got)
	}
}

// A user without the right to make a dictionary gets a warehouse without one.
func TestADictionaryIsNotWorthFailingFor(t *testing.T) {
	rawURL, database := testenv.ClickHouse(t)
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	server := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(string(body), "CREATE DICTIONARY") {
			w.Header().Set("X-ClickHouse-Exception-Code", "497")
			http.Error(w, "Code: 497. DB::Exception: Not enough privileges", http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := store(t, open(t, front.URL, clickhousehttp.Options{Database: database}), Options{})
	insert(t, s, ev(1))
	if !slices.ContainsFunc(s.Inspect(t.Context()), func(f preflight.Finding) bool {
		return f.Check == "clickhouse: dictionary of persons" && f.Verdict == preflight.Warn
	}) {
		t.Error("nobody is told that there is no dictionary")
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	rawURL, _ := testenv.ClickHouse(t)
	if _, err := New(t.Context(), open(t, rawURL, clickhousehttp.Options{}), Options{}); err == nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("without a database: %v", err)
	}
	if _, err := New(t.Context(), fresh(t), Options{Keep: 1}); err == nil {
		t.Error("events kept for a nanosecond are not refused")
	}
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// ev is event i.
func ev(i int) *event.Event {
	return &event.Event{ID: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i >> 8), byte(i)}), Project: uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001"),
		Name: "click", Type: "track", DistinctID: "ann", Person: uuid.MustParse("11111111-0000-5000-8000-000000000001"), Sender: event.Sender{UserAgent: "agent"},
		Properties: []byte(`{"n":1}`), Timestamp: noon.Add(time.Duration(i) * time.Second), IngestedAt: noon, Origin: uint64(i)}
}

func evs(from, to int) (es []*event.Event) {
	for i := from; i < to; i++ {
		es = append(es, ev(i))
	}
	return es
}

func insert(t testing.TB, s *Store, rows ...*event.Event) []warehouse.Outcome {
	t.Helper()
	took := make([]warehouse.Outcome, len(rows))
	if err := s.Insert(t.Context(), rows, took); err != nil {
		t.Fatalf("Insert of %d rows: %v", len(rows), err)
	}
	return took
}

func list(t testing.TB, s *Store, f warehouse.Filter) (es []event.Event) {
	t.Helper()
	for e, err := range s.Events(t.Context(), f) {
		if err != nil {
			t.Fatalf("Events(%+v): %v", f, err)
		}
		es = append(es, *e)
	}
	return es
}
