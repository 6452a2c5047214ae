package crmconsole_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
	"github.com/tidemill/tidemill/systems/crm/crmconsole"
	"github.com/tidemill/tidemill/systems/crm/crmtest"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// world is the pages of CRM, which does not run: its sync log is written by the test.
type world struct {
	*consoletest.Browser
	parts crm.Parts
	sys   *crm.System
}

func newWorld(t *testing.T, base string, runs bool) *world {
	t.Helper()
	w := &world{parts: crmtest.Parts(t, handler.Spec{Name: "welcome", Types: []string{"member.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })})}
	w.parts.Queues = memoryqueue.New(memoryqueue.Options{Capacity: 1000})
	w.sys = crmtest.New(t, w.parts, crm.Options{})
	common := &answer.Common{Queues: w.parts.Queues}
	room := admin.Room{Does: (&crmapi.API{Common: common, CRM: w.sys}).Operations()}
	if !runs {
		room = admin.Room{Missing: "CRM does not run in this instance", Does: new(crmapi.API).Operations()}
	}
	w.Browser = consoletest.New(t, admin.Parts{Common: common, Rooms: []admin.Room{room}, Letters: w.parts.DeadLetters, Owners: []admin.Owner{{System: crm.Name, Owns: func(p string) bool { return p == crm.Queue }}}},
		console.Parts{Parts: page.Parts{Base: base}, Systems: []console.System{{Pages: crmconsole.Pages, Runs: runs}}})
	return w
}

// log writes an event into the sync log.
func (w *world) log(id, typ string, state ledger.State, why string) {
	w.Helper()
	e := &ledger.Entry{Key: "club/" + id, Tenant: "club", Type: typ, Payload: []byte(`{"n":1.10}`)}
	if err := w.parts.Log.Begin(w.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
		w.Fatal(err)
	}
	if e.State, e.Err = state, why; state == ledger.Done {
		e.Result = []byte("\n")
	}
	if err := w.parts.Log.End(w.Context(), []*ledger.Entry{e}); err != nil {
		w.Fatal(err)
	}
}

// fill has every field of every page say a text.
func (w *world) fill(said string) {
	w.Helper()
	ctx := w.Context()
	m := &tidemill.Message{ID: "a" + said, Tenant: "club", Type: "member.created" + said, To: crm.Queue, Payload: []byte(`{"name":` + fmt.Sprintf("%q", said) + `}`), Mark: tidemill.Mark{Lo: 1}}
	w.log(m.ID, m.Type, ledger.Failed, "business: refused"+said)
	w.log("b", "member.created", ledger.Done, "")
	if err := w.parts.Queues.Add(ctx, []*tidemill.Message{m}, nil); err != nil {
		w.Fatal(err)
	}
	if err := w.parts.DeadLetters.Put(ctx, []tidemill.DeadLetter{{Pipeline: crm.Queue, Message: m, Kind: tidemill.Business, Cause: "refused" + said, Tries: 2, At: time.Now()}}); err != nil {
		w.Fatal(err)
	}
	if _, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "again", Type: "member.created", From: time.Now().Add(-time.Hour), To: time.Now()}); err != nil {
		w.Fatal(err)
	}
	got := make([]profile.Answer, 1)
	if err := w.parts.Profiles.Resolve(ctx, []profile.Ask{{Tenant: "club", Identities: profile.Identities{External: "m-9" + said}, Create: true}}, got); err != nil || got[0].Err != nil {
		w.Fatal(err, got[0].Err)
	}
	if err := w.parts.Profiles.(profile.Updater).Update(ctx, []profile.Change{{Tenant: "club", Profile: got[0].Profile, Event: "a", Attributes: []profile.Attribute{{Op: profile.Set, Key: "city" + said, Value: fmt.Appendf(nil, "%q", said)}}}}); err != nil {
		w.Fatal(err)
	}
}

func eventAt(verb, said string) string {
	return "/console/crm/" + verb + "?" + url.Values{"tenant": {"club"}, "id": {"a" + said}}.Encode()
}

func everyPage(said string) []string {
	return []string{"/console/crm", "/console/crm?state=failed&since=1h&order=oldest", "/console/crm?type=none", eventAt("event", said), eventAt("retry", said), "/console/crm/profile",
		"/console/crm/profile?" + url.Values{"tenant": {"club"}, "externalId": {"m-9" + said}}.Encode(), "/console/crm/profile?tenant=club&externalId=none", "/console/crm/handlers",
		"/console/crm/replays", "/console/crm/replays/again", "/console/crm/replays/again/stop", "/console/crm/replays/new", "/console/crm/replay?" + url.Values{"since": {"2000-01-01"}, "type": {"member.created" + said}}.Encode()}
}

func TestWhatHoldsOfAllPages(t *testing.T) {
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			w := newWorld(t, base, true)
			w.fill(said)
			return w.Browser
		},
		Pages: everyPage, Seen: 7,
		Forms:   []string{eventAt("retry", ""), "/console/crm/replay?since=2000-01-01", "/console/crm/replays/again/stop"},
		Viewers: []string{eventAt("retry", ""), "/console/crm/replay?since=2000-01-01", "/console/crm/replays/again/stop"},
	})
}

