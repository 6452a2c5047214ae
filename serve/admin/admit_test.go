package admin_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/apitoken"
	"github.com/tidemill/tidemill/serve/admin"
)

func TestNothingIsAnsweredWithoutTheToken(t *testing.T) {
	in := start(t, nil)
	api := routes(t)
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer the-token", "Bearer " + token + "0", "Basic " + token, token, "Bearer  " + token} {
		for n, route := range api {
			r := request(route.Method, admin.Prefix+route.Path, "")
			r.RemoteAddr = fmt.Sprintf("127.0.%d.%d:50000", n/100, n%100+1) // from each one only a few, which are not slowed yet
			r.Header.Set("Authorization", auth)
			w := in.do(r)
			if refused(t, w, http.StatusUnauthorized, "the API needs its token"); w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s with %q: no WWW-Authenticate", route.Method, route.Path, auth)
			}
		}
	}
	for _, auth := range []string{"Bearer " + token, "bearer " + token} {
		r := request(http.MethodGet, admin.Prefix+"status", "")
		r.Header.Set("Authorization", auth)
		r.Host, r.RemoteAddr = "tidemill.example", "192.0.2.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.2")
		if w := in.do(r); w.Code != 200 {
			t.Errorf("with %q: answered %d", auth, w.Code)
		}
	}
}

// TestOnThisMachineTheTokenInTheDataFolderIsNeeded is what a proxy on this machine does that says
// nothing of whom it asks for: it was let in.
func TestOnThisMachineTheTokenInTheDataFolderIsNeeded(t *testing.T) {
	var folder string
	in := start(t, func(c *config.Loaded) { c.Admin.Key, folder = tidemill.Secret{}, c.Data })
	made, err := apitoken.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	for auth, want := range map[string]int{"": 401, "Bearer": 401, "Bearer " + token: 401, "Bearer " + made.Reveal(): 200} {
		for _, path := range []string{admin.Prefix + "status", "/debug/pprof/"} {
			r := request(http.MethodGet, path, "")
			r.Header.Set("Authorization", auth)
			if w := in.do(r); w.Code != want {
				t.Errorf("%s: answered %d, want %d", path, w.Code, want)
			}
		}
	}
	api := admin.New(admin.Parts{}) // put together without one
	for _, auth := range []string{"", "Bearer", "Bearer "} {
		r := request(http.MethodGet, admin.Prefix+"status", "")
		r.Header.Set("Authorization", auth)
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code != 401 {
			t.Errorf("an API without a token answers %d to %q", w.Code, auth)
		}
	}
}

func TestWithNoAuthThisMachineAloneIsAnswered(t *testing.T) {
	in := startWith(t, connect.Options{Version: "test", NoAuth: true}, func(c *config.Loaded) { c.Admin.Key = tidemill.Secret{} })
	header := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, "192.0.2.1") }
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"a program on this machine", func(*http.Request) {}, 200},
		{"by the name of the loopback", func(r *http.Request) { r.Host = "LOCALHOST" }, 200},
		{"by IPv6", func(r *http.Request) { r.Host, r.RemoteAddr = "[::1]:8484", "[::1]:50000" }, 200},
		{"another machine", func(r *http.Request) { r.RemoteAddr = "192.0.2.1:50000" }, 403},
		{"a name that was made to point here (DNS rebinding)", func(r *http.Request) { r.Host = "evil.example:8484" }, 403},
		{"a name that begins like the loopback", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, 403},
		{"no host at all", func(r *http.Request) { r.Host = "" }, 403},
		{"X-Forwarded-For", header("X-Forwarded-For"), 403},
		{"X-Forwarded-For without a value", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "") }, 403},
		{"X-Forwarded-Host", header("X-Forwarded-Host"), 403},
		{"X-Forwarded-Proto", header("X-Forwarded-Proto"), 403},
		{"X-Forwarded", header("X-Forwarded"), 403},
		{"Forwarded", header("Forwarded"), 403},
		{"X-Real-IP", header("X-Real-IP"), 403},
		{"Via", header("Via"), 403},
		{"CF-Connecting-IP", header("CF-Connecting-IP"), 403},
		{"True-Client-IP", header("True-Client-IP"), 403},
	} {
		for _, route := range []struct{ method, path string }{{"GET", admin.Prefix + "status"}, {"POST", admin.Prefix + "pipelines/analytics/resume"}} {
			r := request(route.method, route.path, "")
			r.Header.Del("Authorization")
			c.change(r)
			w := in.do(r)
			if allowed := w.Code != 403; allowed != (c.want == 200) {
				t.Errorf("%s: %s %s is answered %d, want %d\n%s", c.name, route.method, route.path, w.Code, c.want, w.Body)
			}
		}
	}
}

