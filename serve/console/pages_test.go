package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems"
)

// everyPage are addresses of all pages, where the world is filled with a text.
func everyPage(said string) []string {
	job := url.Values{"id": {"e3" + said}, "tenant": {"shop" + said}}.Encode()
	return []string{"/console/", "/console/live", "/console/live?owner=nobody", "/console/queues", "/console/queues/q", "/console/queues/q/jobs", "/console/queues/q/jobs?state=failed", "/console/queues/q/jobs?state=delayed&limit=25", "/console/queues/q/job?" + job,
		"/console/queues/q/pause", "/console/queues/q/settings", "/console/queues/q/settings/back", "/console/queues/q/remove?" + job, "/console/queues/q/edit?" + job,
		"/console/dead", "/console/dead?reason=partner_error&since=1h", "/console/dead/delivery/1", "/console/dead/delivery/1/edit", "/console/dead/replay?all=true", "/console/dead/delete?seq=1&seq=2",
		"/console/books", "/console/instances", "/console/health", "/console/config", "/console/reference", "/console/reference/listDead?try=true&text=x&system=" + url.QueryEscape("no"+said), "/console/reference/getMe?try=true", "/console/reference/getJob?try=true&name=q&" + job, "/console/reference/pauseQueue", "/console/me", "/console/menu", "/console/find?q=" + url.QueryEscape("no"+said),
		"/console/find?q=" + url.QueryEscape("two"+said), "/console/find?scan=yes&q=" + url.QueryEscape("e3"+said), "/console/access", "/console/access/users/add", "/console/access/users/grace/role", "/console/access/users/grace/password", "/console/access/users/grace/remove", "/console/access/tokens/make", "/console/access/tokens/0123456789abcdef/revoke",
		"/console/access/sessions/0123456789abcdef/end", "/console/me/password", "/console/views", "/console/views/1/change", "/console/views/1/remove", "/console/views/2/remove", "/console/views/save?" + url.Values{"address": {"/console/dead?text=" + said}}.Encode(), "/console/owners", "/console/owners?prefix=nobody", "/console/owners/one?owner=" + url.QueryEscape("shop"+said), "/console/owners?order=name&limit=25", "/console/owners/limit?queue=q&owner=" + url.QueryEscape("shop"+said), "/console/explain", "/console/audit", "/console/audit?check=yes&outcome=refused", "/console/operations", "/console/operations/op", "/console/operations/op/again", "/console/operations/op/stop", "/console/explain?" + url.Values{"system": {"delivery"}, "owner": {"shop" + said}, "id": {"one" + said}}.Encode()}
}