func TestAListIsSmall(t *testing.T) {
	w := newWorld(t, "", true)
	for i := range 60 {
		w.log(fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", i), "member.created", ledger.Failed, fmt.Sprintf("business: answered 422: field %d is none", i))
	}
	first := w.Page("/console/crm")
	if n := strings.Count(first, "<tr>"); n != 51 {
		t.Errorf("the list has %d rows, with its head", n)
	}
	if n := consoletest.Zipped([]byte(first)); n > consoletest.MostOfAList {
		t.Errorf("it has %d bytes zipped, want at most %d", n, consoletest.MostOfAList)
	}
	second := w.Page(w.Turned(first, "next"))
	w.Has(second, "field 9 is none", "field 0 is none")
	w.Has(w.Page(w.Turned(second, "prev")), "field 59 is none")
}

func TestPagesSayWhatIsThere(t *testing.T) {
	w := newWorld(t, "", true)
	w.Has(w.Page("/console/crm"), "No event was taken up in the last 24 hours.", "tidemill crm send")
	w.Has(w.Page("/console/crm/replays"), "No replay was ever asked for.")
	w.fill("")
	w.Has(w.Page("/console/crm"), "a", "failed", "business: refused", "b", "completed", "2 shown; these are all that match.")
	w.Has(w.Page("/console/crm?type=none"), "Nothing matches these filters.", "type = none")
	w.Has(w.Page(eventAt("event", "")), "Why it failed", "refused", "Dead letter", "Event as received")
	w.Has(w.Page("/console/crm/handlers"), "welcome", "member.*", "1 failed events of the last 24 hours looked at")
	w.Has(w.Page("/console/crm/profile?tenant=club&externalId=m-9"), "externalId", "m-9", "city")
	w.Has(w.Page("/console/crm/profile?tenant=club&externalId=none"), "Nobody.")
	w = newWorld(t, "", false)
	page := w.Page("/console/crm")
	if w.Has(page, "Not here.", "CRM does not run in this instance"); strings.Contains(page, `data-key="m"`) {
		t.Error("the navigation shows a system that does not run")
	}
}

// TestPayloadsAreCovered: the server leaves out what a viewer may not see.
func TestPayloadsAreCovered(t *testing.T) {
	w := newWorld(t, "", true)
	w.fill("secret-word")
	w.Who = caller.Caller{Name: "eve", Rights: caller.All(caller.Viewer)}
	for _, path := range []string{eventAt("event", "secret-word"), "/console/crm/profile?tenant=club&externalId=m-9secret-word"} {
		if said := consoletest.Text(w.Page(path)); strings.Contains(said, `"secret-word"`) {
			t.Errorf("%s shows what is covered: %s", path, said)
		}
	}
	if page := w.Page(eventAt("event", "secret-word")); strings.Contains(page, `" download`) || !strings.Contains(page, "there is no file of it") {
		t.Errorf("an event leads to a file that is refused: %s", consoletest.Text(page))
	}
}

func TestAnEventIsRetriedByAForm(t *testing.T) {
	w := newWorld(t, "", true)
	w.fill("")
	w.Has(w.Page(eventAt("retry", "")), "Retry this event?", "POST /api/v1/crm/retry")
	w.Has(w.Page("/console/crm/retry?tenant=club&id=b"), "Nothing to retry")
	w.Has(w.Page(w.Confirm(eventAt("retry", ""), nil)), "The event is queued again.")
	if e, err := w.sys.Event(t.Context(), "club", "a"); err != nil || e.Dead == nil || e.Dead.State == "held" {
		t.Errorf("its dead letter is %+v, %v", e.Dead, err)
	}
}

func TestAReplayIsAskedForSeenAndStopped(t *testing.T) {
	w := newWorld(t, "", true)
	w.fill("")
	rec := w.Ask(http.MethodGet, "/console/crm/replays/new?asked=yes&since=1h&type=member.created", nil)
	at := rec.Header().Get("Location")
	if rec.Code != http.StatusSeeOther || strings.Contains(at, "since=1h") || !strings.Contains(at, "until=") {
		t.Fatalf("it leads to %d %s, which is no fixed time", rec.Code, at)
	}
	w.Has(w.Page(at), "Replay 2 events?", "tidemill replay start", "member.created", "can be stopped")
	to, _, _ := strings.Cut(w.Confirm(at, nil), "?")
	w.Has(w.Page(to), "running", "member.created", "Stop")
	w.Has(w.Page("/console/crm/replays"), "again", "running")
	w.Copies("/console/crm/replays", path.Base(to))
	w.Copies(to, path.Base(to))
	w.Has(w.Page(w.Confirm(to+"/stop", nil)), "The replay stops.")
	w.Has(w.Page("/console/crm/replay?since=2000-01-01&type=none"), "The sync log has no such event now.")
}
