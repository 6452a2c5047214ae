package windowsingest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/endpoint/endpointtest"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
)

func TestRefusals(t *testing.T) {
	to := "POST " + Path + "/events"
	for _, c := range []struct {
		name, to, body string
		h              header
		code           int
		word           string
	}{
		{"no key", to, event(1), header{"X-API-Key": ""}, 401, "unauthorized"},
		{"a wrong key", to, event(1), header{"X-API-Key": "wrong"}, 401, "unauthorized"},
		{"a file without a key", "POST " + Path + "/files?name=a.export.CSV", "1\t", header{"X-API-Key": ""}, 401, "unauthorized"},
		{"windows without a key", "GET " + Path + "/" + batch, "", header{"X-API-Key": ""}, 401, "unauthorized"},
		{"no JSON", to, event(1)[:20], nil, 400, "malformed_json"},
		{"two records in a row", to, event(1) + event(2), nil, 400, "malformed_json"},
		{"lines that are not called so", to, event(1) + "\n" + event(2), nil, 400, "malformed_json"},
		{"an array that does not end", to, "[" + event(1), nil, 400, "malformed_json"},
		{"an array that ends in a comma", to, "[" + event(1) + ",]", nil, 400, "malformed_json"},
		{"an array with a bracket of another sort", to, "[" + event(1) + "}", nil, 400, "malformed_json"},
		{"an array without a comma", to, "[" + event(1) + event(2) + "]", nil, 400, "malformed_json"},
		{"something behind an array", to, "[" + event(1) + "] x", nil, 400, "malformed_json"},
		{"a NUL behind an array", to, "[" + event(1) + "]\x00", nil, 400, "malformed_json"},
		{"an array of which one is no JSON", to, "[" + event(1) + `,{"globalEventId":2]]`, nil, 400, "malformed_json"},
		{"a quote that is not escaped", to, `[{"globalEventId":1,"sourceUrl":"a"b"},{"globalEventId":2,"sourceUrl":"a"}]`, nil, 400, "malformed_json"},
		{"nothing", to, "", nil, 400, "empty"},
		{"white space", to, " \n", nil, 400, "empty"},
		{"an empty array", to, "[ ]", nil, 400, "empty"},
		{"empty lines", to, "\n\r\n \n", ndjson, 400, "empty"},
		{"a million brackets", to, strings.Repeat("[", 1_000_000), nil, 400, "malformed_json"},
		{"a million objects in an array", to, "[" + strings.Repeat(`{"a":`, 200_000), nil, 400, "malformed_json"},
		{"a million of both", to, "[" + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + "]", nil, 400, "malformed_json"},
		{"10,001 records", to, "[" + several(10_001, event, ",") + "]", nil, 413, "too_large"},
		{"10,001 lines", to, several(10_001, event, "\n"), ndjson, 413, "too_large"},
		{"a large body", to, strings.Repeat(" ", 8<<20) + event(1), nil, 413, "too_large"},
		{"a large record", to, `{"globalEventId":1,"sourceUrl":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "too_large"},
		{"a wrong value", to, `{"globalEventId":"1"}`, nil, 422, "validation_failed"},
		{"no id", to, `{"day":1}`, nil, 422, "validation_failed"},
		{"no UTF-8", to, "{\"globalEventId\":1,\"sourceUrl\":\"\xff\"}", nil, 422, "validation_failed"},
		{"all of an array wrong", to, "[1,2,{}]", nil, 422, "validation_failed"},
		{"all lines wrong", to, "{\n}", ndjson, 422, "validation_failed"},
		{"a text", to, `"event"`, nil, 422, "validation_failed"},
		{"a form", to, "a=b", header{"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"another charset", to, event(1), header{"Content-Type": "application/x-ndjson; charset=latin1"}, 415, "unsupported_media_type"},
		{"a type that is none", to, event(1), header{"Content-Type": "///"}, 415, "unsupported_media_type"},
		{"another encoding", to, event(1), header{"Content-Encoding": "lz4"}, 415, "unsupported_media_type"},
		{"packed twice", to, zipped(zipped(event(1))), header{"Content-Encoding": "gzip"}, 415, "unsupported_media_type"},
		{"half of a gzip", to, zipped(event(1))[:30], header{"Content-Encoding": "gzip"}, 400, "bad_request"},
		{"half of a zstd", to, zstandard(event(1))[:20], header{"Content-Encoding": "zstd"}, 400, "bad_request"},
		{"not packed though it says so", to, event(1), header{"Content-Encoding": "gzip"}, 400, "bad_request"},
		{"a bomb", to, zipped(strings.Repeat(" ", 20<<20)), header{"Content-Encoding": "gzip"}, 413, "too_large"},
		{"another bomb", to, zstandard(strings.Repeat(" ", 20<<20)), header{"Content-Encoding": "zstd"}, 413, "too_large"},
		{"no path", "POST " + Path, event(1), nil, 404, "not_found"},
		{"half a path", "GET " + Path + "/", "", nil, 404, "not_found"},
		{"records of another kind", "POST " + Path + "/event", event(1), nil, 405, "method_not_allowed"},
		{"DELETE of events", "DELETE " + Path + "/events", "", nil, 405, "method_not_allowed"},
		{"PUT of a file", "PUT " + Path + "/files", "", nil, 405, "method_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newEndpoint(t)
			method, path, _ := strings.Cut(c.to, " ")
			w := d.ask(method, path, c.body, c.h)
			want(t, w, c.code, c.word)
			d.idle()
			if n := len(d.kept(batch)); n != 0 {
				t.Errorf("%d records", n)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (c.code == 401) {
				t.Errorf("%d with WWW-Authenticate %q", c.code, got)
			}
			if got := w.Header().Get("Allow"); (got != "") != (c.code == 405) {
				t.Errorf("%d with Allow %q", c.code, got)
			}
			want(t, d.post(event(1)), 202, counted(1, 0)) // it left nothing behind
		})
	}
}

func TestWhenRecordsCannotBeKept(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.PerMinute = 2 })
	d.windows.set(tidemill.Fail(tidemill.Transient, "connection refused"), nil)
	for range 5 { // a minute is not used up by what came to nothing
		w := d.post(event(1))
		want(t, w, 503, "unavailable")
		if strings.Contains(w.Body.String(), "refused") {
			t.Errorf("inner words are told: %s", w.Body)
		}
	}
	d.windows.set(nil, nil)
	want(t, d.post("["+event(1)+","+event(2)+"]"), 202, counted(2, 0))
	if got := d.Handled(); got != (Handled{Requests: 6, Accepted: 2, Unkept: 5}) {
		t.Errorf("handled %+v", got)
	}
}

func TestAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newEndpoint(t)
		d.windows.set(nil, make(chan struct{}))
		answers := make(chan *httptest.ResponseRecorder)
		start := time.Now()
		for i := range 20 {
			go func() { answers <- d.post(event(i)) }()
		}
		for range 20 {
			want(t, <-answers, 503, "unavailable")
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("they waited for %v", took)
		}
		synctest.Wait()
		d.idle()
		d.windows.set(nil, nil)
		want(t, d.post(event(1)), 202, counted(1, 0))
	})
}

func TestWhoIsGoneWhileItWaitsIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newEndpoint(t)
		hold := make(chan struct{})
		d.windows.set(nil, hold)
		answers := make(chan int)
		send := func(ctx context.Context, id int) {
			r := httptest.NewRequestWithContext(ctx, "POST", Path+"/events?batch="+batch, strings.NewReader(event(id)))
			r.Header.Set("X-API-Key", key)
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			answers <- w.Code
		}
		ctx, gone := context.WithCancel(t.Context())
		for i := range 3 { // two are with the store, and one waits
			go send(ctx, i)
			synctest.Wait()
		}
		go send(t.Context(), 3)
		synctest.Wait()
		gone()
		synctest.Wait()
		close(hold)
		codes := map[int]int{}
		for range 4 {
			codes[<-answers]++
		}
		if got := d.kept(batch); codes[202] != 3 || codes[503] != 1 || len(got) != 3 || got["event 2 "] != "" {
			t.Errorf("answers %v, records %v", codes, got)
		}
		d.idle()
	})
}

func TestWhenKeysCannotBeChecked(t *testing.T) {
	d := newEndpoint(t)
	d.projects.err = tidemill.Fail(tidemill.Transient, "connection refused")
	want(t, d.post(event(1)), 503, "unavailable")
	d.projects.err = nil
	want(t, d.post(event(1)), 202, counted(1, 0))
	d.projects.err = tidemill.Fail(tidemill.Transient, "connection refused")
	want(t, d.post(event(2)), 202, counted(1, 0)) // it is remembered
	d.pass(time.Hour)
	want(t, d.post(event(3)), 503, "unavailable")
}

func TestTooManyRequestsAtOnce(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.Requests = 2 })
	release := endpointtest.Busy(t, d, 2, func(body io.Reader) *http.Request {
		r := httptest.NewRequest("POST", Path+"/events?batch="+batch, body)
		r.Header.Set("X-API-Key", key)
		return r
	})
	want(t, d.post(event(1)), 503, "unavailable")
	release()
	want(t, d.post(event(1)), 202, counted(1, 0))
}

func TestTooMuchMemoryAtOnce(t *testing.T) {
	d := newEndpoint(t)
	var others request.Body
	others.Open(d.Bodies, httptest.NewRequest("POST", "/", nil))
	others.Vouch()
	if !others.Reserve(d.o.Limits.Memory) {
		t.Fatal("there is no room")
	}
	want(t, d.post("["+several(100, event, ",")+"]"), 503, "unavailable")
	want(t, d.ask("POST", Path+"/files?name="+batch+".export.CSV", "1\t", nil), 503, "unavailable")
	want(t, d.post(event(1)), 202, counted(1, 0)) // what every request may have
	others.Close()
	d.idle()
}

func TestWhoSendsTooMuchIsToldWhenToComeAgain(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.PerMinute = 3 })
	want(t, d.post("["+event(1)+","+event(2)+"]"), 202, counted(2, 0))
	w := d.post("[" + event(3) + "," + event(4) + "]")
	want(t, w, 429, "rate_limited")
	if after := w.Header().Get("Retry-After"); after != "41" {
		t.Errorf("Retry-After %s; the minute has 40 seconds left", after)
	}
	want(t, d.ask("POST", Path+"/files?name="+batch+".export.CSV", "1\t\n2\t\n", nil), 429, "rate_limited")
	want(t, d.post(event(3)), 202, counted(1, 0))
	want(t, d.post(event(3)), 429, "rate_limited")
	d.pass(40 * time.Second)
	if w := d.post("[" + several(5, event, ",") + "]"); w.Code != 202 {
		t.Errorf("the first of a minute: %d %s", w.Code, w.Body)
	}
	if got := d.Handled(); got.Limited != 5 {
		t.Errorf("handled %+v", got)
	}
}

// body is one that a test reads for.
type body func([]byte) (int, error)

func (f body) Read(b []byte) (int, error) { return f(b) }

func TestABodyThatComesTooSlowly(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.Time, o.Limits.FileTime = time.Millisecond, time.Millisecond })
	server := httptest.NewServer(d.Handler)
	defer server.Close()
	for _, path := range []string{"/events?batch=a", "/files?name=a.export.CSV"} {
		stuck := make(chan struct{})
		req := must(http.NewRequest("POST", server.URL+Path+path, body(func([]byte) (int, error) { <-stuck; return 0, fmt.Errorf("gone") })))
		req.Header.Set("X-API-Key", key)
		resp, err := http.DefaultClient.Do(req)
		close(stuck)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != 408 {
			t.Errorf("%s: answered %d, want 408", path, resp.StatusCode)
		}
	}
}

func TestABodyThatStops(t *testing.T) {
	d := newEndpoint(t)
	for path, sent := range map[string]string{"/events?batch=" + batch: "[" + event(1) + ",", "/files?name=" + batch + ".export.CSV": "1\t\n2\t"} {
		r := httptest.NewRequest("POST", Path+path, io.MultiReader(strings.NewReader(sent), body(func([]byte) (int, error) { return 0, io.ErrUnexpectedEOF })))
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		want(t, w, 400, "bad_request")
		says(t, w, "ended early")
	}
	d.idle()
	if n := len(d.kept(batch)); n != 0 {
		t.Errorf("%d records are kept", n)
	}
}

func TestNonsenseIsNoDoor(t *testing.T) {
	w := must(tablewindow.Memory(window.Options{}))
	for name, o := range map[string]Options{
		"nothing":           {},
		"a negative body":   {Windows: w, Limits: Limits{Limits: endpoint.Limits{Body: -1}}},
		"a negative minute": {Windows: w, Limits: Limits{Limits: endpoint.Limits{PerMinute: -1}}},
		"a negative time":   {Windows: w, Limits: Limits{Limits: endpoint.Limits{Time: -1}}},
		"a negative store":  {Windows: w, Timeout: -1},
		"too little memory": {Windows: w, Limits: Limits{Limits: endpoint.Limits{Memory: 1 << 20}}},
		"too many records":  {Windows: w, Limits: Limits{Limits: endpoint.Limits{Items: window.MaxPut + 1}}},
		"too large a body":  {Windows: w, Limits: Limits{Limits: endpoint.Limits{Body: window.MaxPutBytes + 1}}},
		"a spool in a file": {Windows: w, Spool: "harness_test.go"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
