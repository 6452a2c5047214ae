package console_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
)

func TestWhatHoldsOfAllPages(t *testing.T) {
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Base = base })
			w.fill(said)
			return w.Browser
		},
		Pages: everyPage, Seen: 8,
		Forms:   []string{"/console/queues/q/pause", "/console/queues/q/settings", "/console/owners/limit?owner=shop&queue=q", "/console/queues/q/settings/back", "/console/queues/q/remove?all=true&state=waiting", "/console/queues/q/edit?id=e3", "/console/dead/delete?all=true", "/console/dead/replay?all=true", "/console/dead/delivery/1/edit", "/console/me", "/console/views/save", "/console/views/1/change", "/console/views/1/remove"},
		Viewers: []string{"/console/dead/delete?all=true", "/console/queues/q/pause", "/console/queues/q/settings"},
	})
}

func TestFilesAreProtected(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	h := w.Ask("GET", "/console/dead/delivery/1/payload", nil).Header()
	if h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Security-Policy") != "sandbox" || h.Get("Content-Disposition") != `attachment; filename="payload-1.bin"` {
		t.Errorf("a payload is downloaded with %v", h)
	}
	at := regexp.MustCompile(`/console/assets/[0-9a-f]{16}/console\.css`).FindString(w.Page("/console/"))
	if h := w.Ask("GET", at, nil).Header(); h.Get("Cache-Control") != "public, max-age=31536000, immutable" || h.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%s has %v", at, h)
	}
	if rec := w.Ask("GET", strings.Replace(at, "console.css", "../console.go", 1), nil); rec.Code != http.StatusNotFound {
		t.Errorf("what is no asset is answered %d", rec.Code)
	}
}

func TestABrowserThatSendsItsOriginAloneIsHeard(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	if rec := w.Ask("POST", "/console/queues/q/pause", nil, "Sec-Fetch-Site", "cross-site"); rec.Code != http.StatusForbidden {
		t.Errorf("another site is answered %d", rec.Code)
	}
	if s, err := w.queues.Settings(t.Context(), "q"); err != nil || s.Paused {
		t.Errorf("another site paused a queue: %v", err)
	}
	if rec := w.Ask("POST", "/console/queues/q/pause", nil, "Sec-Fetch-Site", "", "Origin", "http://console.example"); rec.Code != http.StatusSeeOther {
		t.Errorf("a browser that sends its origin alone is answered %d", rec.Code)
	}
}

// TestGETChangesNothing asks for every action as a link does.
func TestGETChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	before, _ := w.queues.Stats(t.Context(), "q")
	for _, path := range []string{"pause", "drain", "remove?all=true", "clean?all=true", "retry?all=true", "promote?all=true"} {
		w.Page("/console/queues/q/" + path)
	}
	w.Page("/console/dead/delete?all=true")
	w.Page("/console/dead/replay?all=true")
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
		if to := w.Confirm(at, nil); !strings.HasPrefix(to, "/console/queues/q?") {
			t.Errorf("back=%s leads to %s", back, to)
		}
	}
	if to := w.Confirm("/console/queues/q/pause?back=/console/queues", nil); to != "/console/queues?done=paused" {
		t.Errorf("it goes back to %s", to)
	}
}

// TestTheWayBackHasThePathOfTheProxy holds that a form goes back to an address with console.base.
func TestTheWayBackHasThePathOfTheProxy(t *testing.T) {
	w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Base = "/tide" })
	w.fill("")
	for back, want := range map[string]string{"/tide/console/queues": "/tide/console/queues?done=paused", "": "/tide/console/queues/q?done=paused"} {
		if to := w.Confirm("/console/queues/q/pause?back="+url.QueryEscape(back), nil); to != want {
			t.Errorf("back=%s leads to %s, want %s", back, to, want)
		}
	}
}

// TestScriptReadsHTMLInOnePlace looks at the script.
func TestScriptReadsHTMLInOnePlace(t *testing.T) {
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
}

// TestOnlyTablesAreMarkedAsHTML looks at the sources.
func TestOnlyTablesAreMarkedAsHTML(t *testing.T) {
	consoletest.Marked(t, "page", "table.go")
	consoletest.Marked(t, ".")
}
