package console_test

import (
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/console"
	"golang.org/x/net/html"
)

// hostile is a text that would run, or end what it stands in, wherever it was written as it is.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}${alert(1)}javascript:alert(1)//` + "`"

// TestHostileTextIsText puts a text into every field that senders and partners fill, and reads all
// pages as a browser does: no element, no attribute and no address is made of it.
func TestHostileTextIsText(t *testing.T) {
	w := newWorld(t)
	w.fill(hostile)
	seen := 0
	for _, path := range everyPage(hostile) {
		page := w.page(path)
		if strings.Contains(text(page), "<script>alert(1)") {
			seen++
		}
		doc, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			if n.Data == "img" || n.Data == "iframe" || n.Data == "object" || n.Data == "embed" || n.Data == "style" || n.Data == "base" {
				t.Errorf("%s has an element %s", path, n.Data)
			}
			for _, a := range n.Attr {
				value := strings.ToLower(strings.TrimSpace(a.Val))
				switch {
				case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
					t.Errorf("%s: %s has the attribute %s", path, n.Data, a.Key)
				case (a.Key == "href" || a.Key == "src" || a.Key == "action" || a.Key == "formaction") && !strings.HasPrefix(value, "/console/") && !strings.HasPrefix(value, "#"):
					t.Errorf("%s: %s=%q leads out of the console", path, a.Key, a.Val)
				case n.Data == "script" && a.Key != "src" && a.Key != "defer":
					t.Errorf("%s has a script with %s", path, a.Key)
				}
			}
			if n.Data == "script" && n.FirstChild != nil {
				t.Errorf("%s has a script in the page: %q", path, n.FirstChild.Data)
			}
		}
	}
	if seen < 8 {
		t.Errorf("the text is on %d pages: this test looks at too few", seen)
	}
}

func TestEveryAnswerIsProtected(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, path := range append(everyPage(""), "/console/nowhere", "/console/dead/delivery/77", "/console/queues/none") {
		h := w.ask("GET", path, nil).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types console",
			"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	h := w.ask("GET", "/console/dead/delivery/1/payload", nil).Header()
	if h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Security-Policy") != "sandbox" || h.Get("Content-Disposition") != `attachment; filename="payload-d1.bin"` {
		t.Errorf("a payload is downloaded with %v", h)
	}
	at := regexp.MustCompile(`/console/assets/[0-9a-f]{16}/console\.css`).FindString(w.page("/console/"))
	if h := w.ask("GET", at, nil).Header(); h.Get("Cache-Control") != "public, max-age=31536000, immutable" || h.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%s has %v", at, h)
	}
	if rec := w.ask("GET", strings.Replace(at, "console.css", "../console.go", 1), nil); rec.Code != http.StatusNotFound {
		t.Errorf("what is no asset is answered %d", rec.Code)
	}
}

// TestOtherSitesChangeNothing sends every form as a page of another site would.
func TestOtherSitesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	paths := []string{"/console/queues/q/pause", "/console/queues/q/settings", "/console/queues/q/remove?all=true&state=waiting", "/console/queues/q/edit?id=e3", "/console/dead/delete?all=true", "/console/dead/replay?all=true", "/console/dead/delivery/1/edit", "/console/me"}
	for _, path := range paths {
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "cross-site", "Origin", "http://console.example"},
			{"Sec-Fetch-Site", ""}, {"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"},
		} {
			if rec := w.ask("POST", path, url.Values{"zone": {"UTC"}, "payload": {"{}"}}, headers...); rec.Code != http.StatusForbidden {
				t.Errorf("%s with %q is answered %d, want 403", path, headers, rec.Code)
			}
		}
	}
	if s, _ := w.queues.Settings(t.Context(), "q"); s.Paused || len(w.letters()) != 3 {
		t.Error("something was changed")
	}
	if rec := w.ask("POST", "/console/queues/q/pause", nil, "Sec-Fetch-Site", "", "Origin", "http://console.example"); rec.Code != http.StatusSeeOther {
		t.Errorf("a browser that sends its origin alone is answered %d", rec.Code)
	}
}

