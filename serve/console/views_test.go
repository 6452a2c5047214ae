package console_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/view"
)

// written fails unless a page has these, as they are written in HTML.
func written(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %s", part)
		}
	}
}

// saveAt is where a page leads who saves it; empty: nowhere.
func saveAt(page string) string {
	found := regexp.MustCompile(`<a href="(/console/views/save[^"]*)" data-asks>Save this view</a>`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

func TestAPageIsSavedUnderANameAndFound(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const at = "/console/dead?limit=25&pipeline=s2s.p&since=1h"
	save := saveAt(w.Page(at + "&done=paused"))
	if want := "/console/views/save?" + (url.Values{"address": {at}}).Encode(); save != want {
		t.Fatalf("it is saved at %s", save)
	}
	w.Has(w.Page(save), "Save a view", "It leads to "+at, "everybody", "tidemill view save NAME '"+at+"'")
	to := w.Confirm(save, url.Values{"name": {"Refused by p"}, "seen": {"everybody"}})
	if to != "/console/dead?done=view.saved&limit=25&pipeline=s2s.p&since=1h" {
		t.Errorf("then it goes on to %s", to)
	}
	w.Has(w.Page(to), "The view is saved.", "s2s.p")
	link := `href="/console/dead?limit=25&amp;pipeline=s2s.p&amp;since=1h"`
	for _, who := range []string{"ada", "bob"} {
		w.Who.Name = who
		for _, path := range []string{"/console/", "/console/views"} {
			if shown := w.Page(path); !strings.Contains(shown, link) || !strings.Contains(shown, "Refused by p") {
				t.Errorf("%s does not show %s the view", path, who)
			}
		}
	}
	if shown := w.Page("/console/views"); strings.Contains(shown, "/change") || !strings.Contains(shown, "/remove") {
		t.Error("an admin is to remove what others share, and not to change it")
	}
	w.Has(w.Page("/console/menu"), "Saved views")
}

func TestAFormOfAViewSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	save := saveAt(w.Page("/console/queues/q/jobs?state=failed"))
	w.Confirm(save, url.Values{"name": {"failed"}})
	for _, wrong := range []struct{ at, name, address, want string }{{save, "failed", "/console/", "of that name already"}, {"/console/views/save", "another", "https://evil.example/console/", "does not begin with /console/"}} {
		form := w.Form(wrong.at)
		form.Set("name", wrong.name)
		form.Set("address", wrong.address)
		rec := w.Ask("POST", wrong.at, form)
		w.Has(rec.Body.String(), wrong.want)
		if written(t, rec.Body.String(), `value="`+wrong.name+`"`); rec.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s is answered %d", wrong.at, rec.Code)
		}
		if wrong.at != save {
			written(t, rec.Body.String(), `value="`+wrong.address+`"`)
		}
	}
}

func TestAViewIsRenamedSharedAndRemoved(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	written(t, w.Page("/console/views/1/change"), `value="late"`, `value="/console/dead?text="`)
	w.Has(w.Page(w.Confirm("/console/views/1/change", url.Values{"name": {"dead ones"}, "address": {"/console/dead"}, "seen": {"everybody"}})), "The view was changed.")
	written(t, w.Page("/console/views"), `<a href="/console/dead">dead ones</a>`)
	if v, err := w.grants.Views().Get(t.Context(), "1"); err != nil || !v.Shared || v.Name != "dead ones" {
		t.Errorf("it is %+v, %v", v, err)
	}
	w.Confirm("/console/views/1/change", url.Values{"seen": {"only you"}})
	if v, err := w.grants.Views().Get(t.Context(), "1"); err != nil || v.Shared || v.Name != "dead ones" {
		t.Errorf("it is %+v, %v", v, err)
	}
	form := w.Form("/console/views/1/change")
	w.Confirm("/console/views/1/change", url.Values{"name": {"meanwhile"}})
	form.Set("name", "lost")
	if rec := w.Ask("POST", "/console/views/1/change", form); rec.Code != http.StatusPreconditionFailed {
		t.Errorf("a change of what is another by now is answered %d", rec.Code)
	}
	w.Has(w.Page("/console/views/2/remove"), "Everybody who uses it misses it then.")
	w.Has(w.Page(w.Confirm("/console/views/1/remove", nil)), "The view was removed.")
	w.Confirm("/console/views/2/remove", nil)
	w.Has(w.Page("/console/views"), "Nothing is saved.", "since=1h")
	if strings.Contains(w.Page("/console/"), `id="h-v"`) {
		t.Error("the overview has a list of nothing")
	}
}

