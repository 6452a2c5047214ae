package crmingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm/accept"
)

const (
	clubKey  = "key-of-club"
	otherKey = "key-of-other"
)

var today = time.Date(2026, 11, 21, 19, 0, 20, 0, time.UTC)

// queues is a queue that can be told to fail.
type queues struct {
	*memoryqueue.Store
	err error
}

func (q *queues) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if q.err != nil {
		return q.err
	}
	return q.Store.Add(ctx, jobs, added)
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

// testDoor is a Handler with all that it stands on, in memory.
type testEndpoint struct {
	*Handler
	t        testing.TB
	queues   *queues
	projects *projects
	mu       sync.Mutex
	now      time.Time
}

func (d *testEndpoint) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *testEndpoint) pass(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(t)
}

func newEndpoint(t testing.TB, change ...func(*Options)) *testEndpoint {
	t.Helper()
	d := &testEndpoint{t: t, now: today, queues: &queues{Store: memoryqueue.New(memoryqueue.Options{Capacity: 2000})}, projects: &projects{Projects: tableproject.Memory()}}
	for name, key := range map[string]string{"club": clubKey, "other": otherKey} {
		if err := d.projects.Ensure(t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret(key))); err != nil {
			t.Fatal(err)
		}
	}
	a, err := accept.New(d.queues, accept.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Acceptor: a, Options: endpoint.Options{Projects: d.projects, Now: d.clock, NewID: func() uuid.UUID { return uuid.UUID{15: 7} }}}
	for _, c := range change {
		c(&o)
	}
	if d.Handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	return d
}

type header map[string]string

// ask makes a request with the club's key, if the headers bring no other.
func (d *testEndpoint) ask(method, path, body string, more header) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-API-Key", clubKey)
	for k, v := range more {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
		d.t.Errorf("%s %s: headers %v", method, path, w.Header())
	}
	if n := d.Running(); n != 0 {
		d.t.Errorf("%s %s: %d requests are said to run", method, path, n)
	}
	if n := d.Bodies.Out(); n != 0 {
		d.t.Errorf("%s %s: %d bytes of bodies are out", method, path, n)
	}
	return w
}

func (d *testEndpoint) post(body string) *httptest.ResponseRecorder {
	d.t.Helper()
	return d.ask("POST", Path, body, nil)
}

// want compares an answer; of one that is an error the body is its word.
func want(t testing.TB, w *httptest.ResponseRecorder, code int, body string) {
	t.Helper()
	got := w.Body.String()
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("the answer is no JSON: %s", got)
	}
	if code >= 400 {
		var e struct{ Error, Message, RequestID string }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" || e.RequestID == "" || w.Header().Get("X-Request-Id") != e.RequestID {
			t.Errorf("an error without a message or an id: %s (%v)", got, err)
		}
		got = e.Error
		if after := w.Header().Get("Retry-After"); (after != "") != (code == 429 || code == 503) {
			t.Errorf("%d with Retry-After %q", code, after)
		}
	}
	if w.Code != code || got != body {
		t.Errorf("got %d %s; want %d %s", w.Code, w.Body, code, body)
	}
}

// jobs are those of the queue, by id.
func (d *testEndpoint) jobs() map[string]*queue.Job {
	d.t.Helper()
	all := map[string]*queue.Job{}
	for j, err := range d.queues.List(d.t.Context(), queue.Filter{Queue: accept.Queue}) {
		if err != nil {
			d.t.Fatal(err)
		}
		all[j.ID] = j
	}
	return all
}

