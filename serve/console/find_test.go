package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// lives are the events of a system: those whose ids begin with one or two. What follows is in each of
// their fields.
type lives struct{}

func (lives) Lookups(id, _ string) []answer.Lookup {
	said := id[min(3, len(id)):]
	return []answer.Lookup{{Where: "queue" + said, Do: func(context.Context) (hits []api.Thing, err error) {
		if strings.HasPrefix(id, "one") || strings.HasPrefix(id, "two") {
			hits = append(hits, answer.EventHit("delivery", "event", "shop"+said, id, "an order"+said))
		}
		if strings.HasPrefix(id, "two") {
			hits = append(hits, answer.JobHit("delivery", "q", "shop"+said, id, "a job"+said),
				api.Thing{Kind: "person", System: "delivery", ID: id, Text: "a person" + said, Operation: "getPerson", Parameters: map[string]string{"project": "shop", "distinct_id": id}},
				api.Thing{Kind: "catalogue", System: "delivery", ID: id, Text: "a catalogue" + said, Operation: "listProjects", Parameters: map[string]string{}})
		}
		return hits, nil
	}}, {Where: "cellar" + said, Not: "it is locked" + said}}
}

func (lives) Explain(_ context.Context, owner, id string) (api.Explanation, error) {
	said, known := strings.CutPrefix(id, "one")
	if !known {
		return api.Explanation{}, operation.Refuse(http.StatusNotFound, "nothing is known of it")
	}
	at, after := time.Now().Add(-time.Minute), .012
	return api.Explanation{System: "delivery", Kind: "event", Owner: owner, ID: id, Type: "purchase" + said, Fate: api.FateInFlight, Summary: "It waits" + said,
		Steps: []api.Step{{At: &at, What: "accepted", Where: "queue" + said, Text: "it was accepted" + said},
			{At: &at, After: &after, What: "queued", Where: "queue q", Text: "it was put in", Related: []api.Thing{answer.JobHit("delivery", "q", "shop", "e3"+said, "its job")}}},
		Next: []string{"It is tried again in 12 s" + said}, Unknown: []string{"queues forget" + said}, Failed: []api.Looked{{Where: "log" + said, Why: "it is away" + said}}}, nil
}

func TestTheBoxFindsEverything(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for q, want := range map[string]string{"q": "/console/queues/q", "2": "/console/dead/delivery/2", "d3": "/console/dead/delivery/3", "e4": "/console/queues/q/job?id=e4&tenant=shop", " one ": "/console/explain?id=one&owner=shop&system=delivery"} {
		if rec := w.Ask("GET", "/console/find?q="+url.QueryEscape(q), nil); rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != want {
			t.Errorf("%s leads to %d %s, want %s", q, rec.Code, rec.Header().Get("Location"), want)
		}
	}
	for _, q := range []string{`"e4"`, "'e4'", "`e4`", "<e4>", "e4,", "\u200be4", "“e4”"} { // as it was copied
		if rec := w.Ask("GET", "/console/find?q="+url.QueryEscape(q), nil); rec.Header().Get("Location") != "/console/queues/q/job?id=e4&tenant=shop" {
			t.Errorf("%s leads to %d %s", q, rec.Code, rec.Header().Get("Location"))
		}
	}
	for q, want := range map[string]string{"op": "/console/operations/op", "books": "/console/books", "dead letters": "/console/dead"} {
		if rec := w.Ask("GET", "/console/find?q="+url.QueryEscape(q), nil); rec.Header().Get("Location") != want {
			t.Errorf("%s leads to %d %s, want %s", q, rec.Code, rec.Header().Get("Location"), want)
		}
	}
	page := w.Page("/console/find?q=two")
	w.Has(page, "an order · delivery · shop", "a job", "person", "a catalogue", "listProjects", "delivery: queue", "delivery: cellar: it is locked")
	for _, href := range []string{`href="/console/explain?id=two&amp;owner=shop&amp;system=delivery"`, `href="/console/queues/q/job?id=two&amp;tenant=shop"`, `href="/console/analytics/person?distinct_id=two&amp;project=shop"`, `href="/console/reference#listProjects"`} {
		if !strings.Contains(page, href) {
			t.Errorf("the page has no %s", href)
		}
	}
	w.Has(w.Page("/console/find?q=nowhere"), "Nothing is called nowhere here.", "dead letters", "crm does not run in this instance", "tidemill find --scan")
	w.Has(w.Page("/console/find"), "Paste an id into the box above")
}

func TestTheLifeOfAnEventIsExplained(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.Page("/console/explain?system=delivery&owner=shop&id=one")
	w.Has(page, "in flight", "It waits", "It is tried again in 12 s", "it was accepted", "+12 ms", "queues forget", "log could not be asked. it is away",
		"tidemill explain one --system delivery --owner shop", "GET /api/v1/explain?id=one&owner=shop&system=delivery", "Copy as text", "in flight It waits")
	if !strings.Contains(page, `href="/console/queues/q/job?id=e3&amp;tenant=shop"`) {
		t.Error("the job of a step is no link")
	}
	w.Has(w.Page("/console/explain"), "Explain", "System", "Owner")
	if rec := w.Ask("GET", "/console/explain?system=delivery&id=other", nil); rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "nothing is known of it") {
		t.Errorf("an event that nobody knows is answered %d", rec.Code)
	}
	if rec := w.Ask("GET", "/console/explain?system=crm&id=one", nil); rec.Code != http.StatusNotFound {
		t.Errorf("a system that does not run is answered %d", rec.Code)
	}
	if !strings.Contains(w.Page("/console/dead/delivery/1"), `href="/console/explain?id=d1&amp;owner=shop&amp;system=delivery"`) {
		t.Error("a dead letter does not lead to what explains it")
	}
}

// TestAScanIsASecondStep looks through jobs for a text that no look-up finds.
func TestAScanIsASecondStep(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Has(w.Page(link(t, w.Page("/console/find?q=12345678901234567890"), "/console/find?")), "Jobs with 12345678901234567890 in their ids, headers and payloads", "e3", "4 jobs were looked at; these are all that are left.")
	w.Has(w.Page("/console/find?q=nothing&scan=yes"), "None among those that were looked at.", "4 jobs were looked at")
	w.Who.Rights = caller.All(caller.Viewer)
	if page := w.Page("/console/find?q=nothing"); strings.Contains(page, "scan=yes") {
		t.Error("a viewer is shown how to look through all jobs")
	}
	if rec := w.Ask("GET", "/console/find?q=nothing&scan=yes", nil); rec.Code != http.StatusForbidden {
		t.Errorf("a viewer who looks through all jobs is answered %d", rec.Code)
	}
}
