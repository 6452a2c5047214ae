package analyticsconsole_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/definition"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems/analytics/analyticsapi"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconsole"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

// world is the pages of analytics over stores in memory.
type world struct {
	*consoletest.Browser
	rows     *memorywarehouse.Store
	persons  person.Store
	names    definition.Definitions
	projects project.Store
	n        int
}

var shop = project.Project{ID: project.ID("shop"), Name: "shop"}

func newWorld(t *testing.T, base string, runs bool) *world {
	t.Helper()
	w := &world{rows: memorywarehouse.New(), persons: tableperson.Memory(tableperson.Options{}), names: tabledefinition.Memory(), projects: tableproject.Memory()}
	common := &answer.Common{Projects: w.projects}
	room := admin.Room{Does: (&analyticsapi.API{Common: common, Persons: w.persons, Events: w.rows, Definitions: w.names}).Operations()}
	if !runs {
		room = admin.Room{Missing: "analytics does not run in this instance", Does: new(analyticsapi.API).Operations()}
	}
	w.Browser = consoletest.New(t, admin.Parts{Trail: tabletrail.Memory(), Common: common, Rooms: []admin.Room{room}}, console.Parts{Parts: page.Parts{Base: base}, Systems: []console.System{{Pages: analyticsconsole.Pages, Runs: runs}}})
	if err := w.projects.Ensure(t.Context(), shop, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	return w
}

// stores writes an event of ann's.
func (w *world) stores(name, distinct, said string) *event.Event {
	w.Helper()
	w.n++
	at := time.Now().UTC().Add(-time.Hour).Add(time.Duration(w.n) * time.Second).Truncate(time.Millisecond)
	e := &event.Event{ID: event.IDOf(shop.ID, fmt.Sprint("e", w.n)), Project: shop.ID, Name: name, Type: "track", DistinctID: distinct, Timestamp: at, IngestedAt: at, Properties: fmt.Appendf(nil, `{"n":%d,"said":%q}`, w.n, said)}
	e.Person, e.URL = person.ID(e.Ref()), "https://shop.example/"+said
	if err := w.persons.Apply(w.Context(), []person.Change{{Ref: e.Ref(), Event: e.ID, At: at}}); err != nil {
		w.Fatal(err)
	}
	if err := w.rows.Insert(w.Context(), []*event.Event{e}, make([]warehouse.Outcome, 1)); err != nil {
		w.Fatal(err)
	}
	return e
}

func (w *world) fill(said string) {
	w.Helper()
	w.stores("viewed"+said, "ann"+said, said)
	w.stores("bought"+said, "ann"+said, said)
	if err := w.rows.Warn(w.Context(), []warehouse.Warning{{Project: shop.ID, Type: "invalid_event", Event: "viewed" + said, Distinct: "ann" + said, Reason: "no name" + said, At: time.Now()}}); err != nil {
		w.Fatal(err)
	}
	now := time.Now()
	if err := w.names.Upsert(w.Context(), &definition.Batch{Events: []definition.Event{{Project: shop.ID, Name: "viewed" + said, LastSeen: now}}, Properties: []definition.Property{{Project: shop.ID, Of: "event", Name: "price" + said, Type: "Numeric", LastSeen: now}}}); err != nil {
		w.Fatal(err)
	}
	if err := w.projects.Ensure(w.Context(), project.Project{ID: project.ID("blog"), Name: "zblog" + said}, project.HashOf(tidemill.NewSecret("of blog"))); err != nil {
		w.Fatal(err)
	}
}

func everyPage(said string) []string {
	of := func(path string, pairs ...string) string {
		q := url.Values{"project": {"shop"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return "/console/analytics" + path + "?" + q.Encode()
	}
	return []string{"/console/analytics", of("", "name", "viewed"+said), of("", "name", "none", "since", "1h"), of("", "order", "oldest"), of("/event", "id", "e1"), of("/person"), of("/person", "distinct_id", "ann"+said),
		of("/person", "id", uuid.NewString()), of("/definitions"), of("/warnings"), of("/keys"), of("/keys/make"), of("/keys/revoke", "key", "0123456789abcdef")}
}

func TestWhatHoldsOfAllPages(t *testing.T) {
	forms := []string{"/console/analytics/keys/make?project=shop", "/console/analytics/keys/revoke?project=shop&key=0123456789abcdef"}
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			w := newWorld(t, base, true)
			w.fill(said)
			return w.Browser
		},
		Pages: everyPage, Seen: 7, Forms: forms, Viewers: forms,
	})
}

func TestEventsAreTurnedBothWays(t *testing.T) {
	w := newWorld(t, "", true)
	for i := range 120 {
		w.stores(fmt.Sprintf("event-%03d", i), "ann", "0190f3c2-0000-7000-8000-000000000001")
	}
	first := w.Page("/console/analytics?project=shop")
	w.Has(first, "event-119", "event-070", "50 shown", "there are more")
	if n := strings.Count(first, "<tr>"); n != 51 || strings.Contains(first, "event-069") || strings.Contains(first, `rel="prev"`) {
		t.Errorf("the first page has %d rows, with its head", n)
	}
	if n := consoletest.Zipped([]byte(first)); n > consoletest.MostOfAList {
		t.Errorf("it has %d bytes zipped, want at most %d", n, consoletest.MostOfAList)
	}
	second := w.Page(w.Turned(first, "next"))
	if w.Has(second, "event-069", "event-020"); strings.Contains(second, "event-070") || strings.Contains(second, "event-019") {
		t.Error("the second page has events of others")
	}
	third := w.Page(w.Turned(second, "next"))
	if w.Has(third, "event-019", "event-000", "20 shown"); strings.Contains(third, "event-020") || strings.Contains(third, `rel="next"`) {
		t.Error("the last page has events of others, or a next page")
	}
	w.Has(w.Page(w.Turned(second, "prev")), "event-119", "event-070")
}

