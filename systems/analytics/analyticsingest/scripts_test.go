package analyticsingest

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemill/tidemill/serve/request"
)

// packages is a node_modules folder with the files of both libraries.
func packages(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"posthog-js/dist/array.js": "posthog()", "posthog-js/dist/surveys.js": "surveys()", "posthog-js/package.json": "{}", "posthog-js/dist/array.d.ts": "types",
		"@segment/analytics-next/dist/umd/standalone.js": "segment()", "@segment/analytics-next/dist/umd/407.bundle.61efa1acb302134c434b.js": "bundle()",
		"secret.js": "secret()",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// get asks for a path.
func get(h http.Handler, path string, head header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for name, value := range head {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestScriptsOfABrowser(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.Scripts = packages(t) })
	for path, body := range map[string]string{
		"/static/array.js": "posthog()", "/static/surveys.js?v=1.449.2": "surveys()", "/static/1.449.2/array.js": "posthog()",
		"/analytics.js/v1/" + goodKey + "/analytics.min.js": "segment()", "/analytics-next/bundles/407.bundle.61efa1acb302134c434b.js": "bundle()",
	} {
		w := get(d.Handler, path, header{"Origin": "https://shop.example"})
		if h := w.Header(); w.Code != 200 || w.Body.String() != body || h.Get("Content-Type") != "text/javascript; charset=utf-8" ||
			h.Get("Access-Control-Allow-Origin") != "https://shop.example" || h.Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s: %d %q %v", path, w.Code, w.Body, h)
		}
		if again := get(d.Handler, path, header{"If-Modified-Since": w.Header().Get("Last-Modified")}); again.Code != 304 {
			t.Errorf("%s: asked again it is answered %d", path, again.Code)
		}
		packed := get(d.Handler, path, header{"Accept-Encoding": "gzip, br"})
		r, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if plain, err := io.ReadAll(r); err != nil || string(plain) != body || packed.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: inflated it is %q (%v)", path, plain, err)
		}
	}
	for _, path := range []string{"/static/nothing.js", "/static/array.d.ts", "/static/%2e%2e%2fpackage.json", "/static/..%2f..%2f..%2fsecret.js", "/static/../../secret.js",
		"/static/%2e%2e/secret.js", "/analytics-next/bundles/..%2f..%2f..%2f..%2f..%2fsecret.js", "/static/"} {
		if w := get(d.Handler, path, nil); w.Code != 404 {
			t.Errorf("%s: %d %q, want 404", path, w.Code, w.Body)
		}
	}
	if w := get(newTestIngest(t).Handler, "/static/array.js", nil); w.Code != 404 || !json.Valid(w.Body.Bytes()) {
		t.Errorf("without a folder: %d %q", w.Code, w.Body)
	}
}

func TestAFolderWithoutScriptsIsRefused(t *testing.T) {
	for _, folder := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nothing")} {
		if _, err := openScripts(folder); err == nil {
			t.Errorf("%s was taken", folder)
		}
	}
}

func TestSettingsOfAnalyticsJS(t *testing.T) {
	d := newTestIngest(t, func(o *Options) { o.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	for proto, want := range map[string]string{"": "http", "https": "https"} {
		w := get(d.Handler, "http://events.example:8080/v1/projects/"+goodKey+"/settings", header{"X-Forwarded-Proto": proto, "Origin": "https://shop.example"})
		var got struct {
			Integrations map[string]struct{ APIKey, APIHost, Protocol string }
		}
		err := json.Unmarshal(w.Body.Bytes(), &got)
		if s := got.Integrations["Segment.io"]; err != nil || w.Code != 200 || s.APIKey != goodKey || s.APIHost != "events.example:8080/v1" || s.Protocol != want || len(got.Integrations) != 1 {
			t.Errorf("%d %s (%v)", w.Code, w.Body, err)
		}
	}
	if w := get(d.Handler, "/v1/projects/%C3%A9/settings", nil); w.Code != 400 {
		t.Errorf("no key: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if r.Header.Set("X-Forwarded-Proto", "https"); request.HTTPS(r, nil) {
		t.Error("a proxy that is not trusted was believed")
	}
}
