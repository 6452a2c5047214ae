package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/consoletest"
)

// TestAPageTakesItsMethodsOnly holds that another method is told which there are.
func TestAPageTakesItsMethodsOnly(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for path, allow := range map[string]string{"/console/": "GET, HEAD", "/console/dead/delivery/1": "GET, HEAD", "/console/queues/q/pause": "GET, HEAD, POST", "/console/me": "GET, HEAD, POST", "/console/logout": "POST"} {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS"} {
			rec := w.Ask(method, path, nil)
			if text := consoletest.Text(rec.Body.String()); rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != allow || !strings.Contains(text, path+" takes no "+method) {
				t.Errorf("%s %s is answered %d, %q: %s", method, path, rec.Code, rec.Header().Get("Allow"), text)
			}
		}
	}
	if rec := w.Ask("PUT", "/console/none", nil); rec.Code != http.StatusNotFound || rec.Header().Get("Allow") != "" {
		t.Errorf("a page that there is not is answered %d, %v", rec.Code, rec.Header())
	}
}

// TestWhatSomebodyOfOneSystemMayNotNamesTheRight holds that a refusal says which role is missing, and for
// what.
func TestWhatSomebodyOfOneSystemMayNotNamesTheRight(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Who.Rights = caller.For(caller.Viewer, "crm")
	for path, want := range map[string]string{
		"/console/health":           "Health needs the role viewer for all systems, and ada has the role viewer:crm",
		"/console/audit":            "The audit trail needs the role admin for all systems, and ada has the role viewer:crm",
		"/console/queues/q/pause":   "pauseQueue needs the role operator for the system of what it concerns, and ada has the role viewer:crm",
		"/console/windows/search":   "Searching needs the role operator for windows, and ada has the role viewer:crm",
		"/console/partners/a/close": "closeCircuit needs the role operator for delivery, and ada has the role viewer:crm",
	} {
		rec := w.Ask("GET", path, nil)
		if text := consoletest.Text(rec.Body.String()); rec.Code != http.StatusForbidden || !strings.Contains(text, want) {
			t.Errorf("%s is answered %d: %s", path, rec.Code, text)
		}
	}
}
