package windowsconsole_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
	"github.com/tidemill/tidemill/systems/windows/windowsconsole"
)

// world is the pages of windows that nothing delivers.
type world struct {
	*consoletest.Browser
	client *operation.Client
	index  search.Indexer
}

func newWorld(t *testing.T, base string, runs bool) *world {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	queues := memoryqueue.New(memoryqueue.Options{})
	store, err := tablewindow.Memory(window.Options{Owner: "me"})
	must(err)
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	must(err)
	index, err := memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions())
	must(err)
	chain, err := process.New(nil, process.Options{})
	must(err)
	sys, err := windows.New(windows.Parts{Intakes: []windows.Intake{{Name: "adapter-event", Source: queues.Open("adapter-event", queue.Options{}), Kind: record.Event}},
		Windows: store, DeadLetters: letters, Chain: chain, Out: windows.Each(queue.Sink(queues)), Index: index}, windows.Options{Tries: 3, AtOnce: 1, Seed: 1})
	must(err)
	common := &answer.Common{}
	room := admin.Room{Does: (&windowsapi.API{Common: common, Windows: sys}).Operations()}
	if !runs {
		room = admin.Room{Missing: "windows do not run in this instance", Does: new(windowsapi.API).Operations()}
	}
	w := &world{Browser: consoletest.New(t, admin.Parts{Trail: tabletrail.Memory(), Common: common, Rooms: []admin.Room{room}}, console.Parts{Parts: page.Parts{Base: base}, Systems: []console.System{{Pages: windowsconsole.Pages, Runs: runs}}})}
	w.client, w.index = operation.Inside(w.API.Inside()), index
	return w
}

// send puts a record into the window of a batch.
func (w *world) send(batch, actor string) {
	w.Helper()
	got, err := windowsapi.SendRecords.Call(caller.With(w.Context(), consoletest.Admin), w.client, &windowsapi.SentRecords{Batch: batch, Kind: "event", Body: fmt.Appendf(nil, `{"globalEventId":1,"day":20250323,"actor1Name":%q}`, actor)})
	if err != nil || got.Stored != 1 {
		w.Fatalf("%+v %v", got, err)
	}
}

// id is that of the window of a batch.
func (w *world) id(batch string) string {
	w.Helper()
	for one, err := range windowsapi.ListWindows.Each(caller.With(w.Context(), consoletest.Admin), w.client, &windowsapi.WindowFilter{Batch: batch}) {
		if err != nil {
			w.Fatal(err)
		}
		return one.ID
	}
	w.Fatal("there is no window of " + batch)
	return ""
}

func TestWhatHoldsOfAllPages(t *testing.T) {
	var at string
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			w := newWorld(t, base, true)
			w.send("b"+said, said)
			at = w.id("b" + said)
			return w.Browser
		},
		Pages: func(said string) []string {
			batch := url.Values{"batch": {"b" + said}}.Encode()
			return []string{"/console/windows", "/console/windows?state=active", "/console/windows?state=parked", "/console/windows?" + batch, "/console/windows/one?" + url.Values{"id": {at}}.Encode(), "/console/windows/close?" + batch,
				"/console/windows/replay?" + url.Values{"id": {at}}.Encode(), "/console/windows/files", "/console/windows/search", "/console/windows/search?" + url.Values{"q": {""}}.Encode()}
		},
		Seen: 5, Forms: []string{"/console/windows/close?batch=b", "/console/windows/replay?id=b/1"}, Viewers: []string{"/console/windows/close?batch=b", "/console/windows/replay?id=b/1", "/console/windows/give-up?file=f"},
	})
}

