package cli

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	state "github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
)

func TestDescriptionsAreChangedByCommands(t *testing.T) {
	s := newSession(t)
	var asked []admin.DescriptionChange
	others := tableinstance.Memory(nil)
	ads := api.Description{Kind: "partner", Name: "ads", From: "the database", ETag: "7", By: "ann\x1b[2J", Changed: &day, Is: []byte(`{"endpoint":"https://ads.example/\u001b"}`)}
	version := uint64(1)
	s.serve(admin.Parts{NoAuth: true, Common: &answer.Common{}, This: admin.This{ID: "one", Host: "here", Store: others, Described: func() state.Described { return state.Described{Applied: 9, Tried: 9} }},
		Described: func() ([]api.Description, error) {
			return []api.Description{{Kind: "site", Name: "shop", From: "tidemill.yaml:3", Is: []byte(`{"id":"shop"}`)}, ads, {Kind: "handler", Name: "city", From: "the database", ETag: "2", By: "bob", Changed: &day, Is: []byte(`{}`)}}, nil
		},
		Describe: func(_ context.Context, c *admin.DescriptionChange) (*admin.DescriptionDone, error) {
			if c.IfMatch != "" && c.IfMatch != "7" {
				return nil, operation.Refuse(http.StatusPreconditionFailed, "it was changed")
			}
			asked = append(asked, *c)
			d := ads
			d.Kind, d.Name = c.Kind, c.Name
			return &admin.DescriptionDone{System: "delivery", Version: version, Before: &d, After: &d, Changes: []api.SettingChange{{Setting: "delivery.partners[ads].timeout", What: "changed", After: "5s\x1b"}}}, nil
		}})
	s.types("site list", `
NAME  FROM             CHANGED  BY
shop  tidemill.yaml:3  -`)
	s.types("handler list", `
NAME  FROM          CHANGED               BY
city  the database  2026-03-01T12:00:00Z  bob`)
	s.types("site show shop", `
# from tidemill.yaml:3
id: shop`)
	s.types("handler show city", `
# from the database, changed by bob at 2026-03-01T12:00:00Z (etag 2)
{}`)
	s.fails("site show none", "there is no site none in force")

	file := filepath.Join(t.TempDir(), "ads.yaml")
	if err := os.WriteFile(file, []byte("endpoint: https://ads.example/\nauth: {type: bearer}\ntimeout: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const changed = `
The partner ads is added.
Changed:
  ~ delivery.partners[ads].timeout: (empty) -> 5s<U+001B>`
	s.types("partner add ads "+file+" --set timeout=5s --set auth.credentials=ADS --set sites=[shop,blog] --set atOnce=3", changed)
	s.types("partner change ads --set timeout=null --if-match 7 --check", `
The partner ads is not changed, only checked.
It would change:
  ~ delivery.partners[ads].timeout: (empty) -> 5s<U+001B>`)
	s.types("site remove blog", `
The site blog is removed.
Changed:
  ~ delivery.partners[ads].timeout: (empty) -> 5s<U+001B>`)
	s.fails("handler change city --set many=3 --if-match 8", "it was changed")
	if len(asked) != 3 {
		t.Fatalf("asked for %+v", asked)
	}
	if a := asked[0]; !a.Add || a.Kind != "partner" || a.Name != "ads" || string(a.Patch) != `{"atOnce":3,"auth":{"credentials":"ADS","type":"bearer"},"endpoint":"https://ads.example/","sites":["shop","blog"],"timeout":"5s"}` {
		t.Errorf("added %+v: %s", a, a.Patch)
	}
	if a := asked[1]; a.Add || !a.Check || a.IfMatch != "7" || string(a.Patch) != `{"timeout":null}` {
		t.Errorf("changed %+v: %s", a, a.Patch)
	}
	if a := asked[2]; !a.Remove || a.Kind != "site" || a.Name != "blog" {
		t.Errorf("removed %+v", a)
	}

	if err := others.Beat(t.Context(), state.Instance{ID: "two", Host: "there\x1b", Systems: []string{"delivery"}, Described: state.Described{Applied: 1, Tried: 8, Refused: "no variable"}}); err != nil {
		t.Fatal(err)
	}
	version = 8
	s.fails("partner remove ads", `not in force in all instances:
  there<U+001B> (two) refuses it, and goes on as before: no variable`)
	for line, want := range map[string]string{"partner add ads": "a file, or --set", "site add ads --set timeout": "NAME=VALUE"} {
		if status, _, errs := s.run(t.Context(), "", line); status != 2 {
			t.Errorf("%s: exit status %d: %s, want %s", line, status, errs, want)
		}
	}
	if status, out, errs := s.run(t.Context(), "", "config show --running"); status != 0 || !strings.Contains(out, "\nlisten: ") {
		t.Errorf("exit status %d: %s%s", status, out, errs)
	}
}
