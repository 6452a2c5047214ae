package crmingest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/endpoint/endpointtest"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, to, body string
		h              header
		code           int
		word           string
	}{
		{"no key", "POST " + Path, evt("e"), header{"X-API-Key": ""}, 401, "unauthorized"},
		{"a wrong key", "POST " + Path, evt("e"), header{"X-API-Key": "wrong"}, 401, "unauthorized"},
		{"another tenant's event", "POST " + Path, foreign("e"), nil, 403, "tenant_not_allowed"},
		{"another tenant's event that is wrong too", "POST " + Path, `{"tenantId":"other"}`, nil, 403, "tenant_not_allowed"},
		{"only other tenants' events", "POST " + Path, "[" + foreign("e") + "," + foreign("f") + "]", nil, 403, "tenant_not_allowed"},
		{"another tenant's key", "POST " + Path, evt("e"), header{"X-API-Key": otherKey}, 403, "tenant_not_allowed"},
		{"no JSON", "POST " + Path, evt("e")[:40], nil, 400, "malformed_json"},
		{"no UTF-8", "POST " + Path, evt("e", "\"a\":\"\xff\""), nil, 400, "malformed_json"},
		{"two events in a row", "POST " + Path, evt("e") + evt("f"), nil, 400, "malformed_json"},
		{"an array that is no JSON", "POST " + Path, "[" + evt("e") + "}", nil, 400, "malformed_json"},
		{"an array that does not end", "POST " + Path, "[" + evt("e"), nil, 400, "malformed_json"},
		{"something behind an array", "POST " + Path, "[" + evt("e") + "] x", nil, 400, "malformed_json"},
		{"nothing", "POST " + Path, "", nil, 400, "malformed_json"},
		{"white space", "POST " + Path, " \n", nil, 400, "malformed_json"},
		{"an empty array", "POST " + Path, "[]", nil, 400, "malformed_json"},
		{"a million brackets", "POST " + Path, strings.Repeat("[", 1_000_000), nil, 400, "malformed_json"},
		{"a million objects in an array", "POST " + Path, "[" + strings.Repeat(`{"a":`, 200_000), nil, 400, "malformed_json"},
		{"501 events", "POST " + Path, many(501, numbered), nil, 413, "too_large"},
		{"500,000 numbers", "POST " + Path, many(500_000, func(int) string { return "0" }), nil, 413, "too_large"},
		{"a large body", "POST " + Path, strings.Repeat(" ", 1<<20) + evt("e"), nil, 413, "too_large"},
		{"a large event", "POST " + Path, wide("e", 256<<10), nil, 413, "too_large"},
		{"a wrong field", "POST " + Path, evt("e", `"payload":7`), nil, 422, "validation_failed"},
		{"all of an array wrong", "POST " + Path, "[1,2," + foreign("e") + "]", nil, 422, "validation_failed"},
		{"a text", "POST " + Path, `"event"`, nil, 422, "validation_failed"},
		{"a form", "POST " + Path, "a=b", header{"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"another charset", "POST " + Path, evt("e"), header{"Content-Type": "application/json; charset=latin1"}, 415, "unsupported_media_type"},
		{"a type that is none", "POST " + Path, evt("e"), header{"Content-Type": "///"}, 415, "unsupported_media_type"},
		{"another encoding", "POST " + Path, evt("e"), header{"Content-Encoding": "br"}, 415, "unsupported_media_type"},
		{"packed twice", "POST " + Path, zipped(t, zipped(t, evt("e"))), header{"Content-Encoding": "gzip"}, 415, "unsupported_media_type"},
		{"half of a gzip", "POST " + Path, zipped(t, evt("e"))[:60], header{"Content-Encoding": "gzip"}, 400, "bad_request"},
		{"not packed though it says so", "POST " + Path, evt("e"), header{"Content-Encoding": "gzip"}, 400, "bad_request"},
		{"a bomb", "POST " + Path, zipped(t, strings.Repeat(" ", 20<<20)), header{"Content-Encoding": "gzip"}, 413, "too_large"},
		{"a path that there is not", "POST /v1/crm/event", "", nil, 404, "not_found"},
		{"no event", "GET " + Path + "/", "", nil, 404, "not_found"},
		{"where events are, which nobody knows", "GET " + Path + "/e", "", nil, 404, "not_found"},
		{"GET of events", "GET " + Path, "", nil, 405, "method_not_allowed"},
		{"DELETE of an event", "DELETE " + Path + "/e", "", nil, 405, "method_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newEndpoint(t)
			method, path, _ := strings.Cut(c.to, " ")
			w := d.ask(method, path, c.body, c.h)
			want(t, w, c.code, c.word)
			if n := len(d.jobs()); n != 0 {
				t.Errorf("%d jobs", n)
			}
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (c.code == 401) {
				t.Errorf("%d with WWW-Authenticate %q", c.code, got)
			}
			if got := w.Header().Get("Allow"); (got != "") != (c.code == 405) {
				t.Errorf("%d with Allow %q", c.code, got)
			}
			want(t, d.post(evt("e")), 202, `{"id":"e","status":"accepted"}`) // it left nothing behind
		})
	}
}