func TestThePagesOfAllSystemsParse(t *testing.T) {
	c, err := console.New(console.Parts{Systems: systems.All().Pages(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Parse(); err != nil {
		t.Error(err)
	}
}

func TestPagesSayWhatIsThere(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Has(w.Page("/console/"), "balanced", "answered 422", "Wants attention", "delivery", "q")
	w.Has(w.Page("/console/live"), "f1", "answered 500", "dead 1", "refused 1", "unauthorized: no", "1 in a request", "Delay of delivery", "2 shown")
	w.Has(w.Page("/console/queues"), "q", "running", "Put off")
	w.Has(w.Page("/console/queues/q"), "Limit of tenant", "3 a second", "Jobs wait and nobody works on any", "Who works on it", "no instance that is there has a pipeline for it", "The last hour", "1 job is put off")
	w.Has(w.Page("/console/queues/q?span=24h"), "The last 24 hours")
	w.Has(w.Page("/console/queues/q/jobs"), "e3", "e4", "waiting", "delayed", "3 shown; these are all that match.")
	w.Has(w.Page("/console/queues/q/job?id=e3&tenant=shop"), `"n": 1.10, "n": 2, "big": 12345678901234567890`, "h v", "It can be handed out as soon as")
	w.Has(w.Page("/console/queues/q/job?id=e2&tenant=shop"), "answered 503", "It is due in 59 min")
	w.Has(w.Page("/console/dead"), "By cause", "answered #", "partner_error", "s2s.p", "d1")
	w.Has(w.Page("/console/dead/delivery/1"), "answered 422", "The destination refused the message.", `"n": 1.10`, `"status": 422`, "delivery")
	w.Has(w.Page("/console/books"), "accepted 12,000 = delivered 11,990 + skipped 3 + dead 3 + in flight 4", "dead letters put 3 = held 3")
	w.Has(w.Page("/console/health"), "1 to look at", "make room soon")
	w.Has(w.Page("/console/reference"), "pauseQueue", "POST /api/v1/queues/{name}/pause")
	w.Has(w.Page("/console/me"), "ada", "admin", "password")
	w.Has(w.Page("/console/config"), "data:")
}

func TestThereAreThreeKindsOfNothing(t *testing.T) {
	w := newWorld(t)
	w.Has(w.Page("/console/dead"), "Nothing died.", "None ever did.")
	w.Has(w.Page("/console/live"), "Nothing came or ended since")
	w.Has(w.Page("/console/queues"), "No queue yet.")
	w.fill("")
	w.Has(w.Page("/console/dead?pipeline=other"), "Nothing matches these filters.", "pipeline = other", "Take all of them off")
	w.Has(w.Page("/console/queues/q/jobs?type=none"), "Nothing matches these filters.", "type = none")
	w.Has(w.Page("/console/live?type=none"), "Nothing that matches came or ended since", "type = none", "take the filters off")
	w = newWorld(t, without)
	w.Has(w.Page("/console/live"), "Not here.", "nothing is sampled")
	w.Has(w.Page("/console/dead"), "Not here.", "keeps no dead letters")
	w.Has(w.Page("/console/queues"), "Not here.", "no queues to show")
	w.Has(w.Page("/console/"), "Not here.")
}

func TestAPartThatFailsLeavesTheOthers(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.audit = func(context.Context) (any, bool, error) { return nil, false, errAway }
	w.Has(w.Page("/console/books"), "This part could not be read.", "the store is away")
	w.audit = func(context.Context) (any, bool, error) {
		return map[string]any{"system": "analytics", "balanced": false, "accepted": 3, "delivered": 1, "dead_letters": map[string]any{}, "faults": []string{"2 events are missing"}}, false, nil
	}
	w.Has(w.Page("/console/books?now=true"), "The books do not balance. 2 events are missing", "off by 2")
}

func TestAStoreThatDoesNotAnswerIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.audit = func(ctx context.Context) (any, bool, error) { <-ctx.Done(); return nil, false, ctx.Err() }
	begun := time.Now()
	w.Has(w.Page("/console/books?now=true"), "did not come within 2s")
	w.Has(w.Page("/console/books"), "the store has not answered yet")
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the page took %v", took)
	}
}

func TestBooksAreReadOnceForAllWhoLook(t *testing.T) {
	w := newWorld(t)
	n := 0
	w.audit = func(context.Context) (any, bool, error) {
		n++
		return map[string]any{"system": "analytics", "balanced": true, "accepted": 1000 + n, "delivered": 1000 + n, "dead_letters": map[string]any{}, "faults": []string{}}, true, nil
	}
	for range 5 {
		w.Has(w.Page("/console/books"), "accepted 1,001", "Check now", "read")
	}
	w.Has(w.Page("/console/books?now=true"), "accepted 1,002")
	if n != 2 {
		t.Errorf("six pages read the books %d times, want twice", n)
	}
}

func TestPagesAreTurnedBothWays(t *testing.T) {
	w := newWorld(t)
	var jobs []*tidemill.Message
	for i := range 60 {
		jobs = append(jobs, &tidemill.Message{To: "q", ID: fmt.Sprintf("e%02d", i)})
	}
	if err := w.queues.Add(t.Context(), jobs, nil); err != nil {
		t.Fatal(err)
	}
	first := w.Page("/console/queues/q/jobs?limit=25")
	w.Has(first, "e59", "e35", "25 shown; there are more.")
	second := w.Page(w.Turned(first, "next"))
	w.Has(second, "e34", "e10")
	third := w.Page(w.Turned(second, "next"))
	w.Has(third, "e09", "e00")
	if strings.Contains(third, `rel="next"`) {
		t.Error("the last page has a next one")
	}
	if again := w.Page(w.Turned(second, "prev")); !strings.Contains(again, "e59") || strings.Contains(again, "e34<") {
		t.Errorf("the page before is another one: %s", consoletest.Text(again))
	}
}

func TestWhatWantsAttentionIsOnEveryPage(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	if _, err := w.queues.Set(t.Context(), "q", func(s *queue.Settings) { s.Paused = true }); err != nil {
		t.Fatal(err)
	}
	w.Has(w.Page("/console/me"), "1 wants attention")
	w.Has(w.Page("/console/"), "paused")
}

func TestTheDoctorIsAskedSeldom(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.Page("/console/health")
	}
	if w.checked != 1 {
		t.Errorf("the doctor looked %d times for 5 pages within 30 seconds, want once", w.checked)
	}
}

func TestTimesAreInTheZoneThatIsSet(t *testing.T) {
	w := newWorld(t)
	rec := w.Ask("POST", "/console/me", url.Values{"zone": {"Asia/Kolkata"}, "theme": {"dark"}})
	cookie := rec.Header().Get("Set-Cookie")
	if rec.Code != http.StatusSeeOther || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Fatal(rec.Code, cookie)
	}
	page := w.Ask("GET", "/console/me", nil, "Cookie", strings.Split(cookie, ";")[0]).Body.String()
	w.Has(page, "Asia/Kolkata (+05:30)")
	if !strings.Contains(page, `<html lang="en" data-theme="dark">`) {
		t.Error("the theme is not that which was set")
	}
	if rec := w.Ask("POST", "/console/me", url.Values{"zone": {"Mars/Olympus"}}); rec.Code != http.StatusBadRequest || !strings.Contains(consoletest.Text(rec.Body.String()), "There is no time zone of this name.") {
		t.Errorf("a zone that there is not: %d", rec.Code)
	}
}

