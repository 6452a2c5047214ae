package deliveryingest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint/endpointtest"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

func many(n int, each string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(each+",", n), ",") + "]"
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, to, body string
		h              header
		code           int
		word           string
	}{
		{"no key", "/v1/events", view(""), header{"X-Idempotency-Key": "k"}, 401, "unauthorized"},
		{"a wrong key", "/v1/events", view(""), header{"X-Idempotency-Key": "k", "X-API-Key": "wrong"}, 401, "unauthorized"},
		{"no idempotency key", "/v1/events", view(""), header{"X-API-Key": shopKey}, 400, "missing_idempotency_key"},
		{"an idempotency key that is too long", "/v1/events", view(""), keyed(strings.Repeat("k", 256)), 400, "bad_idempotency_key"},
		{"an idempotency key that cannot be printed", "/v1/events", view(""), keyed("a\tb"), 400, "bad_idempotency_key"},
		{"an empty idempotency key", "/v1/events", view(""), keyed(""), 400, "bad_idempotency_key"},
		{"another site's event", "/v1/events", strings.Replace(view(""), `"shop"`, `"other"`, 1), keyed("k"), 403, "wrong_site"},
		{"another site's event in an array", "/v1/events", "[" + view("") + "," + strings.Replace(view(""), `"shop"`, `"other"`, 1) + "]", keyed("k"), 403, "wrong_site"},
		{"another site's event that is wrong too", "/v1/events", strings.Replace(view(`,"userId":1`), `"shop"`, `"other"`, 1), keyed("k"), 403, "wrong_site"},
		{"another site's key", "/v1/events", view(""), keyed("k", "X-API-Key", otherKey), 403, "wrong_site"},
		{"no JSON", "/v1/events", view("")[1:], keyed("k"), 400, "malformed_json"},
		{"no UTF-8", "/v1/events", view(",\"a\":\"\xff\""), keyed("k"), 400, "malformed_json"},
		{"an array that is no JSON", "/v1/events", "[" + view("") + "}", keyed("k"), 400, "malformed_json"},
		{"an array that does not end", "/v1/events", "[" + view(""), keyed("k"), 400, "malformed_json"},
		{"something behind an array", "/v1/events", "[" + view("") + "] x", keyed("k"), 400, "malformed_json"},
		{"nothing", "/v1/events", "", keyed("k"), 400, "malformed_json"},
		{"white space", "/v1/events", " \n", keyed("k"), 400, "malformed_json"},
		{"an empty array", "/v1/events", "[]", keyed("k"), 400, "empty"},
		{"a million brackets", "/v1/events", strings.Repeat("[", 1_000_000), keyed("k"), 400, "malformed_json"},
		{"a million brackets in an array", "/v1/events", "[" + strings.Repeat(`{"a":`, 200_000), keyed("k"), 400, "malformed_json"},
		{"501 events", "/v1/events", many(501, view("")), keyed("k"), 413, "too_large"},
		{"a large body", "/v1/events", "[" + strings.Repeat(" ", 1<<20) + view("") + "]", keyed("k"), 413, "too_large"},
		{"a large event", "/v1/events", view(`,"a":[` + many(40, `"`+strings.Repeat("x", 900)+`"`)[1:]), keyed("k"), 413, "too_large"},
		{"a wrong field", "/v1/events", view(`,"userId":"me"`), keyed("k"), 422, "validation_failed"},
		{"a name that comes twice", "/v1/events", view(`,"siteId":"shop"`), keyed("k"), 422, "validation_failed"},
		{"an old version", "/v1/events", view(""), keyed("k", "X-Schema-Version", "7.0.0"), 422, "validation_failed"},
		{"a form", "/v1/events", "a=b", keyed("k", "Content-Type", "application/x-www-form-urlencoded"), 415, "unsupported_media_type"},
		{"text, where no page may send it", "/v1/events", view(""), keyed("k", "Content-Type", "text/plain"), 415, "unsupported_media_type"},
		{"another charset", "/v1/events", view(""), keyed("k", "Content-Type", "application/json; charset=latin1"), 415, "unsupported_media_type"},
		{"a type that is none", "/v1/events", view(""), keyed("k", "Content-Type", "///"), 415, "unsupported_media_type"},
		{"another encoding", "/v1/events", view(""), keyed("k", "Content-Encoding", "br"), 415, "unsupported_media_type"},
		{"packed twice", "/v1/events", zipped(t, zipped(t, view(""))), keyed("k", "Content-Encoding", "gzip"), 415, "unsupported_media_type"},
		{"half of a gzip", "/v1/events", zipped(t, view(""))[:60], keyed("k", "Content-Encoding", "gzip"), 400, "bad_request"},
		{"not packed though it says so", "/v1/events", view(""), keyed("k", "Content-Encoding", "gzip"), 400, "bad_request"},
		{"a bomb", "/v1/events", zipped(t, strings.Repeat(" ", 100<<20)), keyed("k", "Content-Encoding", "gzip"), 413, "too_large"},
		{"an array to /collect", "/collect", many(2, withID(one)), nil, 400, "bad_request"},
		{"a site that is not public", "/collect", strings.Replace(withID(one), `"shop"`, `"other"`, 1), nil, 403, "forbidden"},
		{"a site that there is not", "/collect", strings.Replace(withID(one), `"shop"`, `"nobody"`, 1), nil, 403, "forbidden"},
		{"no site", "/collect", strings.Replace(withID(one), `"shop"`, `7`, 1), nil, 422, "validation_failed"},
		{"nothing to know it by", "/collect", view(""), nil, 400, "missing_idempotency_key"},
		{"a wrong key at /collect", "/collect", withID(one), header{"X-API-Key": "wrong"}, 401, "unauthorized"},
		{"a pixel without a site", "GET /collect?d=e30", "", nil, 400, "bad_request"},
		{"a pixel of a site that is not public", "GET /collect?d=e30&sid=other", "", nil, 403, "forbidden"},
		{"a conversion without a key", "/s2s/convert", purchase("o"), header{"X-Idempotency-Key": "k"}, 401, "unauthorized"},
		{"a conversion from another site", "/s2s/convert", purchase("o"), keyed("k", "X-API-Key", otherKey), 403, "wrong_site"},
		{"a conversion without an idempotency key", "/s2s/convert", purchase("o"), header{"X-API-Key": shopKey}, 400, "missing_idempotency_key"},
		{"a path that there is not", "/v1/event", "", nil, 404, "not_found"},
		{"a path behind an event's", "GET /v1/events/" + one + "/x", "", nil, 404, "not_found"},
		{"no event", "GET /v1/events/", "", nil, 404, "not_found"},
		{"a schema that there is not", "GET /v1/schemas/other", "", nil, 404, "not_found"},
		{"GET of events", "GET /v1/events", "", nil, 405, "method_not_allowed"},
		{"DELETE of an event", "DELETE /v1/events/" + one, "", nil, 405, "method_not_allowed"},
		{"PUT", "PUT /collect", "", nil, 405, "method_not_allowed"},
		{"a preflight of conversions", "OPTIONS /s2s/convert", "", nil, 405, "method_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newEndpoint(t)
			want(t, d.send(c.to, c.body, c.h), c.code, c.word)
			if c.h != nil && c.code != 401 { // it left no key behind
				h := keyed("k")
				if k := c.h["X-Idempotency-Key"]; k != "" && event.CheckKey(k) {
					h = keyed(k)
				}
				want(t, d.send("/v1/events", view(""), h), 202, `{"eventId":"*`)
				d.wantJobs(1)
				return
			}
			d.wantJobs(0)
		})
	}
}

