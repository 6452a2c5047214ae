package deliveryingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

const (
	shopKey  = "key-of-shop"
	otherKey = "key-of-other"
	one      = "11111111-1111-4111-8111-111111111111"
	two      = "22222222-2222-4222-8222-222222222222"
)

var received = time.Date(2026, 11, 21, 19, 0, 0, 123e6, time.UTC)

// queues is a queue that can be told to fail or to wait.
type queues struct {
	*memoryqueue.Store
	mu   sync.Mutex
	err  error
	full bool
	hold chan struct{} // adds wait for it
	in   chan struct{} // told of one that waits
}

func (q *queues) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	q.mu.Lock()
	err, full, hold := q.err, q.full, q.hold
	q.mu.Unlock()
	if hold != nil {
		q.in <- struct{}{}
		<-hold
	}
	if full {
		for i := range added {
			added[i] = queue.Full
		}
		return nil
	}
	if err != nil {
		return err
	}
	return q.Store.Add(ctx, jobs, added)
}

// testDoor is a Handler with all that it stands on, in memory.
type testEndpoint struct {
	*Handler
	t        testing.TB
	queues   *queues
	projects *projects
	mu       sync.Mutex
	now      time.Time
}

// projects can be out of reach.
type projects struct {
	project.Projects
	err error
}

func (p *projects) ByKey(ctx context.Context, key project.Hash) (project.Project, error) {
	if p.err != nil {
		return project.Project{}, p.err
	}
	return p.Projects.ByKey(ctx, key)
}

func (d *testEndpoint) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func newEndpoint(t testing.TB, change ...func(*Options)) *testEndpoint {
	t.Helper()
	d := &testEndpoint{t: t, now: received, queues: &queues{Store: memoryqueue.New(memoryqueue.Options{}), in: make(chan struct{}, 100)}, projects: &projects{Projects: tableproject.Memory()}}
	for name, key := range map[string]string{"shop": shopKey, "other": otherKey} {
		if err := d.projects.Ensure(t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret(key))); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := event.New(event.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := accept.New(tableledger.Memory(tableledger.Options{Now: d.clock}), d.queues, accept.Options{Now: d.clock})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Acceptor: a, Rules: rules, Options: endpoint.Options{Projects: d.projects, Now: d.clock, NewID: func() uuid.UUID { return uuid.UUID{15: 7} }},
		Sites: func(site string) (Site, bool) { return Site{Public: site == "shop"}, site == "shop" },
	}
	for _, c := range change {
		c(&o)
	}
	if d.Handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	return d
}

type header map[string]string