func TestRolesSeeWhatTheyMay(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.Who.Rights = caller.All(caller.Viewer)
	if page := w.Page("/console/dead/delivery/1"); strings.Contains(page, "Discard") || strings.Contains(page, "Replay</a>") {
		t.Error("a viewer is shown what operators may do")
	}
	w.Who = caller.Caller{}
	rec := w.Ask("GET", "/console/dead", nil)
	if rec.Code != http.StatusUnauthorized || strings.Contains(rec.Body.String(), "answered 422") {
		t.Errorf("nobody is answered %d", rec.Code)
	}
	w.Has(rec.Body.String(), "Log in")
}

// TestBytes holds the budgets of what a browser loads.
func TestBytes(t *testing.T) {
	for name, most := range map[string]int{"console.js": 15 << 10, "console.css": 12 << 10, "mark.svg": 6 << 10} {
		b, err := os.ReadFile(filepath.Join("assets", name))
		if err != nil {
			t.Fatal(err)
		}
		if n := consoletest.Zipped(b); n > most {
			t.Errorf("%s has %d bytes zipped, want at most %d", name, n, most)
		}
	}
	w := newWorld(t)
	var jobs []*tidemill.Message
	var dead []tidemill.DeadLetter
	for i := range 60 {
		m := &tidemill.Message{To: "q", ID: fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", i), Tenant: "shop", Type: "purchase", Mark: tidemill.Mark{Lo: uint64(i)}}
		jobs = append(jobs, m)
		dead = append(dead, tidemill.DeadLetter{Pipeline: "s2s.p", Message: m, Kind: tidemill.Partner, Cause: fmt.Sprintf("answered 422: field %d is none", i), At: time.Now()})
	}
	if err := w.queues.Add(t.Context(), jobs, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.dead.Put(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/console/queues/q/jobs?state=waiting", "/console/dead"} {
		page := w.Page(path)
		if n := strings.Count(page, "<tr>"); n < 50 {
			t.Fatalf("%s has %d rows", path, n)
		}
		if n := consoletest.Zipped([]byte(page)); n > consoletest.MostOfAList {
			t.Errorf("%s has %d bytes zipped, want at most %d", path, n, consoletest.MostOfAList)
		}
	}
}

// TestTheColourOfTheEnvironmentIsOnEveryPage holds that each that may be set has a rule in the style sheet.
func TestTheColourOfTheEnvironmentIsOnEveryPage(t *testing.T) {
	w := newWorld(t, func(_ *world, _ *admin.Parts, c *console.Parts) { c.Colour = "amber" })
	if page := w.Page("/console/config"); !strings.Contains(page, `data-colour="amber"`) {
		t.Error("a page has no colour")
	}
	style, err := os.ReadFile(filepath.Join("assets", "console.css"))
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []string{"blue", "green", "amber", "red", "violet"} { // grey is without
		if !strings.Contains(string(style), "[data-colour="+colour+"]") {
			t.Errorf("%s has no rule", colour)
		}
	}
}

// TestWhatIsTypedIsInTheZoneOfThePage filters by a day that has 23 hours there.
func TestWhatIsTypedIsInTheZoneOfThePage(t *testing.T) {
	w := newWorld(t)
	for zone, want := range map[string][]string{"Europe/Berlin": {"2026-03-29T00:00:00&#43;01:00", "2026-03-30T00:00:00&#43;02:00"}, "UTC": {"2026-03-29", "2026-03-29"}} {
		page := w.Ask("GET", "/console/dead?since=2026-03-29&until=2026-03-29", nil, "Cookie", "tidemill_console=zone="+url.QueryEscape(zone)).Body.String()
		for i, name := range []string{"since", "until"} {
			if !strings.Contains(page, `name="`+name+`" value="`+want[i]+`"`) || !strings.Contains(page, name+" = "+want[i]+" ") {
				t.Errorf("in %s %s is not %s: %s", zone, name, want[i], consoletest.Text(page))
			}
		}
	}
	page := w.Ask("GET", "/console/dead?since=2026-07-01T12:30", nil, "Cookie", "tidemill_console=zone=Asia%2FKathmandu").Body.String()
	if !strings.Contains(page, `value="2026-07-01T12:30:00&#43;05:45"`) {
		t.Errorf("a time: %s", consoletest.Text(page))
	}
}