func TestPagesSayWhatIsThere(t *testing.T) {
	w := newWorld(t, "", true)
	empty := w.Page("/console/analytics")
	w.Has(empty, "No event of the last 24 hours.", "api_host: 'ADDRESS'", "tidemill send")
	if !strings.Contains(empty, "data-origin") {
		t.Error("script does not fill the address in")
	}
	w.Has(w.Page("/console/analytics/warnings"), "Nothing was refused.")
	w.fill("")
	w.Has(w.Page("/console/analytics"), "bought", "viewed", "ann", "2 shown")
	w.Has(w.Page("/console/analytics?name=none"), "Nothing matches these filters.", "name = none")
	w.Has(w.Page("/console/analytics/event?project=shop&id=e1"), "viewed", `"n": 1`, "https://shop.example/", "Explain")
	w.Has(w.Page("/console/analytics/person?project=shop&distinct_id=ann"), "anonymous", "ann", "Its newest events", "bought")
	w.Has(w.Page("/console/analytics/person?project=shop&distinct_id=nobody"), "Nobody.")
	w.Copies("/console/analytics/person?project=shop&distinct_id=ann", "ann")
	if rec := w.Ask("GET", "/console/analytics/event?project=shop", nil); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "Say which event") {
		t.Errorf("an event without an id is answered %d: %s", rec.Code, consoletest.Text(rec.Body.String()))
	}
	w.Has(w.Page("/console/analytics/definitions"), "viewed", "price", "Numeric")
	w.Has(w.Page("/console/analytics/warnings"), "invalid event", "Mend what sends it", "no name")
	if rec := w.Ask(http.MethodGet, "/console/analytics/event?project=shop&id=none", nil); rec.Code != http.StatusNotFound {
		t.Errorf("an event that there is not is answered %d", rec.Code)
	}
	w = newWorld(t, "", false)
	gone := w.Page("/console/analytics")
	if w.Has(gone, "Not here."); strings.Contains(gone, `data-key="n"`) {
		t.Error("the navigation shows a system that does not run")
	}
}

// TestPropertiesAreCovered: the server leaves out what a viewer may not see.
func TestPropertiesAreCovered(t *testing.T) {
	w := newWorld(t, "", true)
	w.stores("viewed", "ann", "secret-word")
	w.Who = caller.Caller{Name: "eve", Rights: caller.All(caller.Viewer)}
	for _, path := range []string{"/console/analytics", "/console/analytics/event?project=shop&id=e1", "/console/analytics/person?project=shop&distinct_id=ann"} {
		if said := consoletest.Text(w.Page(path)); strings.Contains(said, "secret-word") {
			t.Errorf("%s shows what is covered: %s", path, said)
		}
	}
}

func TestAKeyIsMadeShownOnceAndRevoked(t *testing.T) {
	w := newWorld(t, "", true)
	const at = "/console/analytics/keys/make?project=shop"
	rec := w.Ask(http.MethodPost, at, w.Form(at))
	_, rest, _ := strings.Cut(rec.Body.String(), `<pre id="secret">`)
	secret, _, _ := strings.Cut(rest, "<")
	hash := project.HashOf(tidemill.NewSecret(secret))
	if p, err := w.projects.ByKey(t.Context(), hash); rec.Code != http.StatusOK || err != nil || p != shop {
		t.Fatalf("%d, %v %v", rec.Code, p, err)
	}
	w.Has(rec.Body.String(), "It is shown once.")
	id := fmt.Sprintf("%x", hash[:8])
	list := w.Page("/console/analytics/keys?project=shop")
	if w.Has(list, id, "Nobody can see the key itself."); strings.Contains(list, secret) {
		t.Error("the list has the key")
	}
	w.Has(w.Page(w.Confirm("/console/analytics/keys/revoke?project=shop&key="+id, nil)), "The key is revoked.", "Last changes", "ada: revokeKey", "ada: makeKey")
	if _, err := w.projects.ByKey(t.Context(), hash); err == nil {
		t.Error("the key works after it was revoked")
	}
	w.Who.Rights = caller.All(caller.Operator)
	w.Has(w.Page("/console/analytics/keys?project=shop"), "Keys are for admins.")
}

// TestNamesAreTurned holds that names beyond the first page are on the next one.
func TestNamesAreTurned(t *testing.T) {
	w := newWorld(t, "", true)
	var batch definition.Batch
	for i := range 501 {
		batch.Events = append(batch.Events, definition.Event{Project: shop.ID, Name: fmt.Sprintf("event-%03d", i), LastSeen: time.Now()})
	}
	if err := w.names.Upsert(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
	first := w.Page("/console/analytics/definitions?project=shop")
	w.Has(first, "500 shown; there are more.")
	second := w.Page(w.Turned(first, "next"))
	w.Has(second, "1 shown; these are the last ones.")
	seen := map[string]bool{}
	for _, name := range regexp.MustCompile(`>event-\d+<`).FindAllString(first+second, -1) {
		seen[name] = true
	}
	if len(seen) != 501 {
		t.Errorf("both pages have %d names, want 501", len(seen))
	}
	if rec := w.Ask(http.MethodGet, "/console/analytics/definitions?project=shop&after=-1", nil); rec.Code != http.StatusBadRequest {
		t.Errorf("a page that there is not is answered %d", rec.Code)
	}
}