// TestProfilesWantTheTokenAlways is what a profile needs also where nothing else does: whoever is
// on this machine could read keys out of one.
func TestProfilesWantTheTokenAlways(t *testing.T) {
	var folder string
	in := startWith(t, connect.Options{Version: "test", NoAuth: true}, func(c *config.Loaded) { c.Admin.Key, folder = tidemill.Secret{}, c.Data })
	made, err := apitoken.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	for auth, want := range map[string]int{"": 401, "Bearer": 401, "Bearer " + token: 401, "Bearer " + made.Reveal(): 200} {
		for _, path := range []string{"/debug/pprof/"} {
			r := request(http.MethodGet, path, "")
			r.Header.Set("Authorization", auth)
			if w := in.do(r); w.Code != want {
				t.Errorf("%s with --no-auth: answered %d, want %d", path, w.Code, want)
			}
		}
	}
}

func TestPagesOfOtherSitesAreKeptOut(t *testing.T) {
	for _, noAuth := range []bool{true, false} {
		in := startWith(t, connect.Options{Version: "test", NoAuth: noAuth}, nil)
		for _, c := range []struct {
			name, header, value string
			allowed             bool
		}{
			{"no browser", "", "", true},
			{"our own page", "Sec-Fetch-Site", "same-origin", true},
			{"our own page, by its origin", "Origin", "http://localhost:8484", true},
			{"another site", "Sec-Fetch-Site", "cross-site", false},
			{"another port", "Sec-Fetch-Site", "same-site", false},
			{"another site, by its origin", "Origin", "https://evil.example", false},
			{"a page without origin", "Origin", "null", false},
		} {
			r := request(http.MethodPost, admin.Prefix+"dead/replay?all=true", "")
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			if w := in.do(r); (w.Code == 200) != c.allowed {
				t.Errorf("--no-auth %v, %s: answered %d, want allowed: %v\n%s", noAuth, c.name, w.Code, c.allowed, w.Body)
			}
		}
	}
}

// TestWrongTokensAreCountedAndSlowedAndTheRightOnePasses has a thousand from one address.
func TestWrongTokensAreCountedAndSlowedAndTheRightOnePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		d := newDesk(t, admin.Parts{Metrics: metrics, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		ask := func(token, remote, forwarded string) *httptest.ResponseRecorder {
			r := request(http.MethodGet, admin.Prefix+"nothing", "")
			r.RemoteAddr = remote
			if r.Header.Set("Authorization", "Bearer "+token); forwarded != "" {
				r.Header.Set("X-Forwarded-For", forwarded)
			}
			w := httptest.NewRecorder()
			d.api.ServeHTTP(w, r)
			return w
		}
		answers := map[int]int{}
		for n := range 1000 {
			w := ask(fmt.Sprint("wrong-", n), "10.1.2.3:4", "192.0.2.1")
			if answers[w.Code]++; w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close") {
				t.Errorf("who is slowed is not told when to come again: %v", w.Header())
			}
			if w := ask(token, "10.1.2.3:4", "192.0.2.1"); w.Code != http.StatusNotFound {
				t.Fatalf("the right token after %d wrong ones is answered %d", n+1, w.Code)
			}
		}
		if answers[401] > 10 || answers[429] != 1000-answers[401] {
			t.Errorf("a thousand wrong tokens are answered %v", answers)
		}
		if w := ask("wrong", "10.1.2.3:4", "192.0.2.2"); w.Code != http.StatusUnauthorized {
			t.Errorf("another sender behind the same proxy is answered %d", w.Code)
		}
		if w := ask("", "10.1.2.3:4", "192.0.2.1"); w.Code != http.StatusUnauthorized {
			t.Errorf("who tries none is answered %d", w.Code)
		}
		got, err := metrics.Gather()
		got = slices.DeleteFunc(got, func(m *dto.MetricFamily) bool { return m.GetName() != "tidemill_api_refused_total" })
		if err != nil || len(got) != 1 {
			t.Fatalf("metrics: %v, %v", got, err)
		}
		counts := map[string]float64{}
		for _, m := range got[0].GetMetric() {
			for _, l := range m.GetLabel() {
				counts[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
		if want := map[string]float64{"elsewhere": 0, "no_session": 0, "no_token": 1, "no_way": 0, "slowed": 990, "wrong_login": 0, "wrong_token": 11}; !maps.Equal(counts, want) {
			t.Errorf("refusals %v, want %v", counts, want)
		}
		d.logged("wrong tokens or keys from one address", "what=tokens", "sender=192.0.2.1/32", "system=api")
		if log := d.log.String(); strings.Contains(log, "wrong-") || strings.Contains(log, token) {
			t.Errorf("tokens are in the log:\n%s", log)
		}
	})
}