func TestAWindowIsLookedAtAndClosed(t *testing.T) {
	w := newWorld(t, "", true)
	w.Has(w.Page("/console/windows"), "No window.")
	w.send("b1", "ACTOR")
	id := w.id("b1")
	batch, revision, _ := strings.Cut(id, "/")
	one := "/console/windows/one?" + url.Values{"batch": {batch}, "revision": {revision}}.Encode()
	w.Has(w.Page("/console/windows/one?"+url.Values{"id": {id}}.Encode()), "Window "+id)
	if !strings.Contains(w.Page("/console/windows"), `href="/console/windows/one?batch=b1&amp;`) {
		t.Errorf("the list does not lead to %s", one)
	}
	for _, none := range []string{"", "?batch=b1", "?revision=1"} {
		if rec := w.Ask(http.MethodGet, "/console/windows/one"+none, nil); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "batch=…&amp;revision=…") {
			t.Errorf("windows/one%s is answered %d: %s", none, rec.Code, consoletest.Text(rec.Body.String()))
		}
	}
	w.Has(w.Page("/console/windows"), id, "active", "Delivery in this instance")
	w.Has(w.Page("/console/windows?state=parked"), "Nothing matches these filters.")
	w.Has(w.Page(one), "active", "event 1", `"actor1Name": "ACTOR"`, "Close it now")
	if to := w.Confirm("/console/windows/close?batch=b1", nil); to != "/console/windows?done=windowclosed" {
		t.Errorf("closing leads to %s", to)
	}
	w.Has(w.Page(one), "ready", "by hand", "Last changes", "ada: closeWindow")
	w.Has(w.Page("/console/windows"), "Last changes", "ada: closeWindow b1")
	w.send("b2", "ACTOR")
	w.Has(w.Page("/console/windows/one?"+url.Values{"id": {w.id("b2")}}.Encode()), "Nobody changed it.")
	if rec := w.Ask(http.MethodPost, "/console/windows/replay?"+url.Values{"id": {id}}.Encode(), url.Values{"key": {"k"}}); rec.Code != http.StatusConflict {
		t.Errorf("what is not parked is replayed: %d %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	if rec := w.Ask(http.MethodGet, "/console/windows/one?id=none/1", nil); rec.Code != http.StatusNotFound {
		t.Errorf("a window that there is not is answered %d", rec.Code)
	}
	w.Has(w.Page("/console/windows/search?q="), "Nothing matches.")
	w.Has(w.Page("/console/windows/files"), "No files are read here.")
	w.Who = caller.Caller{Name: "eve", Rights: caller.All(caller.Viewer)}
	if page := w.Page(one); strings.Contains(page, "ACTOR") || strings.Contains(page, "Close it now") {
		t.Error("a viewer sees a payload, or what operators may do")
	}
	w.Has(newWorld(t, "", false).Page("/console/windows"), "Not here.", "windows do not run in this instance")
}

// A search is read on, and back to the page that one came from.
func TestASearchIsReadBothWays(t *testing.T) {
	w := newWorld(t, "", true)
	var docs []search.Doc
	for i := range 30 { // more than a page has
		docs = append(docs, search.Doc{Schema: "gdelt-events", Day: "2026-05-01", ID: fmt.Sprintf("event-%02d", i), Body: fmt.Appendf(nil, `{"globalEventId":%d}`, i)})
	}
	if err := w.index.Index(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	follow := func(page, rel string) string {
		_, rest, ok := strings.Cut(page, `rel="`+rel+`" href="`)
		to, _, _ := strings.Cut(rest, `"`)
		if !ok {
			t.Fatalf("no link %s on %s", rel, consoletest.Text(page))
		}
		return w.Page(html.UnescapeString(to))
	}
	first := w.Page("/console/windows/search?q=")
	w.Has(first, "event-29", "30 match")
	w.Copies("/console/windows/search?q=", "event-29")
	second := follow(first, "next")
	w.Has(second, "event-00")
	if strings.Contains(second, "event-29") || strings.Contains(second, `rel="next"`) {
		t.Error("the second page has what was on the first, or another after it")
	}
	if back := follow(second, "prev"); !strings.Contains(back, "event-29") || strings.Contains(back, "event-00") || strings.Contains(back, `rel="prev"`) {
		t.Error("the page before the second is not the first")
	}
}
