package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console/consoletest"
)

// TestThingsLeadToTheirNeighbours follows links from one page to the next.
func TestThingsLeadToTheirNeighbours(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	m := &tidemill.Message{ID: "d9", Tenant: "shop", Type: "purchase", Payload: []byte(`{}`), Mark: tidemill.Mark{Lo: 9}}
	if err := w.dead.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "q", Message: m, Kind: tidemill.Partner, Cause: "no", At: time.Now().Add(-time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	letter := w.Page(link(t, w.Page("/console/dead?id=d9"), "/console/dead/-/"))
	w.Page(link(t, letter, "/console/owners/one?owner=shop"))
	if at := link(t, letter, "/console/queues/"); at != "/console/queues/q" {
		t.Errorf("the queue of a dead letter is %s", at)
	}
	if page := w.Page("/console/dead/delivery/1"); strings.Contains(page, "/console/queues/s2s") {
		t.Error("a dead letter leads to a queue that there is not")
	}
	for _, by := range []string{"owner", "tenant"} {
		job := w.Page("/console/queues/q/job?" + url.Values{by: {"shop"}, "id": {"e3"}}.Encode())
		w.Page(link(t, job, "/console/owners/one?owner=shop"))
		w.Has(w.Page(link(t, job, "/console/queues/q/jobs?tenant=shop")), "e3")
	}
}

// TestAnOperationLeadsToWhatItIsFor holds that its page has the list of what it chose and of no other, and the audit
// trail its page.
func TestAnOperationLeadsToWhatItIsFor(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	removes := w.starts("/console/queues/q/remove?state=waiting&tenant=shop&id=e3", nil)
	list := link(t, w.Page(removes), "/console/queues/q/jobs?")
	if page := w.Page(list); strings.Contains(page, ">e4<") {
		t.Errorf("its jobs are at %s: %s", list, consoletest.Text(page))
	}
	w.Has(w.Page(list), "e3", "1 shown")
	replays := w.starts("/console/dead/replay?seq=2&system=delivery", nil)
	w.Has(w.Page(link(t, w.Page(replays), "/console/dead?")), "d2", "1 shown")
	w.Confirm(replays+"/stop", nil)
	trail := w.Page("/console/audit")
	if n := strings.Count(trail, `href="`+replays+`"`); n != 2 {
		t.Errorf("the trail has %d links to an operation that was started and stopped: %s", n, consoletest.Text(trail))
	}
	w.Has(w.Page(link(t, w.Page(replays), "/console/audit?operation=")), "startOperation", "2 shown")
}

// TestTenantsThatAreNotShownAreSaid holds that a queue with more tenants than it shows says so and leads on.
func TestTenantsThatAreNotShownAreSaid(t *testing.T) {
	w := newWorld(t)
	for n := range api.TenantsOfAQueue + 1 {
		if n == 2 {
			page := w.Page("/console/queues/q")
			w.Has(page, "2 shown; these are all whose jobs wait.")
		}
		if err := w.queues.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "e", Tenant: fmt.Sprintf("t%03d", n)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.later += time.Hour // tenants are read again after a while
	page := w.Page("/console/queues/q")
	w.Has(page, "100 shown; there may be more.")
	w.Has(w.Page(link(t, page, "/console/queues/q/jobs?state=waiting")), "t100")
}

// TestWhatIsRenewedDoesNotSpeak looks at an operation that has failed, and at a page that is live: one region says so.
func TestWhatIsRenewedDoesNotSpeak(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	page := w.Page("/console/operations/op")
	w.Has(page, "It could not go on. it broke")
	consoletest.Silent(t, "an operation that failed", page)
	if n := strings.Count(page, "data-say"); n != 2 { // its state, and why
		t.Errorf("%d things of it are said, want 2", n)
	}
	if !strings.Contains(w.Page("/console/"), `<p id="said" class="off" role="status">`) {
		t.Error("a page that is renewed has nothing that says what matters")
	}
}

func TestATextAloneIsLookedForInTheLastDay(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	rec := w.Ask("GET", "/console/dead?text=422", nil)
	if to := rec.Header().Get("Location"); rec.Code != http.StatusSeeOther || to != "/console/dead?since=24h&text=422" {
		t.Fatalf("answered %d, %s", rec.Code, to)
	}
	w.Has(w.Page("/console/dead?since=24h&text=422"), "since = 24h", "text = 422", "What has a text is changed by choosing it here")
	if page := w.Page("/console/dead"); !strings.Contains(page, "cause=answered") {
		t.Error("a group does not lead to its own dead letters")
	}
}
