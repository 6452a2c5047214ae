package console_test

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
)

// TestPagesNameTheirTopics holds that script is told which stream says when figures are others.
func TestPagesNameTheirTopics(t *testing.T) {
	w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Base = "/tide" })
	w.fill("")
	for path, want := range map[string]string{"/console/": `data-stream="/tide/api/v1/stream" data-topics="overview"`, "/console/queues/q": `data-stream="/tide/api/v1/stream" data-topics="queue:q"`,
		"/console/live": `data-topics="live"`, "/console/live?type=a+b&system=crm": `data-topics="live:system=crm&amp;type=a&#43;b"`} {
		if page := w.Page(path); !strings.Contains(page, want) {
			t.Errorf("%s has no %s", path, want)
		}
	}
	if strings.Contains(w.Page("/console/dead"), "data-stream") {
		t.Error("a list that stands still has a stream")
	}
	w.Who = caller.Caller{}
	if rec := w.Ask("GET", "/console/", nil); strings.Contains(rec.Body.String(), "data-stream") {
		t.Error("nobody is told of a stream")
	}
}
