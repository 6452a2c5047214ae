package console_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/consoletest"
)

// TestALinkToWhatIsSeenHasItsTimesFixed holds that the link of a page with an age in its filter shows the same later.
func TestALinkToWhatIsSeenHasItsTimesFixed(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	link := func(path string) string {
		said, _, is := strings.Cut(w.Page(path), `">Link to this, with its times fixed`)
		if !is {
			return ""
		}
		return consoletest.Unescape.Replace(said[strings.LastIndexByte(said, '"')+1:])
	}
	for path, want := range map[string]time.Duration{"/console/dead?since=24h&reason=partner_error": 24 * time.Hour, "/console/audit?since=7d": 7 * 24 * time.Hour} {
		u, err := url.Parse(link(path))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		since, err := time.Parse(time.RFC3339, q.Get("since"))
		until, other := time.Parse(time.RFC3339, q.Get("until"))
		if err != nil || other != nil || until.Sub(since) != want || time.Since(until) > time.Minute || !strings.HasSuffix(q.Get("since"), "Z") || q.Get("reason") != map[bool]string{true: "partner_error"}[strings.Contains(path, "reason")] {
			t.Errorf("the link of %s is %s", path, u)
		}
		w.Page(u.String())
		if again := link(u.String()); again != "" {
			t.Errorf("what is fixed is fixed again: %s", again)
		}
	}
	for _, path := range []string{"/console/dead", "/console/dead?since=2026-01-31", "/console/dead?since=2026-01-31T00:00:00Z"} {
		if at := link(path); at != "" {
			t.Errorf("%s has the link %s", path, at)
		}
	}
}

// TestARequestIsFound holds that the box finds what the audit trail has of the id of a request.
func TestARequestIsFound(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.changed("pauseQueue", "q")
	rec := w.Ask("GET", "/console/find?q=req-q", nil)
	at := rec.Header().Get("Location")
	if rec.Code != 303 || !strings.HasPrefix(at, "/console/audit?operation=pauseQueue&since=") {
		t.Fatalf("it is answered %d, %s: %s", rec.Code, at, consoletest.Text(rec.Body.String()))
	}
	if said := w.Page(at); !strings.Contains(said, "req-q") || strings.Count(said, `<tr id="e`) != 1 {
		t.Errorf("it leads to %s", consoletest.Text(said))
	}
	w.Has(w.Page("/console/find?q=req-none"), "Nothing is called req-none here.", "requests, in the newest 2000 entries of the audit trail")
	w.Who.Rights = caller.All(caller.Viewer)
	w.Has(w.Page("/console/find?q=req-q"), "requests: the audit trail is for admins")
}
