package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/state/instance"
	"github.com/tidemill/tidemill/state/instance/tableinstance"
)

func TestOwnersAreShownWithAllOfThem(t *testing.T) {
	w := newWorld(t)
	w.Has(w.Page("/console/owners"), "Nobody's jobs wait.")
	w = newWorld(t)
	w.fill("")
	page := w.Page("/console/owners")
	if w.Has(page, "shop", "2", "1 shown."); !strings.Contains(page, `href="/console/owners/one?owner=shop"`) {
		t.Error("the owner is no link")
	}
	w.Has(w.Page("/console/owners?prefix=nobody"), "No owner whose name begins so has jobs that wait.", "Show the owner nobody")
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