// evt is one of the club; more are further members.
func evt(id string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"type":"member.created","tenantId":"club","identity":{"email":"ann@example.com"},"occurredAt":"2026-11-21T18:59:59Z"%s}`, id, strings.Join(append([]string{""}, more...), ","))
}

func foreign(id string) string { return strings.Replace(evt(id), `"club"`, `"other"`, 1) }

// wide is an event of n bytes and a little more.
func wide(id string, n int) string {
	return evt(id, `"payload":{"a":"`+strings.Repeat("x", n)+`"}`)
}

func many(n int, each func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = each(i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func numbered(i int) string { return evt(fmt.Sprint("evt-", i)) }

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
	raw := " " + evt("evt/1", `"payload": {"amount": 1.50}`) + "\n"
	want(t, d.ask("POST", Path, raw, header{"Content-Type": "application/json; charset=UTF-8"}), 202, `{"id":"evt/1","status":"accepted"}`)
	want(t, d.post(raw), 202, `{"id":"evt/1","status":"duplicate"}`)
	want(t, d.post(evt("evt/1", `"payload":{}`)), 202, `{"id":"evt/1","status":"duplicate"}`)
	want(t, d.ask("POST", Path, evt("evt-2"), header{"X-API-Key": "", "Authorization": "Bearer " + clubKey}), 202, `{"id":"evt-2","status":"accepted"}`)
	all := d.jobs()
	j := all["evt/1"]
	if len(all) != 2 || string(j.Payload) != raw || j.Tenant != "club" || j.Type != "member.created" || len(j.Header) != 0 {
		t.Errorf("%d jobs, the first %+v", len(all), j)
	}
	if got := d.Handled(); got != (Handled{Requests: 4, Accepted: 2, Duplicate: 2}) {
		t.Errorf("handled %+v", got)
	}
}

func TestAnArrayHasAResultForEachEvent(t *testing.T) {
	d := newEndpoint(t)
	body := `[` + evt("a") + `,` + strings.Replace(evt("b"), "ann@example.com", "nobody", 1) + `,` + evt("a") + `,` + foreign("c") + `,7,` + evt("d", `"x":1,"x":2`) + `]`
	want(t, d.post(body), 202, `{"results":[{"id":"a","status":"accepted"},`+
		`{"id":"b","status":"rejected","error":{"code":"validation_failed","problems":[`+problemOf(t, body, 1)+`]}},`+
		`{"id":"a","status":"duplicate"},`+
		`{"id":"c","status":"rejected","error":{"code":"tenant_not_allowed"}},`+
		`{"status":"rejected","error":{"code":"validation_failed","problems":[{"path":"","message":"is a number","allowed":"an object"}]}},`+
		`{"id":"d","status":"rejected","error":{"code":"validation_failed","problems":[{"path":"","message":"is no JSON: a name comes twice in one object","allowed":"one JSON object in UTF-8"}]}}]}`)
	if got := d.Handled(); len(d.jobs()) != 1 || got != (Handled{Requests: 1, Accepted: 1, Duplicate: 1, Rejected: 4}) {
		t.Errorf("%d jobs, handled %+v", len(d.jobs()), got)
	}
}

// problemOf is the first problem of an event in an array, as the rules say it.
func problemOf(t *testing.T, body string, i int) string {
	t.Helper()
	var raws []json.RawMessage
	if err := json.Unmarshal([]byte(body), &raws); err != nil {
		t.Fatal(err)
	}
	a, err := accept.New(memoryqueue.New(memoryqueue.Options{}), accept.Options{})
	if err != nil {
		t.Fatal(err)
	}
	results, err := a.Accept(t.Context(), [][]byte{raws[i]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := string(appendProblems(nil, invalid(results[0].Err)))
	return strings.TrimSuffix(strings.TrimPrefix(b, `"problems":[`), "]")
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{evt("a"), "[" + evt("a") + "," + foreign("b") + ",1]", "[]", "", zipped(f, evt("a")), "[[[", `{"id":"\ud800"}`} {
		f.Add([]byte(s))
	}
	d := newEndpoint(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d.t = t
		w := d.post(string(b))
		switch w.Code {
		case 202, 400, 403, 413, 415, 422:
		default:
			t.Errorf("answered %d to %q", w.Code, b)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer to %q is no JSON: %q", b, w.Body)
		}
		if w.Code == 202 && !strings.Contains(w.Body.String(), `"status":"accepted"`) && !strings.Contains(w.Body.String(), `"status":"duplicate"`) {
			t.Errorf("202 though nothing was taken: %s", w.Body)
		}
		for _, j := range d.jobs() {
			if !bytes.Contains(b, j.Payload) && !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
				t.Errorf("job %q is not what was sent: %q", j.Payload, b)
			}
			if _, err := d.queues.Remove(t.Context(), queue.Filter{Queue: accept.Queue}); err != nil {
				t.Fatal(err)
			}
			break
		}
	})
}

func BenchmarkAHundredEvents(b *testing.B) {
	d := newEndpoint(b, func(o *Options) {
		a, err := accept.New(willing{}, accept.Options{})
		if err != nil {
			b.Fatal(err)
		}
		o.Acceptor = a
	})
	events := many(100, numbered)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", Path, strings.NewReader(events))
		r.Header.Set("X-API-Key", clubKey)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if w.Code != 202 {
			b.Fatal(w.Body)
		}
	}
}

// willing is a queue that takes everything and keeps nothing.
type willing struct{}

func (willing) Add(_ context.Context, _ []*tidemill.Message, added []queue.Added) error {
	for i := range added {
		added[i] = queue.New
	}
	return nil
}