func TestTwoIdempotencyKeysInTheHeader(t *testing.T) {
	d := newEndpoint(t)
	r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(view("")))
	r.Header = http.Header{"X-Api-Key": {shopKey}, "X-Idempotency-Key": {"a", "b"}}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	want(t, w, 400, "bad_idempotency_key")
}

func TestLargeThingsThatAreAllowed(t *testing.T) {
	d := newEndpoint(t)
	want(t, d.send("/v1/events", many(500, view("")), keyed("a")), 202, "*")
	want(t, d.send("/v1/events", zipped(t, many(500, view(""))), keyed("b", "Content-Encoding", "gzip")), 202, "*")
	want(t, d.send("/v1/events", "["+strings.Repeat(" ", 1<<20-2-len(view("")))+view("")+"]", keyed("c")), 202, "*")
	want(t, d.send("/v1/events", zipped(t, view("")), keyed("d")), 202, "*") // it is seen
	if n := len(d.jobs()); n != 1002 {
		t.Errorf("%d jobs; want 1002", n)
	}
	for _, j := range d.jobs() {
		if j.To != accept.Low && string(j.Payload) != view("") {
			t.Errorf("job in %s: %.100s", j.To, j.Payload)
		}
	}
}

func TestOneLargeEventInAnArrayIsItsOwnProblem(t *testing.T) {
	d := newEndpoint(t)
	w := d.send("/v1/events", "["+view(`,"a":[`+many(40, `"`+strings.Repeat("x", 900)+`"`)[1:])+","+withID(one)+"]", keyed("k"))
	if w.Code != 202 || !strings.Contains(w.Body.String(), "bytes") || !strings.Contains(w.Body.String(), `{"eventId":"`+one+`","status":"accepted"}`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestWhileTheFirstRuns(t *testing.T) {
	d := newEndpoint(t)
	d.queues.hold = make(chan struct{})
	first := make(chan *httptest.ResponseRecorder)
	serve := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(withID(one)))
		r.Header = http.Header{"X-Api-Key": {shopKey}, "X-Idempotency-Key": {"k"}}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w
	}
	go func() { first <- serve() }()
	<-d.queues.in
	w := serve()
	want(t, w, 409, "request_in_progress")
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
	}
	close(d.queues.hold)
	w = <-first
	d.queues.hold = nil
	want(t, w, 202, `{"eventId":"`+one+`","status":"accepted"}`)
	want(t, serve(), 202, w.Body.String())
	d.wantJobs(1)
}

