package consoletest

import (
	"bytes"
	"compress/gzip"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tidemill/tidemill/serve/caller"
)

// Stage is pages with everything that they can show.
type Stage struct {
	// Open is a console at a path of a proxy. Every field that senders, partners and people fill has a
	// text in it.
	Open func(t *testing.T, said, base string) *Browser

	Pages   func(said string) []string // addresses, of all pages
	Forms   []string                   // addresses of actions, where the text is empty
	Lists   []string                   // addresses of lists
	Fill    func(b *Browser)           // has each list show at least 50 rows, of a console whose text is empty
	Seen    int                        // how many pages show the text at least
	Viewers []string                   // addresses of actions that viewers may not do
}

// Hostile is a text that would run, or end what it stands in, wherever it was written as it is.
const Hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}${alert(1)}javascript:alert(1)//` + "`"

// Holds checks what is true of all pages.
func Holds(t *testing.T, s Stage) {
	t.Run("every page is there", s.there)
	t.Run("hostile text is text", s.hostile)
	t.Run("every answer is protected", s.protected)
	t.Run("other sites change nothing", s.others)
	t.Run("a proxy may have a path before", s.behind)
	t.Run("lists are small", s.small)
	t.Run("roles do what they may", s.refused)
	t.Run("nothing is marked as HTML", func(t *testing.T) { Marked(t, ".") })
}

func (s Stage) there(t *testing.T) {
	b := s.Open(t, "", "")
	for _, path := range s.Pages("") {
		page := b.Page(path)
		Silent(t, path, page)
		for _, want := range []string{"<!doctype html>", `<html lang="en">`, `<main id="main"`, `href="#main"`, "</html>"} {
			if strings.Count(page, want) != 1 {
				t.Errorf("%s has %s %d times, want once", path, want, strings.Count(page, want))
			}
		}
		if n := strings.Count(page, "<h1"); n != 1 {
			t.Errorf("%s has %d headings of the first level, want one", path, n)
		}
		if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "<no value>") {
			t.Errorf("%s has a value that the template could not write", path)
		}
	}
}

// hostile reads all pages as a browser does: no element, no attribute and no address is made of the
// text.
func (s Stage) hostile(t *testing.T) {
	b := s.Open(t, Hostile, "")
	seen := 0
	for _, path := range s.Pages(Hostile) {
		page := b.Page(path)
		if strings.Contains(Text(page), "<script>alert(1)") {
			seen++
		}
		doc, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode {
				element(t, path, n)
			}
		}
	}
	if seen < s.Seen {
		t.Errorf("the text is on %d pages, want %d: this test looks at too few", seen, s.Seen)
	}
}

// element checks that an element is one of the console's own.
func element(t *testing.T, path string, n *html.Node) {
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

// Silent checks that nothing in a part of a page that is renewed speaks by itself: readers would hear it each time.
func Silent(t *testing.T, path, page string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if attribute(n, "role") != "alert" && attribute(n, "role") != "status" && attribute(n, "aria-live") == "" {
			continue
		}
		for p := range n.Ancestors() {
			if part := attribute(p, "data-part"); part != "" {
				t.Errorf("%s: %s of the part %s speaks at each renewal", path, n.Data, part)
			}
		}
	}
}

// attribute is what an element has of that name; empty: it has none.
func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (s Stage) protected(t *testing.T) {
	b := s.Open(t, "", "")
	for _, path := range append(s.Pages(""), "/console/nowhere") {
		h := b.Ask(http.MethodGet, path, nil).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types console",
			"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

// others sends every form as a page of another site would.
func (s Stage) others(t *testing.T) {
	b := s.Open(t, "", "")
	for _, path := range s.Forms {
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "cross-site", "Origin", "http://console.example"},
			{"Sec-Fetch-Site", ""}, {"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"},
		} {
			if rec := b.Ask(http.MethodPost, path, url.Values{"zone": {"UTC"}, "payload": {"{}"}}, headers...); rec.Code != http.StatusForbidden {
				t.Errorf("%s with %q is answered %d, want 403", path, headers, rec.Code)
			}
		}
	}
}

// behind holds that every address of a page begins with console.base.
func (s Stage) behind(t *testing.T) {
	const said = `="/console/`
	b := s.Open(t, said, "/tide")
	for _, path := range s.Pages(said) {
		page := b.Page(path)
		if found := regexp.MustCompile(`(href|src|action|formaction)="/(console[^"]*)"`).FindString(page); found != "" {
			t.Errorf("%s has %s", path, found)
		}
		if n := strings.Count(Text(page), "/tide/console"); n > 0 {
			t.Errorf("%s shows text with the path of the proxy", path)
		}
	}
}

// MostOfAList is how many bytes a list of 50 rows has, zipped.
const MostOfAList = 15 << 10

// Zipped is how many bytes something has when it is sent.
func Zipped(b []byte) int {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // into memory
	_ = z.Close()
	return out.Len()
}

func (s Stage) small(t *testing.T) {
	if len(s.Lists) == 0 {
		return
	}
	b := s.Open(t, "", "")
	s.Fill(b)
	for _, path := range s.Lists {
		page := b.Page(path)
		if n := strings.Count(page, "<tr>"); n < 50 {
			t.Fatalf("%s has %d rows", path, n)
		}
		if n := Zipped([]byte(page)); n > MostOfAList {
			t.Errorf("%s has %d bytes zipped, want at most %d", path, n, MostOfAList)
		}
	}
}

func (s Stage) refused(t *testing.T) {
	b := s.Open(t, "", "")
	b.Who.Rights = caller.All(caller.Viewer)
	for _, path := range s.Viewers {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if rec := b.Ask(method, path, url.Values{"key": {"k"}}); rec.Code != http.StatusForbidden {
				t.Errorf("%s %s as viewer is answered %d, want 403", method, path, rec.Code)
			}
		}
	}
	b.Who = caller.Caller{}
	for _, path := range s.Pages("") {
		if rec := b.Ask(http.MethodGet, path, nil); rec.Code != http.StatusUnauthorized {
			t.Errorf("%s is shown to nobody: %d", path, rec.Code)
		}
	}
}

// Marked looks at the sources in a folder: data becomes part of a page by the template engine, and by
// the files that are named, alone.
func Marked(t *testing.T, dir string, by ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	marks := regexp.MustCompile(`\btemplate\.(HTML|HTMLAttr|CSS|JS|JSStr|URL|Srcset)\(`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := marks.Find(b); found != nil && !slices.Contains(by, filepath.Base(name)) {
			t.Errorf("%s has %s…: data would be taken for a part of the page", name, found)
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
	pages, err := filepath.Glob(filepath.Join(dir, "templates", "*.html"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
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
