package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
)

// finder knows events by what a test says.
type finder struct {
	places []answer.Lookup
	tells  func(owner, id string) (api.Explanation, error)
}

func (f *finder) Lookups(string, string) []answer.Lookup { return f.places }

func (f *finder) Explain(_ context.Context, owner, id string) (api.Explanation, error) {
	return f.tells(owner, id)
}

func has(where string, hits ...api.Thing) answer.Lookup {
	return answer.Lookup{Where: where, Do: func(context.Context) ([]api.Thing, error) { return hits, nil }}
}

// findDesk has queues, dead letters and a project, and two systems, of which one runs.
func findDesk(t *testing.T, f *finder) (*desk, *memoryqueue.Store, deadletter.Store) {
	t.Helper()
	queues := memoryqueue.New(memoryqueue.Options{Now: func() time.Time { return day }})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	projects := tableproject.Memory()
	if err := projects.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("k"))); err != nil {
		t.Fatal(err)
	}
	moves := tablebulk.Memory()
	if err := moves.Add(t.Context(), &bulk.Operation{ID: "op-1", Kind: api.DeadReplay, Scope: "all", By: "ada", State: bulk.Done, Filter: []byte(`{"all":true}`), Made: day, Ended: day}); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: queues, Projects: projects}, Letters: letters, Bulk: moves,
		Finds: []answer.Finds{{System: delivery.Name, Finder: f}, {System: crm.Name, Missing: "crm does not run in this instance"}}})
	return d, queues, letters
}

func add(t *testing.T, queues queue.Store, m *tidemill.Message) {
	t.Helper()
	if err := queues.Add(t.Context(), []*tidemill.Message{m}, nil); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) finds(id, more string) (out api.FoundThings) {
	d.Helper()
	d.into(d.get("find?q="+url.QueryEscape(id)+more), &out)
	return out
}

func thingsOf(things []api.Thing) (all []string) {
	for _, h := range things {
		all = append(all, h.Kind+" "+h.ID)
	}
	return all
}

func TestFindLooksEverywhereAndSaysWhere(t *testing.T) {
	const odd = "a/b c✓𝄞"
	one := answer.EventHit(delivery.Name, "event", "shop", odd, "an event")
	d, queues, letters := findDesk(t, &finder{places: []answer.Lookup{
		has("one", one), has("two", one, answer.EventHit(delivery.Name, "event", "other", odd, "another")),
		{Where: "nowhere", Not: "it is too far"},
		{Where: "broken", Do: func(context.Context) ([]api.Thing, error) { return nil, errors.New("the disk broke") }},
		{Where: "gone", Do: func(context.Context) ([]api.Thing, error) { return nil, tidemill.Fail(tidemill.NotFound, "nothing") }},
	}})
	add(t, queues, &tidemill.Message{ID: odd, Tenant: "shop", To: "jobs"})
	add(t, queues, &tidemill.Message{ID: odd, Tenant: "shop", To: "s2s.ads"}) // a system's, which finds it
	if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Message: &tidemill.Message{ID: odd, Tenant: "shop"}, Pipeline: "s2s.ads", At: day, Kind: tidemill.Timeout}}); err != nil {
		t.Fatal(err)
	}
	out := d.finds(odd, "")
	if got, want := thingsOf(out.Hits), []string{"event " + odd, "event " + odd, "job " + odd, "dead_letter 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	missed := map[string]string{}
	for _, m := range out.Missed {
		missed[m.Where] = m.Why
	}
	if missed["nowhere"] != "it is too far" || missed["broken"] != "the disk broke" || missed["crm"] != "crm does not run in this instance" || missed["requests"] == "" || len(missed) != 4 {
		t.Errorf("not looked: %q", missed)
	}
	if len(out.Looked) != 8 {
		t.Errorf("looked in %+v", out.Looked)
	}
	if got := thingsOf(d.finds("1", "").Hits); got[0] != "dead_letter 1" {
		t.Errorf("a number is a dead letter's first: %q", got)
	}
	if got := thingsOf(d.finds("jobs", "").Hits); !slices.Contains(got, "queue jobs") {
		t.Errorf("%q", got)
	}
	if got := thingsOf(d.finds("shop", "").Hits); !slices.Contains(got, "owner "+project.ID("shop").String()) {
		t.Errorf("%q", got)
	}
	if hits := d.finds("op-1", "").Hits; !slices.ContainsFunc(hits, func(h api.Thing) bool {
		return h.Kind == "operation" && h.Text == "operation dead.replay of ada, done" && h.Operation == api.GetOperation.ID && h.Parameters["id"] == "op-1"
	}) {
		t.Errorf("an operation: %+v", hits)
	}
	if out := d.finds(odd, "&system=crm"); len(out.Hits) != 0 || len(out.Missed) != 1 {
		t.Errorf("of a system that does not run: %+v", out)
	}
	if out := d.finds(strings.Repeat("𝄞", 300), "&owner=nobody"); len(out.Missed) != 4 {
		t.Errorf("%+v", out.Missed)
	}
	for path, status := range map[string]int{"find": 400, "find?q=": 400, "find?q=a&system=none": 404, "find?q=a&what=b": 400, "find/scan": 400, "find/scan?q=a&most=0": 400,
		"find/scan?q=a&cursor=b": 400, "find/scan?q=a&queue=none": 404, "explain?id=a": 400, "explain?system=delivery": 400, "explain?system=none&id=a": 404, "explain?system=crm&id=a": 404, "explain?system=delivery&id=a&format=xml": 400} {
		if w := d.ask(http.MethodGet, path, ""); w.Code != status {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, status, w.Body)
		}
	}
}