func TestARefusalSaysWhatIsWrong(t *testing.T) {
	d := newEndpoint(t)
	w := d.post(`{"id":"e","tenantId":"club","identity":{},"occurredAt":"now"}`)
	var said struct {
		Problems []struct{ Path, Message, Allowed string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || len(said.Problems) != 3 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, p := range said.Problems {
		if p.Path == "" || p.Message == "" || p.Allowed == "" {
			t.Errorf("%+v", p)
		}
	}
	if w := d.post(`[1]`); !strings.Contains(w.Body.String(), `"results":[{"status":"rejected",`) {
		t.Errorf("an array of which all are wrong: %s", w.Body)
	}
}

func TestLargeThingsThatAreAllowed(t *testing.T) {
	d := newEndpoint(t)
	for name, body := range map[string]string{
		"500 events":         many(500, numbered),
		"a packed request":   zipped(t, many(500, func(i int) string { return evt(fmt.Sprint("packed-", i)) })),
		"a large event":      wide("wide", 255<<10),
		"a body of a MiB":    "[" + strings.Repeat(" ", 1<<20-2-len(evt("late"))) + evt("late") + "]",
		"one that is packed": zipped(t, evt("one")),
	} {
		if w := d.ask("POST", Path, body, nil); w.Code != 202 || strings.Contains(w.Body.String(), "rejected") {
			t.Errorf("%s: %d %.300s", name, w.Code, w.Body)
		}
	}
	if n := len(d.jobs()); n != 1003 {
		t.Errorf("%d jobs, want 1003", n)
	}
}

func TestALargeEventInAnArrayIsItsOwnProblem(t *testing.T) {
	d := newEndpoint(t)
	w := d.post("[" + wide("a", 256<<10) + "," + evt("b") + "]")
	if w.Code != 202 || !strings.Contains(w.Body.String(), "at most 262144 bytes") || !strings.HasSuffix(w.Body.String(), `,{"id":"b","status":"accepted"}]}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWhenEventsCannotBeKept(t *testing.T) {
	d := newEndpoint(t)
	d.queues.err = tidemill.Fail(tidemill.Transient, "connection refused")
	w := d.post(evt("e"))
	want(t, w, 503, "unavailable")
	if strings.Contains(w.Body.String(), "refused") {
		t.Errorf("inner words are told: %s", w.Body)
	}
	d.queues.err = nil
	if _, err := d.queues.Set(t.Context(), accept.Queue, func(s *queue.Settings) { s.Closed = true }); err != nil {
		t.Fatal(err)
	}
	if w = d.post(evt("e")); !strings.Contains(w.Body.String(), "drained") {
		t.Errorf("it does not say why: %s", w.Body)
	}
	want(t, w, 503, "unavailable")
	if _, err := d.queues.Set(t.Context(), accept.Queue, func(s *queue.Settings) { s.Closed = false }); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		want(t, d.post(many(500, func(n int) string { return evt(fmt.Sprint(i, "-", n)) })), 202, d.answerOf(i))
	}
	if w = d.post("[" + evt("0-1") + "," + evt("more") + "]"); !strings.Contains(w.Body.String(), "full") {
		t.Errorf("it does not say why: %s", w.Body)
	}
	want(t, w, 503, "unavailable")
	want(t, d.post(evt("0-1")), 202, `{"id":"0-1","status":"duplicate"}`)
	if got := d.Handled(); got != (Handled{Requests: 8, Accepted: 2000, Duplicate: 1, Unkept: 4}) {
		t.Errorf("handled %+v", got)
	}
}

// answerOf is what the ingest API says of 500 new events.
func (d *testEndpoint) answerOf(i int) string {
	all := make([]string, 500)
	for n := range all {
		all[n] = fmt.Sprintf(`{"id":"%d-%d","status":"accepted"}`, i, n)
	}
	return `{"results":[` + strings.Join(all, ",") + `]}`
}

func TestWhenKeysCannotBeChecked(t *testing.T) {
	d := newEndpoint(t)
	d.projects.err = tidemill.Fail(tidemill.Transient, "connection refused")
	want(t, d.post(evt("e")), 503, "unavailable")
	d.projects.err = nil
	want(t, d.post(evt("e")), 202, `{"id":"e","status":"accepted"}`)
	d.projects.err = tidemill.Fail(tidemill.Transient, "connection refused")
	want(t, d.post(evt("f")), 202, `{"id":"f","status":"accepted"}`) // it is remembered
	d.pass(time.Hour)
	want(t, d.post(evt("g")), 503, "unavailable")
}

func TestTooManyRequestsAtOnce(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.Requests = 2 })
	release := endpointtest.Busy(t, d, 2, func(body io.Reader) *http.Request {
		r := httptest.NewRequest("POST", Path, body)
		r.Header.Set("X-API-Key", clubKey)
		return r
	})
	r := httptest.NewRequest("POST", Path, strings.NewReader(evt("e")))
	r.Header.Set("X-API-Key", clubKey)
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	want(t, w, 503, "unavailable")
	release()
	want(t, d.post(evt("e")), 202, `{"id":"e","status":"accepted"}`)
}

func TestATenantThatSendsTooMuchIsToldWhenToComeAgain(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.PerMinute = 3 })
	want(t, d.post("["+evt("a")+","+evt("b")+"]"), 202, `{"results":[{"id":"a","status":"accepted"},{"id":"b","status":"accepted"}]}`)
	w := d.post("[" + evt("c") + "," + evt("d") + "]")
	want(t, w, 429, "rate_limited")
	if after := w.Header().Get("Retry-After"); after != "41" {
		t.Errorf("Retry-After %s; the minute has 40 seconds left", after)
	}
	want(t, d.post(evt("c")), 202, `{"id":"c","status":"accepted"}`)
	want(t, d.post(evt("c")), 429, "rate_limited")
	want(t, d.ask("POST", Path, foreign("a"), header{"X-API-Key": otherKey}), 202, `{"id":"a","status":"accepted"}`)
	d.pass(40 * time.Second)
	if w := d.post(many(5, numbered)); w.Code != 202 {
		t.Errorf("the first of a minute: %d %s", w.Code, w.Body)
	}
	if got := d.Handled(); got.Limited != 3 || got.Accepted != 9 {
		t.Errorf("handled %+v", got)
	}
}

func TestABodyThatComesTooSlowlyOrEndsEarly(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.Time = time.Millisecond })
	server := httptest.NewServer(d.Handler)
	defer server.Close()
	pipe := make(chan struct{})
	req, err := http.NewRequest("POST", server.URL+Path, body(func(b []byte) (int, error) { <-pipe; return 0, fmt.Errorf("gone") }))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", clubKey)
	resp, err := http.DefaultClient.Do(req)
	close(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 408 {
		t.Errorf("answered %d, want 408", resp.StatusCode)
	}
}

type body func([]byte) (int, error)

func (f body) Read(b []byte) (int, error) { return f(b) }

func TestNonsenseIsNoDoor(t *testing.T) {
	a, err := accept.New(memoryqueue.New(memoryqueue.Options{}), accept.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keyed := endpoint.Options{Projects: tableproject.Memory()}
	for name, o := range map[string]Options{
		"nothing":           {},
		"no projects":       {Acceptor: a},
		"a negative body":   {Acceptor: a, Options: keyed, Limits: endpoint.Limits{Body: -1}},
		"a negative minute": {Acceptor: a, Options: keyed, Limits: endpoint.Limits{PerMinute: -1}},
		"a negative time":   {Acceptor: a, Options: keyed, Limits: endpoint.Limits{Time: -1}},
		"too little memory": {Acceptor: a, Options: keyed, Limits: endpoint.Limits{Memory: 1 << 20}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
