package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

func TestViewsAreSavedListedChangedAndRemoved(t *testing.T) {
	s := newSession(t)
	s.types("view list", "No saved views: `tidemill view save NAME ADDRESS` saves one.")
	s.types("view save Refused /console/dead?since=24h", "Saved Refused as 1, for you: /console/dead?since=24h")
	s.types("view save Jobs https://ops.example/tide/console/queues/q/jobs?state=failed --shared", "Saved Jobs as 2, for everybody: /console/queues/q/jobs?state=failed")
	s.types("view save Late /console/dead?since=7d --shared --id 1", "Saved Late as 1, for everybody: /console/dead?since=7d")
	s.types("view list", `
~ID +NAME +SEEN BY +SAVED BY +SAVED +ADDRESS
~1 +Late +everybody +local +\S+ +/console/dead\?since=7d
~2 +Jobs +everybody +local +\S+ +/console/queues/q/jobs\?state=failed`)
	s.types("view list --json", `
~\{"id":"1","name":"Late","address":"/console/dead\?since=7d","owner":"local","shared":true,"made_at":".*","etag":".*"\}
~\{"id":"2","name":"Jobs",.*\}`)
	s.types("view remove 1", "Removed Late.")
	for line, want := range map[string]string{"view remove 1": "there is no such view", "view save Jobs /console/": "of that name already", "view save x /api/v1/me": "want that of a page, as /console/dead?state=held", "view save x /console/ --id 99": "there is no such view"} {
		if status, out, errs := s.run(s.Context(), "", line); status != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s ends %d with %q, %q; want %q", line, status, out, errs, want)
		}
	}
}

func TestViewsAreSavedInDataThatNoInstanceUses(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlitedb.Open(t.Context(), system.DatabasePath(filepath.Join(dir, "d")), sqlitedb.Options{Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ want, line string }{{"Saved Late as 1, for everybody", "view save Late /console/dead --shared --data d"}, {"Late", "view list --data d"}, {"Removed Late.", "view remove 1 --data d"}} {
		if out := must(t, dir, strings.Fields(c.line)...); !strings.Contains(out, c.want) {
			t.Errorf("%s prints %q", c.line, out)
		}
	}
}
