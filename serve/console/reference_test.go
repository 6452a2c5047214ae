package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console"
)

func TestAReadIsTriedAndAChangeIsNot(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Has(w.Page("/console/reference"), "listDead", "pauseQueue")
	if page := w.Page("/console/reference"); !strings.Contains(page, `href="/console/reference/listDead"`) {
		t.Error("an operation has no link to its page")
	}
	form := w.Page("/console/reference/listDead")
	w.Has(form, "listDead", "GET /api/v1/dead", "Try it")
	if strings.Contains(form, `name="max"`) || strings.Contains(form, "The answer") {
		t.Error("what is for lines is asked for, or it was asked for already")
	}
	w.Has(w.Page("/console/reference/listDead?try=true&system=delivery&state=held&limit="), "tidemill api listDead --system delivery --state held --limit 10", "GET /api/v1/dead?", "The answer", `"id": "d1"`, `"as_of"`)
	w.Has(w.Page("/console/reference/getDead?try=true&letter=1&system=delivery"), "GET /api/v1/dead/1?system=delivery", `"seq": 1`)
	w.Has(w.Page("/console/reference/getDead?try=true&letter=99"), "there is no dead letter 99")
	w.Has(w.Page("/console/reference/getDead?try=true&letter="), "getDead needs letter")
	w.Has(w.Page("/console/reference/listDead?try=true&order=best"), "want oldest or newest")
	w.Has(w.Page("/console/reference/listQueues?try=true"), "The answer", `"waiting"`)
	w.Has(w.Page("/console/reference/getOpenAPI?try=true"), "This is the first part of it: there is more.")
	w.Has(w.Page("/console/reference/pauseQueue?try=true&name=q"), "This form changes nothing", "tidemill api pauseQueue --name q", "POST /api/v1/queues/q/pause")
	if strings.Contains(w.Page("/console/queues/q"), "It is paused") {
		t.Error("a form of the reference paused a queue")
	}
	w.Has(w.Page("/console/reference/editDead?try=true&letter=1"), "tidemill api editDead --letter 1 --body @FILE --if-match ETAG", "PUT /api/v1/dead/1/payload")
	if rec := w.Ask("GET", "/console/reference/none", nil); rec.Code != http.StatusNotFound {
		t.Errorf("an operation that there is not is answered %d", rec.Code)
	}
}

func TestTheReferenceSaysWhatGoesAway(t *testing.T) {
	old := operation.GoingAway(operation.View[operation.None, operation.Problem]("showOld", "old", "Show it."), "2027-01-31", "2027-07-31", "Use showNew.")
	w := newWorld(t, func(_ *world, a *admin.Parts, _ *console.Parts) {
		a.Rooms = append(a.Rooms, admin.Room{Does: []operation.Handler{old.By(func(context.Context, *operation.None) (operation.Problem, error) { return operation.Problem{}, nil })}})
	})
	const said = "It goes away: deprecated since 2027-01-31, and gone from 2027-07-31 on at the earliest. Use showNew."
	if page := w.Page("/console/reference"); strings.Count(page, said) != 1 {
		t.Error("the reference does not say so, or says it of others too")
	}
	w.Has(w.Page("/console/reference/showOld"), said)
}
