package clickhousewarehouse

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// strange are events of so many months, one each, from 2050 on, in random order: as many as a
// DateTime64 holds.
func strange(months int) []*event.Event {
	rows := evs(0, months)
	for i, e := range rows {
		e.Timestamp = time.Date(2050, time.Month(1+i), 1+i%28, 0, 0, 0, 0, time.UTC)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

// recorder is in front of a server and notes the token of each INSERT, by its query.
func recorder(t *testing.T, rawURL string) (front string, inserts func() []string) {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	server := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	var mu sync.Mutex
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if token := q.Get("insert_deduplication_token"); token != "" {
			mu.Lock()
			seen = append(seen, token)
			mu.Unlock()
		}
		if q.Has("max_partitions_per_insert_block") {
			t.Error("the server's limit on partitions is changed")
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		s := seen
		seen = nil
		return s
	}
}

// TestInsertsOfManyMonthsAreBoundedAndRepeatable stores a batch of 3,000 months three times,
// twice without remembering it: no INSERT has more partitions than the server allows by
// default, and repeats are the same INSERTs, none of whose parts is kept.
func TestInsertsOfManyMonthsAreBoundedAndRepeatable(t *testing.T) {
	rawURL, database := testenv.ClickHouse(t)
	front, inserts := recorder(t, rawURL)
	conn := open(t, front, clickhousehttp.Options{Database: database, Timeout: time.Minute})
	s := store(t, conn, Options{Recent: -1, NoSync: true, NoDictionary: true, Keep: -1})
	exec(t, conn, "SYSTEM STOP MERGES "+s.names.events)
	rows := strange(3000)
	count := func(what string) string {
		return text(t, conn, fmt.Sprintf("SELECT toString(%s) FROM system.parts WHERE active AND database = '%s' AND table = 'events'", what, database))
	}
	var parts string
	var first []string
	for try := range 3 {
		insert(t, s, rows...)
		tokens := inserts()
		if try == 0 {
			parts, first = count("count()"), tokens
			if n := 2299/spanYears - 2050/spanYears + 1; len(tokens) != n {
				t.Errorf("it was stored in %d INSERTs, want %d, one for each %d years", len(tokens), n, spanYears)
			}
			continue
		}
		if !slices.Equal(tokens, first) {
			t.Errorf("try %d has other tokens than the first", try+1)
		}
		if n := count("count()"); n != parts {
			t.Errorf("after try %d there are %s parts, want %s as after the first", try+1, n, parts)
		}
	}
	if n := count("uniqExact(partition)"); n != "601" { // months of fifty years, plus one
		t.Errorf("there are %s partitions, want 601", n)
	}
	if n := raw(t, s); n != "3000" {
		t.Errorf("%s rows are stored, want 3000", n)
	}
	rest := slices.DeleteFunc(slices.Clone(rows), func(e *event.Event) bool { return e.Timestamp.Year() >= 2056 })
	insert(t, s, rest...)
	if tokens := inserts(); !slices.Equal(tokens, first[:1]) {
		t.Error("a span has another token where the batch has no rows of others")
	}
}

// A span holds as many partitions as an INSERT may have, and no more.
func TestASpanHasFewerMonthsThanAServerAllows(t *testing.T) {
	months := map[int]int{}
	for _, e := range strange(3000) {
		months[spanOf(e.Timestamp)]++
	}
	for span, n := range months {
		if n > 100 {
			t.Errorf("the span of %d has %d months, want 100 at most", span*spanYears, n)
		}
	}
}

// A batch that failed between two INSERTs is completed by its next try, which sends the second
// alone.
func TestABatchThatFailedBetweenTwoSpansIsCompleted(t *testing.T) {
	var fail bool
	var sent int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if sent++; fail && sent == 2 {
			w.Header().Set("X-ClickHouse-Exception-Code", "209")
			http.Error(w, "Code: 209. DB::Exception: Timeout", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	conn := open(t, server.URL, clickhousehttp.Options{Database: "d"})
	sent = 0
	s := &Store{conn: conn, names: namesIn("d"), o: Options{Now: time.Now}, recent: newRecent(100), blocks: make(chan *block, blocksKept)}
	old := ev(2)
	old.Timestamp = noon.AddDate(-20, 0, 0)
	rows := []*event.Event{ev(1), old, ev(3)}
	took := make([]warehouse.Outcome, len(rows))
	fail = true
	if err := s.Insert(t.Context(), rows, took); err == nil || sent != 2 {
		t.Fatalf("the second of two INSERTs failed, and Insert returned %v after %d", err, sent)
	}
	fail = false
	if err := s.Insert(t.Context(), rows, took); err != nil || sent != 3 {
		t.Errorf("Insert returned %v after %d INSERTs in all, want 3", err, sent)
	}
	if want := []warehouse.Outcome{warehouse.Stored, warehouse.Again, warehouse.Stored}; !slices.Equal(took, want) {
		t.Errorf("the second try took %v, want %v", took, want)
	}
}