// keyed are the headers of a request of the shop.
func keyed(key string, more ...string) header {
	h := header{"X-API-Key": shopKey, "X-Idempotency-Key": key}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// send makes a request: "POST /path", or a path for POST.
func (d *testEndpoint) send(to, body string, headers ...header) *httptest.ResponseRecorder {
	d.t.Helper()
	method, path, ok := strings.Cut(to, " ")
	if !ok {
		method, path = "POST", to
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		for k, v := range h {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "strict-origin-when-cross-origin"} {
		if w.Header().Get(name) != value {
			d.t.Errorf("%s: header %s is %q", to, name, w.Header().Get(name))
		}
	}
	if n := d.Running(); n != 0 {
		d.t.Errorf("%s: %d requests are said to run", to, n)
	}
	if n := d.Bodies.Out(); n != 0 {
		d.t.Errorf("%s: %d bytes of bodies are out", to, n)
	}
	return w
}

// want compares an answer; of one that is an error the body is its word, of another all
// or, where it ends in a star, its beginning.
func want(t testing.TB, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	got := w.Body.String()
	if code >= 400 {
		var e struct{ Error, Message, RequestID string }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" || e.RequestID == "" || w.Header().Get("X-Request-Id") != e.RequestID {
			t.Errorf("an error without a message or an id: %s (%v)", got, err)
		}
		got = e.Error
		if after := w.Header().Get("Retry-After"); (after != "") != (w.Code == 409 || w.Code == 429 || w.Code == 503) {
			t.Errorf("%d with Retry-After %q", w.Code, after)
		}
	}
	begin, some := strings.CutSuffix(body, "*")
	if w.Code != code || got != body && !(some && strings.HasPrefix(got, begin)) {
		t.Errorf("got %d %s; want %d %s", w.Code, w.Body, code, body)
	}
}

// view is a page view with these members more.
func view(more string) string {
	return `{"eventType":"page_view","timestamp":"2026-11-21T18:59:59Z","siteId":"shop","context":{"page":{"url":"https://shop.example/"}}` + more + `}`
}

func withID(id string) string { return view(`,"eventId":"` + id + `"`) }

func purchase(order string) string {
	return `{"eventType":"purchase","timestamp":"2026-11-21T18:59:59Z","siteId":"shop","orderId":"` + order + `","value":9.5,"currency":"EUR","items":[{"id":"a"}]}`
}

// jobs are those of all ingest queues.
func (d *testEndpoint) jobs() (all []*queue.Job) {
	d.t.Helper()
	for _, q := range []string{accept.High, accept.Standard, accept.Low} {
		for j, err := range d.queues.List(d.t.Context(), queue.Filter{Queue: q}) {
			if err != nil {
				d.t.Fatal(err)
			}
			all = append(all, j)
		}
	}
	return all
}

func (d *testEndpoint) wantJobs(n int) []*queue.Job {
	d.t.Helper()
	all := d.jobs()
	if len(all) != n {
		d.t.Errorf("%d jobs; want %d", len(all), n)
	}
	return all
}

func zipped(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestOneEvent(t *testing.T) {
	d := newEndpoint(t)
	body := " " + withID(strings.ToUpper(one)) + "\n"
	h := keyed("k", "Sec-GPC", "1", "X-Schema-Version", "1.2.0", "User-Agent", "Browser/1", "Content-Type", "application/json; charset=UTF-8")
	want(t, d.send("/v1/events", body, h), 202, `{"eventId":"`+one+`","status":"accepted"}`)
	w := d.send("/v1/events", body, h)
	want(t, w, 202, `{"eventId":"`+one+`","status":"accepted"}`)
	if w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", w.Header())
	}
	want(t, d.send("/v1/events", body, keyed("k2")), 202, `{"eventId":"`+one+`","status":"duplicate","duplicateOf":"`+one+`"}`)
	want(t, d.send("/v1/events", view(""), keyed("k")), 422, "idempotency_key_reused")
	want(t, d.send("/v1/events", view(""), keyed("k3", "Authorization", "Bearer "+shopKey, "X-API-Key", "")), 202, `{"eventId":"*`)
	j := d.wantJobs(2)[0]
	if string(j.Payload) != body || j.ID != one || j.Tenant != "shop" || j.Type != "page_view" || j.To != accept.Standard {
		t.Errorf("job %+v", j)
	}
	for name, value := range map[string]string{"gpc": "1", "schema-version": "1.2.0", "user-agent": "Browser/1", "received": "2026-11-21T19:00:00.123Z"} {
		if got := string(j.Get(name)); got != value {
			t.Errorf("header %s of the job is %q; want %q", name, got, value)
		}
	}
	if got := d.Handled(); got != (Handled{Requests: 5, Accepted: 2, Duplicate: 1, Rejected: 1, Repeated: 1}) {
		t.Errorf("handled %+v", got)
	}
}

func TestArrays(t *testing.T) {
	d := newEndpoint(t)
	body := "[" + withID(one) + ", " + view(`,"userId":"x"`) + ",\n" + withID(one) + "," + purchase("o") + "]"
	first := d.send("/v1/events", body, keyed("k"))
	var got struct {
		Results []struct {
			EventID, Status, DuplicateOf, Error string
			Details                             []struct{ Path, Message, Allowed string }
		}
	}
	if err := json.Unmarshal(first.Body.Bytes(), &got); err != nil || first.Code != 202 || len(got.Results) != 4 {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	r := got.Results
	if r[0].Status != "accepted" || r[0].EventID != one || r[1].Status != "rejected" || r[1].Error != "validation_failed" || len(r[1].Details) != 1 ||
		r[1].Details[0].Path != "userId" || r[1].Details[0].Allowed == "" || r[2].Status != "duplicate" || r[2].DuplicateOf != one || r[3].Status != "accepted" || !event.IsID(r[3].EventID) {
		t.Errorf("%s", first.Body)
	}
	want(t, d.send("/v1/events", body, keyed("k")), 202, first.Body.String())
	for _, j := range d.wantJobs(2) {
		if p := string(j.Payload); p != withID(one) && p != purchase("o") {
			t.Errorf("payload %q: want the element's own bytes", p)
		}
	}
	// Keys of their own.
	key := func(k, more string) string { return view(`,"idempotencyKey":"` + k + `"` + more) }
	h := header{"X-API-Key": shopKey}
	want(t, d.send("/v1/events", "["+key("a", "")+","+key("b", "")+"]", h), 202, `{"results":[{"eventId":"*`)
	want(t, d.send("/v1/events", key("a", ""), h), 202, `{"eventId":"*`)
	want(t, d.send("/v1/events", key("a", `,"x":1`), h), 422, "idempotency_key_reused")
	want(t, d.send("/v1/events", "["+key("c", "")+","+view("")+"]", h), 400, "missing_idempotency_key")
	want(t, d.send("/v1/events", "["+key("c", "")+","+view(`,"userId":1`)+"]", h), 202, "*") // who is refused needs none
	d.wantJobs(5)
	// None good: nothing is kept, and the key is free.
	w := d.send("/v1/events", "["+view(`,"userId":1`)+",7]", keyed("n"))
	want(t, w, 422, "validation_failed")
	if !strings.Contains(w.Body.String(), `"results":[{"status":"rejected"`) {
		t.Errorf("%s", w.Body)
	}
	want(t, d.send("/v1/events", "["+view("")+"]", keyed("n")), 202, "*")
}

func TestStatus(t *testing.T) {
	d := newEndpoint(t, func(o *Options) {
		o.Status = func(_ context.Context, site, id string) (any, error) {
			switch {
			case site != "shop" || id == two:
				return nil, fmt.Errorf("look: %w", queue.ErrNotFound)
			case id == one:
				return map[string]string{"id": id, "site": site}, nil
			}
			return nil, tidemill.Fail(tidemill.Transient, "connection refused")
		}
	})
	h := header{"X-API-Key": shopKey}
	want(t, d.send("GET /v1/events/"+strings.ToUpper(one), "", h), 200, `{"id":"`+one+`","site":"shop"}`)
	want(t, d.send("GET /v1/events/"+two, "", h), 404, "not_found")
	want(t, d.send("GET /v1/events/"+one, "", header{"X-API-Key": otherKey}), 404, "not_found")
	want(t, d.send("GET /v1/events/"+one, ""), 401, "unauthorized")
	want(t, d.send("GET /v1/events/drop%20table", "", h), 404, "not_found")
	want(t, d.send("GET /v1/events/"+strings.Repeat("a", 46), "", h), 404, "not_found")
	want(t, d.send("GET /v1/events/abc", "", h), 503, "unavailable")
	want(t, newEndpoint(t).send("GET /v1/events/"+one, "", h), 404, "not_found")
}

func TestSchemas(t *testing.T) {
	w := newEndpoint(t).send("GET /v1/schemas/purchase", "")
	want(t, w, 200, `{"$schema":*`)
	if w.Header().Get("Content-Type") != "application/schema+json" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := newEndpoint(t).o
	for name, change := range map[string]func(*Options){
		"no acceptor": func(o *Options) { o.Acceptor = nil }, "no rules": func(o *Options) { o.Rules = nil }, "no projects": func(o *Options) { o.Projects = nil },
		"a negative body": func(o *Options) { o.Limits.Body = -1 }, "a negative time": func(o *Options) { o.Limits.Time = -1 },
		"too little memory": func(o *Options) { o.Limits.Memory = 1 << 20 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	d := newEndpoint(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for n := range 10 {
				id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i, n)).String()
				r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(withID(id)))
				r.Header = http.Header{"X-Api-Key": {shopKey}, "X-Idempotency-Key": {id}}
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r)
				want(t, w, 202, `{"eventId":"`+id+`","status":"accepted"}`)
			}
		})
	}
	wg.Wait()
	jobs := d.wantJobs(500)
	if slices.ContainsFunc(jobs, func(j *queue.Job) bool { return string(j.Payload) != withID(j.ID) }) {
		t.Error("a job has the bytes of another event")
	}
}
