//go:build e2e

package e2e

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/test/process"
)

//go:embed testdata/*.html
var pages embed.FS

func chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("Chromium is needed: sh scripts/need.sh chromium")
	}
	return path
}

// browsed returns an instance that serves the scripts of browsers' SDKs.
func browsed(t *testing.T) *instance {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join("..", "sdk", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	return &instance{process.New(t, []string{"analytics", "--project", "shop=" + key}, []string{"TIDEMILL_LOG_LEVEL=warn", "TIDEMILL_ANALYTICS_SCRIPTS=" + modules}), t}
}

// TestSnippetsInABrowser opens pages with the snippets of PostHog and Segment in Chromium. They
// load everything from the binary, and send everything to it.
func TestSnippetsInABrowser(t *testing.T) {
	t.Parallel()
	in := browsed(t)
	in.Start()
	templates := template.Must(template.New("").Delims("{{", "}}").ParseFS(pages, "testdata/*.html"))
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := templates.ExecuteTemplate(w, filepath.Base(r.URL.Path), map[string]any{"Key": key, "Address": template.JSStr("http://" + in.Addr)}); err != nil {
			t.Error(err)
		}
	}))
	defer shop.Close()
	if err := reporting(t.Context(), "snippets", "node", "browser.mjs", chromium(t), shop.URL+"/posthog.html?utm_source=mail", shop.URL+"/segment.html?utm_source=mail"); err != nil {
		t.Fatal(err)
	}
	in.settled()
	found := map[string]stored{}
	for line := range bytes.Lines(in.Ask("events", "--project", "shop", "-n", "0", "--json")) {
		var e stored
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		found[e.SDK+" "+e.Name] = e
	}
	for name, n := range map[string]float64{"web posthog viewed": 1, "web posthog bought": 2, "analytics.js segment viewed": 1, "analytics.js segment bought": 2} {
		if e, ok := found[name]; !ok || e.Properties["n"] != n || e.Browser != "Chrome" {
			t.Errorf("%s is %+v", name, e)
		}
	}
	has(t, found["web $pageview"].Properties, map[string]any{"utm_source": "mail"})
	has(t, found["analytics.js $pageview"].Properties, map[string]any{"utm_source": "mail", "category": "Docs", "name": "Home"})
	has(t, found["analytics.js segment bought"].Properties, map[string]any{"$groups": map[string]any{"group": "acme"}})
	for _, user := range []string{"posthog-browser", "segment-browser"} {
		var p struct {
			Distinct   []string `json:"distinct_ids"`
			Properties map[string]any
		}
		if err := json.Unmarshal(in.Ask("person", "show", user, "--project", "shop", "--json"), &p); err != nil {
			t.Fatal(err)
		}
		if len(p.Distinct) != 2 || p.Properties["plan"] != "pro" {
			t.Errorf("%s is %+v; want the plan pro, and the browser's anonymous id merged", user, p)
		}
	}
}
