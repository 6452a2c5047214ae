package admin_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

func TestEachAnswerOfWhatGoesAwaySaysSo(t *testing.T) {
	old := operation.GoingAway(operation.View[operation.None, map[string]string]("showOld", "old", "Show it."), "2027-01-31", "2027-07-31", "Use showNew.")
	stays := operation.View[operation.None, map[string]string]("showNew", "new", "Show it.")
	show := func(context.Context, *operation.None) (map[string]string, error) { return map[string]string{}, nil }
	handlers := map[string]operation.Handler{"old": old.By(show), "new": stays.By(show)}
	d := newDesk(t, admin.Parts{Rooms: []admin.Room{{Does: []operation.Handler{handlers["old"], handlers["new"]}}}})
	for role, status := range map[caller.Role]int{caller.Nobody: http.StatusUnauthorized, caller.Viewer: http.StatusForbidden, caller.Admin: http.StatusOK} {
		for path, want := range map[string][3]string{
			"old": {"@1801353600", "Sat, 31 Jul 2027 00:00:00 GMT", `</console/reference/showOld>; rel="deprecation"; type="text/html"`},
			"new": {},
		} {
			w := requested(d, handlers[path], caller.All(role))
			h := w.Header()
			if got := [3]string{h.Get("Deprecation"), h.Get("Sunset"), h.Get("Link")}; got != want || w.Code != status {
				t.Errorf("%s as %v is answered %d with %q, want %d with %q", path, role, w.Code, got, status, want)
			}
		}
	}
}
