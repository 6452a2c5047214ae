package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// desk is an API over parts that a test put together.
type desk struct {
	*testing.T
	api *admin.API
	log bytes.Buffer
}

func newDesk(t *testing.T, p admin.Parts) *desk {
	t.Helper()
	d := &desk{T: t}
	if p.Common == nil {
		p.Common = &answer.Common{}
	}
	if p.Rooms == nil {
		p.Rooms = systems.All().Rooms(nil)
	}
	p.Key, p.Owners, p.Log = tidemill.NewSecret(token), append(p.Owners, systems.All().Owners()...), slog.New(slog.NewTextHandler(&d.log, nil))
	d.api = admin.New(p)
	return d
}

func (d *desk) ask(method, path, body string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
	r.Header.Set(operation.IfMatch, operation.Whatever) // where it is needed
	d.api.ServeHTTP(w, r)
	asDescribed(d.T, r, w)
	return w
}

func (d *desk) get(path string) string {
	d.Helper()
	return d.good(d.ask(http.MethodGet, path, ""))
}

func (d *desk) post(path, body string) string {
	d.Helper()
	return d.good(d.ask(http.MethodPost, path, body))
}

func (d *desk) put(path, body string) string {
	d.Helper()
	return d.good(d.ask(http.MethodPut, path, body))
}

func (d *desk) good(w *httptest.ResponseRecorder) string {
	d.Helper()
	if w.Code != http.StatusOK {
		d.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	if w.Header().Get("Content-Type") == operation.LinesType {
		return withoutEnd(w.Body.String())
	}
	return w.Body.String()
}

// into reads an answer, or one line of a listing.
func (d *desk) into(s string, v any) {
	d.Helper()
	in := json.NewDecoder(strings.NewReader(s))
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil {
		d.Fatalf("%v: %s", err, s)
	}
}

// lines are those of a listing, without the last one, which says that it is whole.
func lines(s string) []string {
	if s = strings.TrimSuffix(withoutEnd(s), "\n"); s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// withoutEnd is a listing without the line that says that it is whole.
func withoutEnd(s string) string {
	all := strings.SplitAfter(s, "\n")
	if last := len(all) - 2; last >= 0 && regexp.MustCompile(fmt.Sprintf(`^\{"whole":\{"items":%d(,"looked":\d+)?\}\}\n$`, last)).MatchString(all[last]) {
		return strings.Join(all[:last], "")
	}
	return s
}

// field is one of a JSON object.
func (d *desk) field(s, name string) any {
	d.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		d.Fatalf("%v: %s", err, s)
	}
	return v[name]
}

// logged says whether the log has a line with all of this, and nothing else than it should.
func (d *desk) logged(parts ...string) {
	d.Helper()
	for line := range strings.Lines(d.log.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return
		}
	}
	d.Errorf("no line of the log has %q:\n%s", parts, d.log.String())
}

func TestAPartThatIsNotThereIsSaidSo(t *testing.T) {
	d := newDesk(t, admin.Parts{})
	for _, c := range []struct{ method, path, want string }{
		{"GET", "dead", "keeps no dead letters"}, {"GET", "dead/1", "keeps no dead letters"}, {"POST", "dead/replay?all=true", "keeps no dead letters"},
		{"GET", "queues", "no queues"}, {"GET", "queues/q/jobs", "no queues"}, {"POST", "queues/q/retry?all=true", "no queues"},
		{"GET", "projects", "no projects"}, {"GET", "events", "analytics does not run"}, {"POST", "events", "analytics does not run"}, {"GET", "persons", "analytics does not run"},
		{"GET", "definitions", "analytics does not run"}, {"GET", "warnings", "analytics does not run"},
		{"GET", "windows", "windows do not run"}, {"POST", "windows/b/close", "windows do not run"}, {"GET", "search?q=x", "windows do not run"},
		{"GET", "partners", "delivery does not run"}, {"POST", "partners/p/open", "delivery does not run"}, {"GET", "delivery/events/s/e", "delivery does not run"},
	} {
		refused(t, d.ask(c.method, c.path, "{}"), http.StatusNotFound, c.want)
	}
}

// only is the API where one system runs.
func only(name string, does []operation.Handler) []admin.Room {
	return systems.All().Rooms(map[string]admin.Room{name: {Does: does}})
}
