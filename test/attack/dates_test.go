//go:build servers

package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/testenv"
)

// TestDatesDoNotFillTheWarehouse imports one event a month of 398 years, three times: each
// month would be a partition of ClickHouse, with parts of its own.
func TestDatesDoNotFillTheWarehouse(t *testing.T) {
	t.Parallel()
	const (
		imports, years = 3, 2298 - 1901 + 1
		// Months of five years, including unfinished ones at both ends; today's, and
		// tomorrow's.
		partitions = 12*5 + 3
	)
	server, database := testenv.ClickHouse(t)
	conn, err := clickhousehttp.Open(t.Context(), server, clickhousehttp.Options{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	number := func(query string) (n int64) {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		for rows.Next() {
			n = rows.Int64()
		}
		if rows.Err() != nil {
			t.Fatalf("%s: %v", query, rows.Err())
		}
		return n
	}
	parts := func(what string) int64 {
		t.Helper()
		return number(fmt.Sprintf("SELECT toInt64(%s) FROM system.parts WHERE database = '%s' AND table = 'events'", what, database))
	}
	a := start(t, []string{"analytics"}, map[string]string{"CLICKHOUSE_URL": server, "CLICKHOUSE_DB": database})
	for range imports {
		var events []any
		for month := range 12 * years {
			at := time.Date(1901, time.Month(1+month), 15, 0, 0, 0, 0, time.UTC)
			events = append(events, map[string]any{"event": "strange", "event_id": uuid.NewString(), "distinct_id": "u", "timestamp": at.Format(time.RFC3339)})
		}
		if status, said := a.post(hostile, "/v1/import", map[string]any{"events": events}); status != http.StatusAccepted {
			t.Fatalf("an import is answered %d: %.300s", status, said)
		}
	}
	a.serves("bought", 10)
	a.until("what was imported is stored", func() bool { // not counted in the warehouse: events older than a year expire
		return a.books("analytics").Delivered == imports*12*years+10
	})
	if n := parts("uniqExact(partition)"); n > partitions {
		t.Errorf("the warehouse has %d partitions, want %d at most", n, partitions)
	}
	// Merged parts that are not yet removed count too: each INSERT makes one per partition.
	if n, most := parts("count()"), int64(10*partitions); n > most {
		t.Errorf("the warehouse has %d parts, want %d at most", n, most)
	}
	for _, typ := range []string{"event_timestamp_too_old", "event_timestamp_in_future"} {
		if n := a.metric("tidemill_warnings_total", `"`+typ+`"`); n != imports {
			t.Errorf("there are %v warnings %s, want one an import", n, typ)
		}
	}
	if given := number(fmt.Sprintf("SELECT toInt64(count()) FROM %s.events FINAL WHERE properties LIKE '%%$given_timestamp%%2298-12-15T00:00:00Z%%'", database)); given != imports {
		t.Errorf("%d events keep the time 2298-12-15 that was given, want %d", given, imports)
	}
	a.serves("bought later", 10)
}

// TestDaysDoNotUseUpTheSearchServer sends records of 1,500 days: each would be an index of
// OpenSearch, with its own shard, and a server allows a thousand.
func TestDaysDoNotUseUpTheSearchServer(t *testing.T) {
	t.Parallel()
	const (
		days    = 1500
		indices = 30 + 2 + 1 // of kept days, of today and tomorrow, and the one of all others
	)
	server := testenv.Start(t, testenv.PrivateOpenSearch, "SEARCH_HEAP=256m") // index templates are shared by the whole server
	conn, err := opensearchhttp.Open(t.Context(), server.URL, opensearchhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	a := start(t, []string{"windows"}, map[string]string{"TIDEMILL_WINDOWS_SEARCH_URL": server.URL, "TIDEMILL_WINDOWS_WINDOW": "1s", "TIDEMILL_WINDOWS_SWEEP": "100ms"})
	send := func(p tenant, batch, code string, first, n int) {
		t.Helper()
		var records []any
		for i := range n {
			day := time.Now().UTC().AddDate(0, 0, -i)
			records = append(records, map[string]any{"globalEventId": first + i, "eventCode": code, "day": day.Year()*10000 + int(day.Month())*100 + day.Day()})
		}
		if status, said := a.post(p, "/v1/windows/events", records, "X-Batch-ID: "+batch); status != http.StatusAccepted {
			t.Fatalf("records are answered %d: %.300s", status, said)
		}
	}
	found := func(code string) (n int) {
		t.Helper()
		_, said := a.get("/api/v1/search?"+url.Values{"family": {"events"}, "q": {"eventCode:" + code}}.Encode(), "Authorization: Bearer "+a.Token())
		var page struct{ Total int }
		_ = json.Unmarshal(said, &page) // the index does not exist yet
		return page.Total
	}
	send(hostile, "strange", "666", 1_000_000, days)
	send(honest, "true", "042", 1, 10)
	a.until("honest records are found", func() bool { return found("042") == 10 })
	a.until("hostile ones are found, too", func() bool { return found("666") == days })
	answer, err := conn.Do(t.Context(), http.MethodGet, "/gdelt-*/_settings/index.creation_date?expand_wildcards=all", nil)
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]any
	if err := json.Unmarshal(answer, &made); err != nil {
		t.Fatal(err)
	}
	if len(made) > indices {
		t.Errorf("there are %d indices, want %d at most", len(made), indices)
	}
	var common []string
	for index := range made {
		if strings.Contains(index, "-far-") {
			common = append(common, index)
		}
	}
	if len(common) == 0 || len(common) > 2 { // two, if the month ends meanwhile
		t.Errorf("there are common indices %q, want one", common)
	}
	send(honest, "later", "043", 100, 10)
	a.until("honest records are found afterwards", func() bool { return found("043") == 10 })
}