func TestWhenEventsCannotBeKept(t *testing.T) {
	d := newEndpoint(t)
	d.queues.err = tidemill.Fail(tidemill.Transient, "connection refused")
	w := d.send("/v1/events", view(""), keyed("k"))
	want(t, w, 503, "unavailable")
	if strings.Contains(w.Body.String(), "refused") {
		t.Errorf("inner words are told: %s", w.Body)
	}
	d.queues.err, d.queues.full = nil, true
	want(t, d.send("/v1/events", withID(one), keyed("k")), 503, "unavailable")
	d.queues.full = false
	want(t, d.send("/v1/events", purchase("o"), keyed("k")), 202, "*")
	d.projects.err = tidemill.Fail(tidemill.Transient, "connection refused")
	want(t, d.send("/v1/events", view(""), keyed("k", "X-API-Key", otherKey)), 503, "unavailable")
	d.wantJobs(1)
}

func TestTooManyRequestsAtOnce(t *testing.T) {
	d := newEndpoint(t, func(o *Options) { o.Limits.Requests = 2 })
	release := endpointtest.Busy(t, d, 2, func(body io.Reader) *http.Request {
		r := httptest.NewRequest("POST", "/v1/events", body)
		r.Header = http.Header{"X-Api-Key": {shopKey}, "X-Idempotency-Key": {"k"}}
		return r
	})
	r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(view("")))
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	want(t, w, 503, "unavailable")
	release()
	w = httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequest("POST", "/v1/events", strings.NewReader(view(""))))
	want(t, w, 401, "unauthorized")
}
