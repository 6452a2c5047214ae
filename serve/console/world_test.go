package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	state "github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems"
)

// world is a console over stores in memory.
type world struct {
	*testing.T
	who     caller.Caller
	queues  *memoryqueue.Store
	dead    deadletter.Store
	pages   *console.Console
	audit   func(context.Context) (any, bool, error)
	checked int           // times that the doctor looked
	later   time.Duration // that the clock of operations is ahead
	moves   bulk.Store    // operations
	trail   trail.Trail
	grants  state.Store
	operate func(context.Context) error
}

type part func(*world, *admin.Parts, *console.Parts)

// without takes the stores away: this instance has no queues and keeps no dead letters.
func without(_ *world, a *admin.Parts, _ *console.Parts) { a.Common, a.Letters = &answer.Common{}, nil }

// in is a world of an environment.
func in(environment string) part {
	return func(_ *world, _ *admin.Parts, c *console.Parts) { c.Environment = environment }
}

func newWorld(t *testing.T, parts ...part) *world {
	t.Helper()
	w := &world{T: t, who: caller.Caller{Name: "ada", Role: caller.Admin, Payloads: true, Via: "password"}, queues: memoryqueue.New(memoryqueue.Options{Capacity: 5000}), later: time.Second, moves: tablebulk.Memory(), trail: tabletrail.Memory(), grants: tableaccess.Memory()}
	var err error
	if w.dead, err = tabledeadletter.Memory(deadletter.Options{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	w.audit = func(context.Context) (any, bool, error) {
		dead := len(w.letters())
		return map[string]any{"system": "analytics", "balanced": true, "accepted": 12000, "delivered": 11990, "skipped": 3, "dead": dead, "in_flight": 7 - dead, "lost": 0,
			"dead_letters": map[string]any{"put": dead, "held": dead}, "faults": []string{}}, true, nil
	}
	a := admin.Parts{Common: &answer.Common{Queues: w.queues}, Letters: w.dead, Config: cfg, Rooms: systems.All().Rooms(nil), Owners: systems.All().Owners(), Once: tableledger.Memory(tableledger.Options{}),
		Finds: []answer.Finds{{System: "delivery", Finder: lives{}}, {System: "crm", Missing: "crm does not run in this instance"}},
		Bulk:  w.moves, Trail: w.trail, People: access.Options{Store: w.grants, Cost: access.Cost{KiB: 64, Passes: 1}},
		Now:     func() time.Time { return time.Now().Add(w.later) },
		Started: time.Now().Add(-time.Hour), Version: "v1", Systems: []admin.System{{Name: "analytics", Audit: func(ctx context.Context) (any, bool, error) { return w.audit(ctx) }}, {Name: "delivery", Audit: func(context.Context) (any, bool, error) {
			return map[string]any{"system": "delivery", "balanced": true, "queues": []any{}, "faults": []string{}}, true, nil
		}}},
		Doctor: func(context.Context) []preflight.Finding {
			w.checked++
			return []preflight.Finding{{Check: "database", Verdict: "ok", Detail: "every page readable"}, {Check: "disk", Verdict: "warn", Detail: "1 GiB free", Advice: "make room soon"}}
		}}
	c := console.Parts{Once: true, Gate: w}
	for _, p := range parts {
		p(w, &a, &c)
	}
	does := admin.New(a)
	w.operate = does.Operate()
	c.API, c.Operations = operation.Inside(does.Inside()), does.Operations()
	if w.pages, err = console.New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

// Caller is that of the test. It and the next ones are the gate of the console.
func (w *world) Caller(*http.Request) (caller.Caller, error) {
	if w.who.Role == caller.Nobody {
		return caller.Caller{}, operation.Refuse(http.StatusUnauthorized, "nobody is logged in")
	}
	return w.who, nil
}

// Enter lets in who has the token of the tests.
func (w *world) Enter(to http.ResponseWriter, _ *http.Request, by access.Proof) (caller.Caller, error) {
	if by.Token != "the token" && by.Link != "the secret" {
		return caller.Caller{}, operation.Refuse(http.StatusUnauthorized, "the token is wrong")
	}
	w.who = caller.Caller{Name: "ada", Role: caller.Admin, Payloads: true}
	return w.who, nil
}

// Leave lets them out.
func (w *world) Leave(http.ResponseWriter, *http.Request) error { w.who = caller.Caller{}; return nil }

// Ways are all but passwords.
func (w *world) Ways(*http.Request) access.Ways { return access.Ways{Token: true, Link: true} }

// ask sends a request as a browser does that shows a page of the console.
func (w *world) ask(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	w.Helper()
	r := httptest.NewRequest(method, "http://console.example"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	w.pages.ServeHTTP(rec, r)
	return rec
}

// page is one that is there.
func (w *world) page(path string) string {
	w.Helper()
	rec := w.ask(http.MethodGet, path, nil)
	if rec.Code != http.StatusOK {
		w.Fatalf("%s is answered %d: %s", path, rec.Code, text(rec.Body.String()))
	}
	return rec.Body.String()
}

// confirm does what the page of an action asks for: it reads the form, as somebody without script
// does, and sends it. It returns where the browser is sent.
func (w *world) confirm(path string, more url.Values) string {
	w.Helper()
	form := w.form(path)
	for name, values := range more {
		form[name] = values
	}
	rec := w.ask(http.MethodPost, path, form)
	if rec.Code != http.StatusSeeOther {
		w.Fatalf("the form of %s is answered %d: %s", path, rec.Code, text(rec.Body.String()))
	}
	return rec.Header().Get("Location")
}

// form is what the form of an action carries along.
func (w *world) form(path string) url.Values {
	w.Helper()
	form := url.Values{}
	for _, m := range carried.FindAllStringSubmatch(w.page(path), -1) {
		form.Set(m[1], unescape.Replace(m[2]))
	}
	return form
}

// starts confirms an action that starts an operation, and returns its page.
func (w *world) starts(path string, more url.Values) string {
	w.Helper()
	to, _, _ := strings.Cut(w.confirm(path, more), "?")
	if !strings.HasPrefix(to, "/console/operations/") {
		w.Fatalf("%s leads to %s", path, to)
	}
	return to
}

// ends lets operations end: those that begin after a while too.
func (w *world) ends() {
	w.Helper()
	for w.later += 2 * time.Minute; ; w.later += time.Second {
		if err := w.operate(w.Context()); err != nil {
			w.Fatal(err)
		}
		if !strings.Contains(w.page("/console/operations?state=active"), "<tbody>") {
			return
		}
	}
}

// turned is the address of the page before or after one.
func (w *world) turned(page, rel string) string {
	w.Helper()
	m := regexp.MustCompile(`<a rel="` + rel + `" href="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		w.Fatalf("there is no page %s: %s", rel, text(page))
	}
	return unescape.Replace(m[1])
}

// hidden is the value of a field that a form carries along.
func hidden(w *world, page, name string) string {
	w.Helper()
	m := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)">`).FindStringSubmatch(page)
	if m == nil {
		w.Fatalf("the page has no field %s: %s", name, text(page))
	}
	return unescape.Replace(m[1])
}

var (
	carried  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	unescape = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&#43;", "+", "&amp;", "&")
	tags     = regexp.MustCompile(`(?s)<script.*?</script>|<[^>]*>`)
	spaces   = regexp.MustCompile(`\s+`)
)

// text is what a page says.
func text(page string) string {
	return spaces.ReplaceAllString(unescape.Replace(tags.ReplaceAllString(page, " ")), " ")
}

// has checks what a page says.
func (w *world) has(page string, wants ...string) {
	w.Helper()
	said := text(page)
	for _, want := range wants {
		if !strings.Contains(said, want) {
			w.Errorf("the page does not say %q: %s", want, said)
		}
	}
}

// fill puts jobs and dead letters of a text into the stores: each of their fields has it.
func (w *world) fill(said string) {
	w.Helper()
	ctx := w.Context()
	if _, err := w.queues.Set(ctx, "q", func(s *queue.Settings) {
		s.Completed.Count, s.Failed.Count, s.Tenants = 10, 10, map[string]queue.Limit{said: {PerSecond: 3}}
	}); err != nil {
		w.Fatal(err)
	}
	var jobs []*tidemill.Message
	for _, id := range []string{"e1", "e2", "e3", "e4"} {
		jobs = append(jobs, &tidemill.Message{To: "q", ID: id + said, Tenant: "shop" + said, Type: "purchase" + said, Payload: []byte(`{"n":1.10,"n":2,"big":12345678901234567890,"text":"` + strings.ReplaceAll(said, `"`, `\"`) + `"}`),
			Header: []tidemill.Field{{Name: []byte("h" + said), Value: []byte("v" + said)}}})
	}
	if err := w.queues.Add(ctx, jobs, nil); err != nil {
		w.Fatal(err)
	}
	src := w.queues.Open("q", queue.Options{})
	out := []*tidemill.Message{new(tidemill.Message), new(tidemill.Message)}
	if n, err := src.Receive(ctx, out); n != 2 || err != nil {
		w.Fatal(n, err)
	}
	if err := src.Settle(ctx, []tidemill.Settlement{
		{ID: out[0].ID, Mark: out[0].Mark, Fate: tidemill.Dead, Cause: "refused" + said},
		{ID: out[1].ID, Mark: out[1].Mark, End: tidemill.Again, CountTry: true, After: time.Hour, Kind: tidemill.Partner, Cause: "answered 503" + said},
	}); err != nil {
		w.Fatal(err)
	}
	var dead []tidemill.DeadLetter
	for i, id := range []string{"d1", "d2", "d3"} {
		m := &tidemill.Message{ID: id + said, Tenant: "shop", Type: "purchase" + said, To: "s2s.p", Payload: []byte(`{"n":1.10,"text":"` + strings.ReplaceAll(said, `"`, `\"`) + `"}`), Header: []tidemill.Field{{Name: []byte("h" + said), Value: []byte("v" + said)}}, Mark: tidemill.Mark{Lo: uint64(i + 1)}}
		dead = append(dead, tidemill.DeadLetter{Pipeline: "s2s.p", Message: m, Kind: tidemill.Partner, Cause: "answered 422" + said, Tries: 3, At: time.Now().Add(-time.Duration(i+1) * time.Minute), Row: []byte(`{"status":422,"body":"no"}`)})
	}
	if err := w.dead.Put(ctx, dead); err != nil {
		w.Fatal(err)
	}
	for _, kind := range []state.Kind{state.User, state.Token, state.Session} {
		if err := w.grants.Add(ctx, state.Grant{Kind: kind, ID: strings.Repeat("0123456789abcdef", 4), Name: "grace" + said, Role: "viewer", By: "link" + said, From: "192.0.2.7", Browser: "browser" + said, Made: time.Now()}); err != nil {
			w.Fatal(err)
		}
	}
	seq, err := w.trail.Begin(ctx, trail.Entry{At: time.Now().Add(-time.Hour), Who: "eve" + said, Role: "viewer", Via: "password" + said, From: "192.0.2.1", Operation: "pauseQueue" + said, Thing: "q" + said, Filter: "x=" + said, Request: "r" + said})
	if err == nil {
		err = w.trail.End(ctx, seq, trail.End{Ended: time.Now(), Outcome: trail.Refused, Status: 403, Detail: "no" + said, Before: said, After: `{"paused":true}`})
	}
	if err != nil {
		w.Fatal(err)
	}
	filter, err := json.Marshal(&api.OperationThings{IDs: []string{"d1" + said}, Dead: api.Dead{Pipeline: "p" + said}})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.moves.Add(ctx, &bulk.Operation{ID: "op", Kind: api.DeadReplay, Scope: "p", Filter: filter, By: "ada" + said, StoppedBy: "eve" + said, State: bulk.Stopped, Total: 9,
		Progress: bulk.Progress{Failed: map[string]int{"damaged": 1}, Failures: []bulk.Failure{{Key: "/0/1", ID: "d1" + said, Owner: "shop" + said, Reason: "damaged"}}}, Why: "it broke" + said, Made: time.Now().Add(-time.Hour), Ended: time.Now()}); err != nil {
		w.Fatal(err)
	}
}

// letters are the dead letters, by their number.
func (w *world) letters() (all []*deadletter.Letter) {
	w.Helper()
	for l, err := range w.dead.List(w.Context(), deadletter.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

var errAway = errors.New("the store is away")
