package windowsingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows/record"
)

const (
	key   = "key-of-club"
	batch = "20250323151500"
)

var today = time.Date(2026, 11, 21, 19, 0, 20, 0, time.UTC)

// windows is a store that can be told to fail, or to wait, and counts calls.
type windows struct {
	window.Store
	mu    sync.Mutex
	err   error
	hold  chan struct{} // Put waits for it; nil: it does not
	calls []int         // records of each Put
}

func (w *windows) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	w.mu.Lock()
	err, hold := w.err, w.hold
	w.calls = append(w.calls, len(records))
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	return w.Store.Put(ctx, records, kept)
}

func (w *windows) set(err error, hold chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.hold = err, hold
}

// puts are how many records each call had.
func (w *windows) puts() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]int(nil), w.calls...)
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

// testDoor is a Handler with all that it stands on.
type testEndpoint struct {
	*Handler
	t        testing.TB
	windows  *windows
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

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newDoor makes one on a store in memory.
func newEndpoint(t testing.TB, change ...func(*Options)) *testEndpoint {
	t.Helper()
	d := &testEndpoint{t: t, now: today, windows: &windows{}, projects: &projects{Projects: tableproject.Memory()}}
	d.windows.Store = must(tablewindow.Memory(window.Options{Now: d.clock}))
	if err := d.projects.Ensure(t.Context(), project.Project{ID: project.ID("club"), Name: "club"}, project.HashOf(tidemill.NewSecret(key))); err != nil {
		t.Fatal(err)
	}
	o := Options{Options: endpoint.Options{Projects: d.projects, Now: d.clock, NewID: func() uuid.UUID { return uuid.UUID{15: 7} }}, Windows: d.windows, Spool: filepath.Join(t.TempDir(), "spool")}
	for _, c := range change {
		c(&o)
	}
	d.Handler = must(New(o))
	return d
}

// each runs a test on every embedded store.
func each(t *testing.T, test func(t *testing.T, d *testEndpoint), change ...func(*Options)) {
	t.Run("memory", func(t *testing.T) { test(t, newEndpoint(t, change...)) })
	t.Run("sqlite", func(t *testing.T) {
		db := must(sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlitedb.Options{}))
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		d := newEndpoint(t, change...)
		rows, blobs := must(sqlitetable.New(t.Context(), db, tablewindow.Spec())), must(sqlitetable.New(t.Context(), db, tablewindow.BlobSpec()))
		d.windows.Store = must(tablewindow.New(t.Context(), rows, blobs, tablewindow.Options{Options: window.Options{Now: d.clock}}))
		test(t, d)
	})
}

type header map[string]string

// ask makes a request with a key and a batch id, if the headers bring no others.
func (d *testEndpoint) ask(method, path, body string, more header) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-API-Key", key)
	if !strings.HasPrefix(path, Path+"/files") {
		r.Header.Set("X-Batch-ID", batch)
	}
	for k, v := range more {
		if r.Header.Set(k, v); v == "" {
			r.Header.Del(k)
		}
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
		d.t.Errorf("%s %s: headers %v", method, path, w.Header())
	}
	return w
}

// idle checks that nothing is left of requests that have ended.
func (d *testEndpoint) idle() {
	d.t.Helper()
	if n, m, f := d.Running(), d.Bodies.Out(), len(d.files); n != 0 || m != 0 || f != 0 {
		d.t.Errorf("%d requests are said to run, %d bytes and %d files are out", n, m, f)
	}
}

func (d *testEndpoint) post(body string) *httptest.ResponseRecorder {
	d.t.Helper()
	return d.ask("POST", Path+"/events", body, nil)
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
		t.Errorf("got %d %.1000s; want %d %s", w.Code, w.Body, code, body)
	}
}

// says checks a part of an answer.
func says(t testing.TB, w *httptest.ResponseRecorder, part string) {
	t.Helper()
	if !strings.Contains(w.Body.String(), part) {
		t.Errorf("%q is not in %.1000s", part, w.Body)
	}
}

// counted is the answer of a request of which nothing is refused.
func counted(accepted, duplicate int) string {
	return fmt.Sprintf(`{"batch":%q,"accepted":%d,"duplicate":%d,"rejected":0}`, batch, accepted, duplicate)
}

// of is the name of a batch of a project in the store.
func of(name, id string) string { return record.NewBatch(project.ID(name), id).String() }

// kept are the records of a batch id, by kind, id and qualifier.
func (d *testEndpoint) kept(batch string) map[string]string {
	d.t.Helper()
	return d.keptBy("club", batch)
}

// keptBy are those of a project.
func (d *testEndpoint) keptBy(name, batch string) map[string]string {
	d.t.Helper()
	all := map[string]string{}
	for i, err := range d.windows.List(d.t.Context(), window.Filter{Batch: of(name, batch)}) {
		if err != nil {
			d.t.Fatal(err)
		}
		into := make([]window.Record, 500)
		for from := ""; ; {
			page, err := d.windows.Peek(d.t.Context(), i.ID, from, into)
			if err != nil {
				d.t.Fatal(err)
			}
			for _, r := range into[:page.N] {
				all[r.Kind+" "+r.ID+" "+r.Qualifier] = string(r.Body)
			}
			if from = page.Next; from == "" {
				break
			}
		}
	}
	return all
}

func event(id int) string { return fmt.Sprintf(`{"globalEventId":%d,"day":20250323}`, id) }

func mention(id, sentence int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"mentionIdentifier":"https://example.com/%d","sentenceId":%d}`, id, id, sentence)
}

// several are n records, joined by a separator.
func several(n int, each func(i int) string, separator string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = each(i)
	}
	return strings.Join(all, separator)
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must(w.Write([]byte(s)))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func zstandard(s string) string {
	return string(must(zstd.NewWriter(nil)).EncodeAll([]byte(s), nil))
}

// clear delivers all windows that are closed.
func (d *testEndpoint) clear(t *testing.T) {
	t.Helper()
	source := d.windows.Open()
	for {
		stats, err := d.windows.Stats(t.Context())
		if err != nil || stats.Ready.Windows == 0 {
			return
		}
		m := []*tidemill.Message{{}}
		if _, err := source.Receive(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := source.Settle(t.Context(), []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, End: tidemill.Done, Fate: tidemill.Delivered}}); err != nil {
			t.Fatal(err)
		}
	}
}
