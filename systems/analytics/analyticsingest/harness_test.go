package analyticsingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
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
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// intake is a queue in memory that can be told to be full or broken.
type intake struct {
	mu     sync.Mutex
	names  map[string]bool
	jobs   []tidemill.Message // copies
	room   int                // jobs that still fit; negative: any number
	err    error
	delay  time.Duration         // before every answer
	before func(context.Context) // every Add; may be nil
	calls  int
}

func (q *intake) Add(ctx context.Context, jobs []*tidemill.Message, added []queue.Added) error {
	if q.before != nil {
		q.before(ctx)
	}
	if q.delay > 0 {
		select {
		case <-time.After(q.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	if q.err != nil {
		return q.err
	}
	for i, j := range jobs {
		switch name := j.Tenant + "/" + j.ID; {
		case q.names[name]:
			added[i] = queue.Known
		case q.room == 0:
			added[i] = queue.Full
		default:
			q.room--
			q.names[name] = true
			c := *j
			c.Payload, c.Key = bytes.Clone(j.Payload), bytes.Clone(j.Key)
			c.Header = nil
			for _, f := range j.Header {
				c.Header = append(c.Header, tidemill.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)})
			}
			q.jobs = append(q.jobs, c)
			added[i] = queue.New
		}
	}
	return nil
}

// projects know keys, and count how often they are asked.
type projects struct {
	project.Projects
	mu    sync.Mutex
	keys  map[project.Hash]project.Project
	asked int
	err   error
}

func (p *projects) ByKey(_ context.Context, key project.Hash) (project.Project, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.err != nil {
		return project.Project{}, p.err
	}
	if found, ok := p.keys[key]; ok {
		return found, nil
	}
	return project.Project{}, project.ErrUnknown
}

const (
	goodKey  = "phc_good"
	otherKey = "phc_other"
)

var (
	goodProject  = project.ID("good")
	otherProject = project.ID("other")
	received     = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
)

type warned struct{ typ, event, distinct, reason string }

// testIngest is a Handler with all that it stands on.
type testIngest struct {
	*Handler
	t        testing.TB
	intake   *intake
	projects *projects
	now      time.Time
	mu       sync.Mutex
	warned   []warned
}

func newTestIngest(t testing.TB, change ...func(*Options)) *testIngest {
	t.Helper()
	d := &testIngest{t: t, now: received, intake: &intake{names: map[string]bool{}, room: -1}, projects: &projects{keys: map[project.Hash]project.Project{
		project.HashOf(tidemill.NewSecret(goodKey)):  {ID: goodProject, Name: "good"},
		project.HashOf(tidemill.NewSecret(otherKey)): {ID: otherProject, Name: "other"},
	}}}
	n := byte(0)
	o := Options{Options: endpoint.Options{Projects: d.projects, Now: func() time.Time { return d.now },
		NewID: func() uuid.UUID { n++; return uuid.UUID{6: 0x70, 8: 0x80, 15: n} }}, Intake: d.intake,
		Warn: func(_ context.Context, _ uuid.UUID, typ, event, distinct, reason string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.warned = append(d.warned, warned{typ, event, distinct, reason})
		}}
	for _, c := range change {
		c(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	d.Handler = h
	return d
}

type header map[string]string

// send makes a request: "POST /path", or only a path for POST.
func (d *testIngest) send(to, body string, headers ...header) *httptest.ResponseRecorder {
	method, path, ok := strings.Cut(to, " ")
	if !ok {
		method, path = http.MethodPost, to
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		for k, v := range h {
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// meta of the n-th job.
func (d *testIngest) meta(n int) event.Meta {
	d.t.Helper()
	if n >= len(d.intake.jobs) {
		d.t.Fatalf("%d jobs; want at least %d", len(d.intake.jobs), n+1)
	}
	m, err := event.ParseMeta(d.intake.jobs[n].Get(event.MetaHeader))
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func (d *testIngest) payloads() (out []string) {
	for _, j := range d.intake.jobs {
		out = append(out, string(j.Payload))
	}
	return out
}

func want(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || body != "*" && w.Body.String() != body {
		t.Errorf("got %d %s\nwant %d %s", w.Code, w.Body, status, body)
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

const (
	id1 = "0190b4f4-0000-7000-8000-000000000001"
	id2 = "0190b4f4-0000-7000-8000-000000000002"
)

func TestEventsReachTheQueueAsReceived(t *testing.T) {
	d := newTestIngest(t)
	one := "{ \"event\":\"a\\u0062c\", \"event_id\":\"" + id1 + "\",\"distinct_id\":\"u1\",\n\"properties\":{\"n\":12345678901234567890,\"x\":1,\"x\":2,\"bad\":\"\xff\xfe\"} }"
	two := `{"event":"two","event_id":"` + id2 + `","distinct_id":"u2"}`
	w := d.send("/v1/batch", `{"events" : [`+one+` , `+two+`],"sent_at":"2026-11-21T09:59:58Z"}`, header{"X-Api-Key": goodKey, "User-Agent": "Mozilla/5.0"})
	want(t, w, 202, `{"ok":true,"count":2,"dropped":0}`)
	if got := d.payloads(); !slices.Equal(got, []string{one, two}) {
		t.Errorf("payloads\n%q\nwant\n%q", got, []string{one, two})
	}
	j := d.intake.jobs[0]
	if j.ID != id1 || j.Tenant != goodProject.String() || j.Type != "abc" || j.To != "analytics" || string(j.Key) != "u1" || !j.Time.Equal(received) {
		t.Errorf("job %+v", j)
	}
	m := d.meta(0)
	wantMeta := event.Meta{Format: event.Native, Checked: true, Project: goodProject, Event: uuid.MustParse(id1), Received: received,
		At: received, Order: m.Order, Sum: event.SumOf(j.Payload), IP: "192.0.2.1", Agent: "Mozilla/5.0"}
	if m != wantMeta {
		t.Errorf("meta\n%+v\nwant\n%+v", m, wantMeta)
	}
	if d.intake.calls != 1 {
		t.Errorf("the queue was asked %d times; want once a request", d.intake.calls)
	}
}

func TestAnEventIsTakenOnce(t *testing.T) {
	d := newTestIngest(t)
	body := `{"api_key":"` + goodKey + `","batch":[{"event":"e","uuid":"` + id1 + `","distinct_id":"u"}]}`
	for range 3 {
		want(t, d.send("/batch/", body), 200, `{"status":"Ok"}`)
	}
	want(t, d.send("/batch/", strings.Replace(body, goodKey, otherKey, 1)), 200, `{"status":"Ok"}`)
	if len(d.intake.jobs) != 2 {
		t.Errorf("%d jobs; want one in each project", len(d.intake.jobs))
	}
	if h := d.Handled(); h.Accepted != 2 || h.Known != 2 || h.Requests != 4 {
		t.Errorf("handled %+v", h)
	}
}

func TestNothingIsHalf(t *testing.T) {
	body := `{"events":[{"event":"e","event_id":"` + id1 + `","distinct_id":"u"},{"event":"e","event_id":"` + id2 + `","distinct_id":"u"}]}`
	auth := header{"X-Api-Key": goodKey}
	d := newTestIngest(t)
	d.intake.room = 1
	w := d.send("/v1/batch", body, auth)
	want(t, w, 503, `{"retryable":true}`)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	d.intake.err = errors.New("disk full")
	want(t, d.send("/v1/batch", body, auth), 503, `{"retryable":true}`)
	d.intake.err, d.intake.room = nil, -1
	want(t, d.send("/v1/batch", body, auth), 202, `{"ok":true,"count":2,"dropped":0}`)
	if len(d.intake.jobs) != 2 {
		t.Errorf("%d jobs after all tries; want 2", len(d.intake.jobs))
	}
	if h := d.Handled(); h.Unkept != 3 || h.Accepted != 2 || h.Known != 1 {
		t.Errorf("handled %+v", h)
	}
}
