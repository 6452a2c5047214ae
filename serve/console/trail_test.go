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
	w.has(w.page("/console/audit"), "Nobody has changed anything yet.")
	w.fill("")
	w.confirm("/console/queues/q/pause", nil)
	w.confirm("/console/dead/delivery/1/edit", map[string][]string{"payload": {"{}"}})
	w.has(w.page("/console/audit"), "ada", "pauseQueue", "editDead", "done", "eve", "refused 403 no", "Parameters x=", `"paused": true`, "3 shown; these are all that match.")
	if page := w.page("/console/audit?who=eve"); strings.Contains(page, "editDead") {
		t.Error("a filter leaves others in")
	}
	w.has(w.page("/console/audit?who=nobody"), "Nothing matches these filters.", "who = nobody")
	w.has(w.page("/console/audit?check=yes"), "The trail is whole. 3 entries")
	w.has(w.page("/console/queues/q"), "Last changes", "ada: pauseQueue", "All of it")
	w.has(w.page("/console/dead/delivery/1"), "Last changes", "ada: editDead")
	w.has(w.page("/console/"), "Last changes", "ada: pauseQueue q")
	w.has(w.page("/console/dead/delivery/2"), "Nobody changed it.")
	w.who.Role = caller.Viewer
	if rec := w.ask("GET", "/console/audit", nil); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer is answered %d", rec.Code)
	}
	page := w.page("/console/queues/q")
	if w.has(page, "ada: pauseQueue"); strings.Contains(page, "/console/audit") {
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
	first := w.page("/console/audit?limit=25")
	w.has(first, "op59", "op35")
	second := w.page(w.turned(first, "next"))
	if w.has(second, "op34", "op10"); strings.Contains(second, "op35") || strings.Contains(second, "op09") {
		t.Error("the second page has what others have")
	}
	w.has(w.page(w.turned(second, "prev")), "op59", "op35")
}
