package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
)

func TestTheTypeOfAProblemIsAnAddressThatExplainsIt(t *testing.T) {
	d := newDesk(t, admin.Parts{})
	all := lines(d.get("problems"))
	seen := map[string]bool{}
	for i, k := range operation.ProblemKinds {
		path, ours := strings.CutPrefix(k.Type, admin.Prefix)
		if seen[k.Type] || !ours || !strings.HasSuffix(k.Text, ".") {
			t.Fatalf("%+v", k)
		}
		seen[k.Type] = true
		var got operation.ProblemKind
		if d.into(d.get(path), &got); got != k || i >= len(all) || all[i] != strings.TrimSpace(d.get(path)) {
			t.Errorf("%s is explained as %+v, want %+v", path, got, k)
		}
		if page := d.browse(http.MethodGet, path, browser); page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "<h1>"+k.Title) || page.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("a browser is shown %d %s", page.Code, page.Body)
		}
	}
	refused(t, d.ask(http.MethodGet, "problems/none", ""), http.StatusNotFound, "GET /api/v1/problems lists them")
	refused(t, d.ask(http.MethodGet, "problems/not-found?x=1", ""), http.StatusBadRequest, "no parameter")
	w := d.ask(http.MethodGet, "nope", "")
	var said operation.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || said.Type != "/api/v1/problems/not-found" {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// browser is the Accept of one.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func (d *desk) browse(method, path, accept string) *httptest.ResponseRecorder {
	return d.headed(method, path, "", http.Header{"Accept": {accept}})
}

func TestABrowserIsShownAPageOfAProblem(t *testing.T) {
	d := newDesk(t, admin.Parts{})
	w := d.browse(http.MethodGet, "<b>nope", browser)
	if page := w.Body.String(); w.Code != http.StatusNotFound || !strings.Contains(page, "the API has no /api/v1/&lt;b&gt;nope") || !strings.Contains(page, `href="/api/v1/problems/not-found"`) || !strings.Contains(page, w.Header().Get("X-Request-Id")) {
		t.Errorf("answered %d: %s", w.Code, page)
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy"} {
		if w.Header().Get(name) == "" {
			t.Errorf("it has no %s", name)
		}
	}
	if h := w.Header(); h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || !slices.Contains(h.Values("Vary"), "Accept") {
		t.Errorf("its headers are %v", h)
	}
	for accept, html := range map[string]bool{"": false, "*/*": false, "application/json": false, "text/html;q=0.5, application/problem+json": false, "text/html, application/json;q=0.5": true, "text/html;q=0": false, "TEXT/HTML": true, "text/html;q=x": false} {
		if got := strings.HasPrefix(d.browse(http.MethodGet, "nope", accept).Header().Get("Content-Type"), "text/html"); got != html {
			t.Errorf("Accept %q is answered with a page: %t", accept, got)
		}
	}
	refused(t, d.browse(http.MethodPost, "dead/replay", browser), http.StatusNotFound, "keeps no dead letters")

	r := request(http.MethodGet, admin.Prefix+"status", "")
	r.Header.Set("Accept", browser)
	r.Header.Del("Authorization")
	stranger := httptest.NewRecorder()
	d.api.ServeHTTP(stranger, r)
	if stranger.Code != http.StatusUnauthorized || stranger.Header().Get("WWW-Authenticate") == "" || !strings.Contains(stranger.Body.String(), "<h1>Unauthorized</h1>") {
		t.Errorf("a stranger is answered %d: %s", stranger.Code, stranger.Body)
	}
}