// TestGETChangesNothing asks for every action as a link does.
func TestGETChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	before, _ := w.queues.Stats(t.Context(), "q")
	for _, path := range []string{"pause", "drain", "remove?all=true", "clean?all=true", "retry?all=true", "promote?all=true"} {
		w.page("/console/queues/q/" + path)
	}
	w.page("/console/dead/delete?all=true")
	w.page("/console/dead/replay?all=true")
	after, _ := w.queues.Stats(t.Context(), "q")
	s, _ := w.queues.Settings(t.Context(), "q")
	if after.Waiting != before.Waiting || after.Delayed != before.Delayed || after.Failed != before.Failed || s.Paused || s.Closed || len(w.letters()) != 3 {
		t.Errorf("a GET changed something: %+v, then %+v", before, after)
	}
}

// TestWhereItGoesBackToIsHere holds that no address leads a form elsewhere.
func TestWhereItGoesBackToIsHere(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, back := range []string{"//evil.example/console/", "https://evil.example/", "/console/..//evil.example", `/console/\evil.example`, "javascript:alert(1)", "/api/v1/status"} {
		at := "/console/queues/q/pause?back=" + url.QueryEscape(back)
		if to := w.confirm(at, nil); !strings.HasPrefix(to, "/console/queues/q?") {
			t.Errorf("back=%s leads to %s", back, to)
		}
	}
	if to := w.confirm("/console/queues/q/pause?back=/console/queues", nil); to != "/console/queues?done=paused" {
		t.Errorf("it goes back to %s", to)
	}
}

// TestAProxyMayHaveAPathBefore holds that every address of a page begins with console.base.
func TestAProxyMayHaveAPathBefore(t *testing.T) {
	w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Base = "/tide" })
	w.fill(`="/console/`)
	for _, path := range everyPage(`="/console/`) {
		page := w.page(path)
		if found := regexp.MustCompile(`(href|src|action|formaction)="/(console[^"]*)"`).FindString(page); found != "" {
			t.Errorf("%s has %s", path, found)
		}
		if n := strings.Count(text(page), "/tide/console"); n > 0 {
			t.Errorf("%s shows text with the path of the proxy", path)
		}
	}
	for back, want := range map[string]string{"/tide/console/queues": "/tide/console/queues?done=paused", "": "/tide/console/queues/q?done=paused"} {
		if to := w.confirm("/console/queues/q/pause?back="+url.QueryEscape(back), nil); to != want {
			t.Errorf("back=%s leads to %s, want %s", back, to, want)
		}
	}
}

// TestNothingIsMarkedAsHTML looks at the sources: data becomes part of a page by the template engine
// alone, and script reads HTML in one place.
func TestNothingIsMarkedAsHTML(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	marks := regexp.MustCompile(`\btemplate\.(HTML|HTMLAttr|CSS|JS|JSStr|URL|Srcset)\b`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if found := marks.Find(b); found != nil {
			t.Errorf("%s has %s: data would be taken for a part of the page", name, found)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, b, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"text/template"` {
				t.Errorf("%s imports text/template, which escapes nothing", name)
			}
		}
	}
	js, err := os.ReadFile(filepath.Join("assets", "console.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setTimeout('", "createContextualFragment", "setHTMLUnsafe"} {
		if strings.Contains(string(js), word) {
			t.Errorf("console.js has %s", word)
		}
	}
	if n := strings.Count(string(js), "parseFromString"); n != 1 {
		t.Errorf("console.js reads HTML in %d places, want one", n)
	}
	pages, err := filepath.Glob("templates/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	for _, name := range pages {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|https?://`).Find(b); found != nil {
			t.Errorf("%s has %s", name, found)
		}
	}
}
