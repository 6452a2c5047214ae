package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
	"github.com/tidemill/tidemill/state/queue"
)

func TestOwnersAreShownWithAllOfThem(t *testing.T) {
	w := newWorld(t)
	w.Has(w.Page("/console/owners"), "Nobody's jobs wait, and nobody has dead letters.")
	w.Has(w.Page("/console/owners?limited=true"), "No limit holds an owner whose jobs wait.")
	w = newWorld(t)
	w.fill("")
	page := w.Page("/console/owners")
	if w.Has(page, "shop", "2", "1 shown; these are all that match."); !strings.Contains(page, `href="/console/owners/one?owner=shop"`) {
		t.Error("the owner is no link")
	}
	w.Has(w.Page("/console/owners?prefix=nobody"), "No owner whose name begins so has jobs that wait or dead letters.", "Show the owner nobody")
	page = w.Page("/console/owners/one?owner=shop")
	w.Has(page, "shop", "Dead letters 3", "q", "3")
	for _, href := range []string{`"/console/queues/q/jobs?state=waiting&amp;tenant=shop"`, `"/console/dead?site=shop"`} {
		if !strings.Contains(page, href) {
			t.Errorf("the page has no link to %s", href)
		}
	}
	w.Has(w.Page("/console/owners/one?owner="+url.QueryEscape("no/body ?&")), "no/body ?&", "No job of it waits")
	if rec := w.Ask("GET", "/console/owners/one", nil); rec.Code != http.StatusBadRequest {
		t.Errorf("no owner is answered %d", rec.Code)
	}
	w = newWorld(t, without)
	w.Has(w.Page("/console/owners"), "Not here.")
}

// The limit of an owner is set on a page of its own, of what was seen, with the fields of the queue's settings.
func TestTheLimitOfAnOwnerIsSetFromItsPage(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	const one, at = "/console/owners/one?owner=shop", "/console/owners/limit?owner=shop&queue=q"
	page := w.Page(one)
	if w.Has(page, "Its own limit", "that of each tenant"); !strings.Contains(page, `href="/console/owners/limit?owner=shop&amp;queue=q"`) {
		t.Error("the page of the owner does not lead to its limit")
	}
	asks := w.Page(at)
	w.Has(asks, "Limit of shop in the queue q", "tidemill queue limits q --tenant shop", "POST /api/v1/queues/q/settings")
	old := w.Hidden(asks, "etag")
	form := url.Values{"etag": {old}, "which": {"its own: what is below"}, "rate": {"2.5"}, "at_once": {"4"}}
	to := w.Confirm(at, form)
	if !strings.HasPrefix(to, "/console/owners/one?done=settings&owner=shop") {
		t.Errorf("it leads to %s", to)
	}
	w.Has(w.Page(to), "The settings are in force.", "2.5 a second, 4 at once", "its own limit of 2.5 a second")
	limits := func() map[string]queue.Limit {
		s, err := w.queues.Settings(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		return s.Tenants
	}
	if got := limits(); got["shop"] != (queue.Limit{PerSecond: 2.5, AtOnce: 4}) || len(got) != 2 {
		t.Errorf("the limits are %v", got)
	}
	form.Set("key", "again")
	if rec := w.Ask("POST", at, form); rec.Code != http.StatusPreconditionFailed {
		t.Errorf("a change of old settings is answered %d", rec.Code)
	}
	if _, err := w.queues.Set(t.Context(), "q", func(s *queue.Settings) { s.Tenants["shop"] = queue.Limit{PerSecond: 2, Burst: 9} }); err != nil {
		t.Fatal(err)
	}
	set := func(which, rate string) {
		t.Helper()
		w.Confirm(at, url.Values{"etag": {w.Hidden(w.Page(at), "etag")}, "key": {which}, "which": {which}, "rate": {rate}})
	}
	if set("its own: what is below", "3"); limits()["shop"] != (queue.Limit{PerSecond: 3, Burst: 9}) {
		t.Errorf("the burst does not stay: %v", limits())
	}
	if set("none", ""); limits()["shop"] != (queue.Limit{}) || len(limits()) != 2 {
		t.Errorf("the limits are %v", limits())
	}
	w.Has(w.Page(one), "none")
	if set("that of each tenant", ""); len(limits()) != 1 {
		t.Errorf("the limits are %v", limits())
	}
	for rate, want := range map[string]string{"": "Say how many", "fast": `"fast" is no rate`} {
		rec := w.Ask("POST", at, url.Values{"etag": {w.Hidden(w.Page(at), "etag")}, "which": {"its own: what is below"}, "rate": {rate}})
		if rec.Code != http.StatusUnprocessableEntity || !strings.Contains(consoletest.Text(rec.Body.String()), want) {
			t.Errorf("%q is answered %d: %s", rate, rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
	if page := w.Page("/console/owners/one?owner=nobody"); !strings.Contains(page, "<option>q</option>") {
		t.Error("a queue in which nothing of an owner waits cannot be chosen")
	}
	if rec := w.Ask("GET", "/console/owners/limit?owner=shop", nil); rec.Code != http.StatusBadRequest {
		t.Errorf("no queue is answered %d", rec.Code)
	}
	w.Who.Rights = caller.All(caller.Viewer)
	if page := w.Page(one); strings.Contains(page, "owners/limit") {
		t.Error("a viewer is offered to change a limit")
	}
	if rec := w.Ask("GET", at, nil); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer is answered %d", rec.Code)
	}
}

func TestInstancesThatShareStoresAreShown(t *testing.T) {
	others := tableinstance.Memory(time.Now)
	if err := others.Beat(t.Context(), instance.Instance{ID: "two", Host: "second", Version: "v2", Started: time.Now(), Seen: time.Now(), Memory: 3 << 30, Systems: []string{"crm"}, Pipelines: []instance.Pipeline{{Name: "p", State: "running", Breaker: "open", Error: "it is away" + consoletest.Hostile}}}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(_ *world, a *admin.Parts, _ *console.Parts) {
		a.This = admin.This{ID: "one", Host: "first", Store: others}
	})
	page := w.Page("/console/instances")
	if w.Has(page, "first (this one)", "second", "there", "v2", "3.0 GiB", "crm", "circuit open", "it is away"); strings.Contains(page, "<script>alert") {
		t.Error("an error is part of the page")
	}
}