func TestViewersSaveForThemselves(t *testing.T) {
	w := newWorld(t)
	w.Who.Rights = caller.All(caller.Viewer)
	save := saveAt(w.Page("/console/dead"))
	if shown := w.Page(save); strings.Contains(shown, "everybody") {
		t.Error("a viewer is asked whether to share it")
	}
	w.Confirm(save, url.Values{"name": {"mine"}})
	if rec := w.Ask("POST", save, url.Values{"name": {"ours"}, "address": {"/console/"}, "seen": {"everybody"}}); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer who shares a view is answered %d", rec.Code)
	}
	w.Who.Name = "bob"
	if rec := w.Ask("GET", "/console/views/1/change", nil); rec.Code != http.StatusNotFound {
		t.Errorf("a view of somebody else is answered %d", rec.Code)
	}
	if strings.Contains(w.Page("/console/views")+w.Page("/console/"), "mine") {
		t.Error("a private view is shown to somebody else")
	}
}

func TestPagesThatAskOrAreOfOneVisitAreNotSaved(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, path := range []string{"/console/", "/console/me", "/console/menu", "/console/views", "/console/find?q=none", "/console/queues/q/pause", "/console/access/tokens/make", "/console/views/save", "/console/dead?text=" + strings.Repeat("x", view.MostOf), "/console/nowhere"} {
		if at := saveAt(w.Ask("GET", path, nil).Body.String()); at != "" {
			t.Errorf("%.60s is saved at %s", path, at)
		}
	}
	for _, path := range []string{"/console/live", "/console/queues", "/console/queues/q", "/console/queues/q/jobs", "/console/dead", "/console/owners", "/console/operations", "/console/audit", "/console/audit?check=yes", "/console/descriptions", "/console/books"} {
		want := "/console/views/save?" + url.Values{"address": {strings.TrimSuffix(path, "?check=yes")}}.Encode()
		if at := saveAt(w.Page(path)); at != want {
			t.Errorf("%s is saved at %s, want %s", path, at, want)
		}
	}
}

func TestAViewIsSavedWithoutThePathOfTheProxyAndOpensBehindIt(t *testing.T) {
	w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Base = "/tide" })
	w.fill("")
	written(t, w.Page("/console/dead?since=1h"), `href="/tide/console/views/save?address=%2Fconsole%2Fdead%3Fsince%3D1h"`)
	if to := w.Confirm("/console/views/save?address=%2Fconsole%2Fdead%3Fsince%3D1h", url.Values{"name": {"x"}}); to != "/tide/console/dead?done=view.saved&since=1h" {
		t.Errorf("then it goes on to %s", to)
	}
	written(t, w.Page("/console/views"), `href="/tide/console/dead?since=1h"`)
}

// wild is a store in which somebody else wrote an address that breaks the rules.
type wild struct{ view.Store }

func (wild) List(context.Context, string) ([]view.View, error) {
	return []view.View{{ID: "1", Name: "wild one", Address: "javascript:alert(1)", Owner: "ada", Made: time.Now()}, {ID: "2", Name: "wild two", Address: "//evil.example/console/", Owner: "ada", Made: time.Now()},
		{ID: "3", Name: "wild three", Address: "/console/../logout", Owner: "ada", Made: time.Now()}}, nil
}

func TestAnAddressThatBreaksTheRulesIsNoLink(t *testing.T) {
	w := newWorld(t, func(w *world, a *admin.Parts, _ *console.Parts) { a.Views = wild{w.grants.Views()} })
	for _, path := range []string{"/console/", "/console/views"} {
		shown := w.Page(path)
		w.Has(shown, "wild one", "wild two", "wild three")
		if found := regexp.MustCompile(`(href|action)="(javascript:|//|[^"]*\.\.)[^"]*"`).FindString(shown); found != "" {
			t.Errorf("%s has %s", path, found)
		}
	}
}

func TestPrefixesOfViewsAndPagesAreTheSame(t *testing.T) {
	if view.Prefix != page.Prefix {
		t.Errorf("%q and %q", view.Prefix, page.Prefix)
	}
}