// TestASlowPlaceHoldsUpNobody: each look-up has half a second, all of them two.
func TestASlowPlaceHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) ([]api.Thing, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		f := &finder{places: []answer.Lookup{has("quick", answer.EventHit(delivery.Name, "event", "", "a", "it"))}}
		for i := range 50 {
			f.places = append(f.places, answer.Lookup{Where: fmt.Sprint("slow ", i), Do: slow})
		}
		d, _, _ := findDesk(t, f)
		begun := time.Now()
		out := d.finds("a", "&system=delivery")
		if took := time.Since(begun); took > 2*time.Second || len(out.Hits) != 1 || len(out.Missed) != 50 || out.Missed[0].Why != "it did not answer in time" {
			t.Errorf("after %v: %v, not looked in %d, the first: %+v", took, thingsOf(out.Hits), len(out.Missed), out.Missed[0])
		}
	})
}

func TestExplainAsJSONAndAsText(t *testing.T) {
	d, _, _ := findDesk(t, &finder{tells: func(owner, id string) (api.Explanation, error) {
		if id != "a/b" {
			return api.Explanation{}, operation.Refuse(http.StatusNotFound, "nothing is known of it")
		}
		s := answer.NewStory(delivery.Name, "event", owner, id, day)
		s.Step(day.Add(-time.Second), "tried", "s2s.ads", "a try failed")
		s.Step(day.Add(-time.Minute), "accepted", "ingest API", "it came in")
		s.Step(time.Time{}, "waiting", "s2s.ads", "it waits")
		s.Then(day.Add(12*time.Second), "it is tried again")
		s.Ends(api.FateInFlight, "it is tried again")
		s.Asked("sync log", errors.New("it is away"))
		return s.Tell()
	}})
	var x api.Explanation
	d.into(d.get("explain?system=delivery&owner=shop&id=a%2Fb"), &x)
	if len(x.Steps) != 3 || x.Steps[0].What != "accepted" || x.Steps[1].After == nil || *x.Steps[1].After != 59 || x.Steps[2].At != nil || x.NextAt == nil || !x.NextAt.Equal(day.Add(12*time.Second)) || len(x.Failed) != 1 {
		t.Errorf("%+v", x)
	}
	w := d.ask(http.MethodGet, "explain?system=delivery&owner=shop&id=a%2Fb&format=text", "")
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Body.String() != x.Text() || !strings.Contains(x.Text(), "it is tried again at 2026-03-01T12:00:12Z, in 12s") {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), w.Body)
	}
	if w := d.ask(http.MethodGet, "explain?system=delivery&id=none&format=text", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// scans asks as somebody, page by page.
func (d *desk) scans(who caller.Caller, query string) (hits []string, looked, requests int) {
	d.Helper()
	for cursor := ""; ; {
		r := httptest.NewRequest(http.MethodGet, admin.Prefix+"find/scan?"+query+"&cursor="+cursor, nil)
		w := httptest.NewRecorder()
		d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(d.Context(), who)))
		var s api.Scanned
		d.into(d.good(w), &s)
		hits, looked, requests = append(hits, thingsOf(s.Hits)...), looked+s.Looked, requests+1
		if cursor = s.Next; cursor == "" {
			return hits, looked, requests
		}
	}
}

func TestAScanGoesOnAndSearchesPayloadsOnlyForWhoMaySeeThem(t *testing.T) {
	d, queues, _ := findDesk(t, &finder{})
	for i := range 30 {
		add(t, queues, &tidemill.Message{ID: fmt.Sprint("job ", i), Tenant: []string{"shop", "club"}[i%2], To: []string{"a", "b", "c"}[i%3], Payload: fmt.Appendf(nil, "mail%d@x", i)})
	}
	may, not := caller.Caller{Name: "ada", Rights: caller.All(caller.Operator), Payloads: true}, caller.Caller{Name: "bob", Rights: caller.All(caller.Operator)}
	if hits, looked, _ := d.scans(may, "q=mail7%40x"); len(hits) != 1 || hits[0] != "job job 7" || looked != 30 {
		t.Errorf("by payload: %q of %d", hits, looked)
	}
	if hits, looked, _ := d.scans(not, "q=mail7%40x"); len(hits) != 0 || looked != 30 {
		t.Errorf("who may not see payloads finds by them: %q of %d", hits, looked)
	}
	if hits, looked, requests := d.scans(not, "q=job&most=7"); len(hits) != 30 || looked != 30 || requests != 5 {
		t.Errorf("in slices: %q of %d in %d requests", hits, looked, requests)
	}
	if hits, looked, _ := d.scans(not, "q=job&owner=shop&queue=b"); len(hits) != 5 || looked != 10 {
		t.Errorf("of one owner: %q of %d", hits, looked)
	}
	r := httptest.NewRequest(http.MethodGet, admin.Prefix+"find/scan?q=a", nil)
	w := httptest.NewRecorder()
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(d.Context(), caller.Caller{Name: "eve", Rights: caller.All(caller.Viewer)})))
	if w.Code != http.StatusForbidden {
		t.Errorf("a viewer scans: %d", w.Code)
	}
}
