package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/logbook"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// instance is an embedded one that runs for a test.
type instance struct {
	t *testing.T
	*connect.Instance
}

// loaded is a configuration in which nothing is set, but that tests may ask quickly.
func loaded(t *testing.T) *config.Loaded {
	t.Helper()
	c, err := systems.All().Settings().Load(config.Layers{Flags: map[string]string{"admin.rates.reads": "0", "admin.rates.changes": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// constant is a configuration that stays in force.
func constant(c *config.Loaded) func() *config.Loaded { return func() *config.Loaded { return c } }

func start(t *testing.T, change func(*config.Loaded)) *instance {
	t.Helper()
	return startWith(t, connect.Options{Version: "test"}, change)
}

func startWith(t *testing.T, o connect.Options, change func(*config.Loaded)) *instance {
	t.Helper()
	c, err := systems.All().Settings().Load(config.Layers{Flags: map[string]string{"data": t.TempDir(), "analytics.flush_interval": "1ms", "admin.rates.reads": "0", "admin.rates.changes": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("shop-key")}}
	c.Admin.Key = tidemill.NewSecret(token)
	if change != nil {
		change(c)
	}
	o.Log = logbook.Watch(t, o.Log)
	in, err := connect.Open(t.Context(), systems.All(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan bool), make(chan error)
	go func() { ended <- in.Run(ctx, nil, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		if err := in.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return &instance{t, in}
}

// token is what the API asks for in these tests.
const token = "the-token-0123456789"

// request is one from this machine, as the CLI makes it.
func request(method, path string, body string) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:8484"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer "+token)
	if q := r.URL.Query(); !q.Has("limit") && !q.Has("cursor") { // listings
		r.Header.Set("Accept", operation.LinesType)
	}
	return r
}

func (in *instance) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	asDescribed(in.t, r, w)
	return w
}

func (in *instance) get(path string) *httptest.ResponseRecorder {
	return in.do(request(http.MethodGet, admin.Prefix+path, ""))
}

func (in *instance) post(path, body string) *httptest.ResponseRecorder {
	return in.do(request(http.MethodPost, admin.Prefix+path, body))
}

// refused checks an answer to what is wrong: its status, and a sentence.
func refused(t *testing.T, w *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	var said operation.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || w.Code != status || said.Status != status || !strings.HasPrefix(said.Type, "/api/v1/problems/") || said.Title != http.StatusText(status) || !strings.Contains(said.Detail, want) ||
		w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("answered %d %v\n%s\nwant %d with an error that has %q", w.Code, w.Header(), w.Body, status, want)
	}
}

// routes are all that the API has, from its own table.
func routes(t *testing.T) []operation.Handler {
	t.Helper()
	all := admin.New(admin.Parts{Rooms: systems.All().Rooms(nil)}).Operations()
	if len(all) < 16 {
		t.Fatalf("the API has %d routes", len(all))
	}
	return all
}

// A parameter that is written wrong is not ignored: more would be shown than was meant, or
// replayed, or deleted.
func TestEveryRouteRefusesParametersThatItDoesNotKnow(t *testing.T) {
	in := start(t, nil)
	fill := strings.NewReplacer("{name}", "analytics.replay", "{letter}", "1", "{site}", "shop", "{id}", "e1", "{batch}", "b", "{revision}", "1")
	n := 0
	for _, r := range routes(t) {
		w := in.do(request(r.Method, admin.Prefix+fill.Replace(r.Path)+"?tpye=purchase", ""))
		if w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "this instance") { // its system does not run
			continue
		}
		refused(t, w, http.StatusBadRequest, `"tpye" is no parameter: `)
		n++
	}
	if n < 16 {
		t.Errorf("%d routes were tried", n)
	}
	refused(t, in.do(request("GET", admin.Prefix+"dead?sicne=7d", "")), http.StatusBadRequest, `did you mean "since"?`)
	refused(t, in.do(request("GET", admin.Prefix+"dead?colour=7d", "")), http.StatusBadRequest, `there are id, seq, pipeline,`)
	w := request("POST", admin.Prefix+"dead/delete", "all=true&tenent=shop")
	w.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	refused(t, in.do(w), http.StatusBadRequest, `"tenent" is no parameter`)
}

func TestEveryRouteAnswersAndKnowsItsMethods(t *testing.T) {
	in := start(t, nil)
	fill := strings.NewReplacer("{name}", "analytics.replay", "{letter}", "1", "{site}", "shop", "{id}", "e1", "{batch}", "b", "{revision}", "1")
	methods := map[string][]string{}
	for _, r := range routes(t) {
		path := fill.Replace(r.Path)
		methods[path] = append(methods[path], r.Method)
		w := in.do(request(r.Method, admin.Prefix+path, ""))
		switch {
		case w.Code == http.StatusOK:
		case w.Code/100 == 4 && w.Code != http.StatusMethodNotAllowed:
			refused(t, w, w.Code, " ")
		default:
			t.Errorf("%s %s: answered %d\n%s", r.Method, path, w.Code, w.Body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: no nosniff", r.Method, path)
		}
	}
	methods["dead/replay"] = []string{"GET", "POST"} // a letter may be asked for by any name
	methods["dead/delete"] = methods["dead/replay"]
	methods["operations/preview"] = methods["dead/replay"]                                                                            // and an operation
	for _, path := range []string{"windows/replay", "windows/records", "windows/adopt", "windows/b/close", "windows/files/give-up"} { // a window, too
		methods[path] = methods["dead/replay"]
	}
	for path, allowed := range methods {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(allowed, method) {
				continue
			}
			w := in.do(request(method, admin.Prefix+path, ""))
			slices.Sort(allowed)
			if refused(t, w, http.StatusMethodNotAllowed, "cannot be "+method); w.Header().Get("Allow") != strings.Join(allowed, ", ") {
				t.Errorf("%s %s: Allow is %q, want %v", method, path, w.Header().Get("Allow"), allowed)
			}
		}
	}
	for _, path := range []string{"nothing", "status/", "dead/1/2", "pipelines", "pipelines/analytics", "pipelines/analytics/stop"} {
		refused(t, in.get(path), http.StatusNotFound, "the API has no "+admin.Prefix+path)
		refused(t, in.post(path, ""), http.StatusNotFound, "the API has no "+admin.Prefix+path)
	}
}

func TestWrongInputIsRefusedInASentence(t *testing.T) {
	in := start(t, func(c *config.Loaded) {
		c.Projects = append(c.Projects, config.Project{Name: "other", Key: tidemill.NewSecret("other-key")})
	})
	ids := url.Values{"id": strings.Split(strings.Repeat("x,", 10_000)+"x", ",")}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "events", "", 400, "say which project, of other, shop"},
		{"GET", "events?project=nix", "", 404, `there is no project "nix"; there are other, shop`},
		{"GET", "events?project=00000000-0000-4000-8000-000000000000", "", 404, "there is no project"},
		{"GET", "events?project=shop&max=many", "", 400, `max="many" is not a count`},
		{"GET", "events?project=shop&newest=10001", "", 400, "newest is 10001, and at most 10000: for more, choose a time, and leave newest out"},
		{"GET", "events?project=shop&max=-1", "", 400, `max="-1" is not a count`},
		{"GET", "events?project=shop&since=soon", "", 400, `since="soon" is no time: write 2026-01-31T12:00:00Z, 2026-01-31 (UTC), or how long ago: 24h, 7d`},
		{"GET", "events?project=shop&until=soon", "", 400, `until="soon" is no time`},
		{"GET", "events?project=shop&person=00000000-0000-0000-0000-000000000000", "", 400, `is nobody's id`},
		{"GET", "events?project=shop&person=me", "", 400, `person="me" is no UUID`},
		{"POST", "events?project=nix", "{}", 404, "there is no project"},
		{"GET", "persons?project=shop&distinct_id=nobody", "", 404, `nobody in this project has the distinct id "nobody"`},
		{"GET", "persons?project=shop", "", 404, "nobody in this project"},
		{"GET", "definitions", "", 400, "say which project"},
		{"GET", "warnings?project=shop&max=x", "", 400, "is not a count"},
		{"GET", "audit?system=nix", "", 404, `no system "nix" runs here; there is analytics`},
		{"GET", "dead?kind=nix", "", 400, "kind of failure"},
		{"GET", "dead?kind=trasient", "", 400, `; did you mean "transient"?`},
		{"GET", "dead?reason=time_out", "", 400, `; did you mean "timeout"?`},
		{"GET", "dead?state=hold", "", 400, `want held or replaying; did you mean "held"?`},
		{"GET", "audit?system=analitics", "", 404, `did you mean "analytics"?`},
		{"GET", "events?project=shp", "", 404, `did you mean "shop"?`},
		{"GET", "dead?sytem=crm", "", 400, `"sytem" is no parameter: did you mean "system"?`},
		{"GET", "dead?until=soon", "", 400, `until="soon" is no time`},
		{"GET", "dead?project=nix", "", 404, "there is no project"},
		{"GET", "dead/99", "", 404, "there is no dead letter 99"},
		{"GET", "dead/no%2Fsuch", "", 404, "there is no dead letter no/such"},
		{"POST", "dead/replay", "", 400, "say which letters to replay"},
		{"POST", "dead/delete", "", 400, "say which letters to delete"},
		{"POST", "dead/delete?all=yes", "", 400, `all="yes": want true or false`},
		{"POST", "dead/delete?all=true&dry_run=1", "", 400, `dry_run="1": want true or false`}, // else all would be gone
		{"POST", "dead/delete?max=x", "", 400, "is not a count"},
		{"POST", "dead/delete", ids.Encode(), 400, "exceeded limit"},
		{"POST", "dead/delete?%zz", "", 400, "invalid URL escape"},
		{"POST", "pipelines/nix/pause", "", 404, `no pipeline "nix" runs here; there are analytics, analytics.replay`},
		{"POST", "pipelines/analytics/resume", "", 409, "it is running, not paused"},
	} {
		t.Run(fmt.Sprint(c.method, " ", c.path), func(t *testing.T) {
			r := request(c.method, admin.Prefix+c.path, c.body)
			if strings.HasPrefix(c.body, "id=") {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			refused(t, in.do(r), c.status, c.want)
		})
	}
}
