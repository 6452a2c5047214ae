package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/trail"
)

func TestTheTrailSaysWhoDidWhat(t *testing.T) {
	w := newWorld(t)
	w.Has(w.Page("/console/audit"), "Nobody has changed anything yet.")
	w.fill("")
	w.Confirm("/console/queues/q/pause", nil)
	w.Confirm("/console/dead/delivery/1/edit", map[string][]string{"payload": {"{}"}})
	w.Has(w.Page("/console/audit"), "ada", "pauseQueue", "editDead", "done", "eve", "refused 403 no", "Parameters x=", `"paused": true`, "3 shown; these are all that match.")
	if page := w.Page("/console/audit?who=eve"); strings.Contains(page, "editDead") {
		t.Error("a filter leaves others in")
	}
	w.Has(w.Page("/console/audit?who=nobody"), "Nothing matches these filters.", "who = nobody")
	w.Has(w.Page("/console/audit?check=yes"), "The trail is whole. 3 entries")
	w.Has(w.Page("/console/queues/q"), "Last changes", "ada: pauseQueue", "All of it")
	w.Has(w.Page("/console/dead/delivery/1"), "Last changes", "ada: editDead")
	w.Has(w.Page("/console/"), "Last changes", "ada: pauseQueue q")
	w.Has(w.Page("/console/dead/delivery/2"), "Nobody changed it.")
	w.Who.Rights = caller.All(caller.Viewer)
	if rec := w.Ask("GET", "/console/audit", nil); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer is answered %d", rec.Code)
	}
	page := w.Page("/console/queues/q")
	if w.Has(page, "ada: pauseQueue"); strings.Contains(page, "/console/audit") {
		t.Error("a viewer is led to the whole trail")
	}
}

func TestTheTrailIsTurnedBothWays(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		if _, err := w.trail.Begin(t.Context(), trail.Entry{At: time.Now(), Who: "ada", Operation: fmt.Sprintf("op%02d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	first := w.Page("/console/audit?limit=25")
	w.Has(first, "op59", "op35")
	second := w.Page(w.Turned(first, "next"))
	if w.Has(second, "op34", "op10"); strings.Contains(second, "op35") || strings.Contains(second, "op09") {
		t.Error("the second page has what others have")
	}
	w.Has(w.Page(w.Turned(second, "prev")), "op59", "op35")
}
