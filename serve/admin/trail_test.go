package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
)

// withTrail is an API with people, a queue q, and an audit trail.
func withTrail(t *testing.T, tr trail.Trail) *desk {
	t.Helper()
	s := memoryqueue.New(memoryqueue.Options{Capacity: 10})
	if _, err := s.Set(t.Context(), "q", func(*queue.Settings) {}); err != nil {
		t.Fatal(err)
	}
	return newDesk(t, admin.Parts{Config: constant(loaded(t)), Common: &answer.Common{Queues: s}, Trail: tr, Once: tableledger.Memory(tableledger.Options{}), People: access.Options{Store: tableaccess.Memory(), Cost: access.Cost{KiB: 64, Passes: 1}}})
}

// trailOf are the entries of the trail, the oldest first.
func (d *desk) trailOf(query string) (all []api.TrailEntry) {
	d.Helper()
	if !strings.Contains(query, "max=") { // all of it would be an export, which is an entry too
		query += "&max=1000"
	}
	for _, line := range lines(d.get("audit-trail?" + query)) {
		var e api.TrailEntry
		d.into(line, &e)
		all = append(all, e)
	}
	return all
}

func TestTheTrailHasWhoDidWhatFromWhereAndWhatCameOfIt(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	w := d.headed(http.MethodPost, "queues/q/pause?x=", "", http.Header{"X-Request-Id": {"my-id"}})
	refused(t, w, 400, "x")
	w = d.headed(http.MethodPost, "queues/q/pause", "", http.Header{"X-Request-Id": {"my-id"}})
	if d.good(w); w.Header().Get("X-Request-Id") != "my-id" {
		t.Errorf("the request's id is %q", w.Header().Get("X-Request-Id"))
	}
	refused(t, d.ask("POST", "queues/none/pause", ""), 404, "there is no queue")
	d.get("queues/q")
	const traced = "4bf92f3577b34da6a3ce929d0e0e4736"
	w = d.headed(http.MethodPost, "queues/none/pause", "", http.Header{"Traceparent": {"00-" + traced + "-00f067aa0ba902b7-01"}})
	if refused(t, w, 404, "there is no queue"); d.field(w.Body.String(), "trace_id") != traced {
		t.Errorf("the problem is %s", w.Body)
	}
	all := d.trailOf("")
	if len(all) == 4 && all[3].Trace == traced && all[2].Trace == "" {
		all = all[:3]
	}
	if len(all) != 3 {
		t.Fatalf("there are %+v", all)
	}
	for i, want := range []struct {
		thing, filter, outcome, detail string
		status                         int
	}{{"q", "", "refused", "is no parameter", 400}, {"q", "", "done", "", 200}, {"none", "", "refused", "there is no queue", 404}} {
		e := all[i]
		if e.Who != "key:admin" || e.Role != "admin" || e.Via != "key" || e.From != "127.0.0.1" || e.Operation != "pauseQueue" || e.Thing != want.thing || e.Filter != want.filter ||
			e.Outcome != want.outcome || e.Status != want.status || !strings.Contains(e.Detail, want.detail) || e.Ended == nil || e.At.IsZero() {
			t.Errorf("entry %d is %+v, want %+v", i, e, want)
		}
	}
	if e := all[1]; e.Request != "my-id" || d.field(string(e.Before), "paused") != nil || d.field(string(e.After), "paused") != true {
		t.Errorf("what was done is %+v", e)
	}
	if e := all[2]; len(e.Request) != 36 {
		t.Errorf("the id that was made is %q", e.Request)
	}
	if d.field(d.get("audit-trail/check"), "whole") != true {
		t.Error("the trail is not whole")
	}
}

func TestTheTrailHasExports(t *testing.T) {
	d := newDesk(t, admin.Parts{Letters: lettersOf(t, "1"), Trail: tabletrail.Memory()})
	d.get("dead?limit=10") // a page is looked at
	d.get("dead?max=5")
	d.get("dead?format=export&limit=10&pipeline=p")
	d.get("dead?pipeline=p") // all lines
	d.get("audit-trail?who=ada")
	var got []string
	for _, e := range d.trailOf("") {
		got = append(got, e.Operation+" "+e.Filter+" "+e.Outcome)
	}
	if want := []string{"listDead format=export&limit=10&pipeline=p done", "listDead pipeline=p done", "listAuditTrail who=ada done"}; !slices.Equal(got, want) {
		t.Errorf("the trail has %q, want %q", got, want)
	}
}

// TestExportsAreForOperators holds that a viewer sees pages and takes no listing away, and that the trail has who tried.
func TestExportsAreForOperators(t *testing.T) {
	d := newDesk(t, admin.Parts{Letters: lettersOf(t, "1"), Trail: tabletrail.Memory()})
	for _, path := range []string{"dead?limit=1000", "dead?max=1000"} {
		d.good(d.ofRole(caller.Viewer, path))
	}
	for path, what := range map[string]string{"dead": "all of listDead", "dead?max=1001": "all of listDead", "dead?limit=10&format=export": "listDead with format=export", "dead?max=2&format=export": "listDead with format=export"} {
		refused(t, d.ofRole(caller.Viewer, path), http.StatusForbidden, what)
		d.good(d.ofRole(caller.Operator, path))
	}
	outcomes := map[string]int{}
	for _, e := range d.trailOf("") {
		outcomes[e.Who+" "+e.Operation+" "+e.Outcome]++
	}
	if want := map[string]int{"ada listDead refused": 4, "ada listDead done": 4}; !maps.Equal(outcomes, want) {
		t.Errorf("the trail has %v, want %v", outcomes, want)
	}
}

func TestTheTrailHasLoginsAndWhatSomebodyMayNotDo(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	d.addUser("ada", "viewer")
	r := request(http.MethodPost, "/console/login", "")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if _, err := d.api.Gate().Enter(httptest.NewRecorder(), r, access.Proof{Name: "ada", Password: "a wrong one, quite long"}); err == nil {
		t.Fatal("it let in")
	}
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	refused(t, d.as(ada, "POST", "queues/q/pause", ""), 403, "pauseQueue needs the role operator")
	d.as(nil, "POST", "queues/q/pause", "")
	if err := d.api.Gate().Leave(httptest.NewRecorder(), withCookie(r, ada)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range d.trailOf("") {
		got = append(got, fmt.Sprintf("%s %s by %s %s", e.Who, e.Operation, e.Via, e.Outcome))
	}
	want := "key:admin addUser by key done; ada login by password refused; ada login by password done; ada pauseQueue by password refused; ada logout by password done"
	if strings.Join(got, "; ") != want {
		t.Errorf("the trail is %s\nwant %s", strings.Join(got, "; "), want)
	}
	if one := d.trailOf("who=ada&outcome=done&operation=login"); len(one) != 1 || one[0].Session != "" && len(one[0].Session) != 16 {
		t.Errorf("found %+v", one)
	}
}

func withCookie(r *http.Request, c *http.Cookie) *http.Request {
	r = r.Clone(r.Context())
	r.AddCookie(c)
	return r
}

func TestSecretsAndPayloadsAreNotInTheTrail(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	d.addUser("ada", "viewer")
	d.post("users/ada/password", `{"password": "another long phrase"}`)
	secret := fmt.Sprint(d.field(d.post("tokens?name=ci", ""), "secret"))
	link := fmt.Sprint(d.field(d.post("console/link", ""), "path"))
	d.ask("PUT", "queues/q/job/payload?id=x", marker)
	d.enter(access.Proof{Token: secret})
	all := d.get("audit-trail")
	_, link, _ = strings.Cut(link, "#")
	for _, hidden := range []string{phrase, "another long phrase", secret, link, marker, "argon2", token} {
		if strings.Contains(all, hidden) {
			t.Errorf("the trail has %q:\n%s", hidden, all)
		}
	}
	if e := d.trailOf("operation=addUser"); len(e) != 1 || d.field(string(e[0].After), "name") != "ada" {
		t.Errorf("who was added is not there: %+v", e)
	}
}

// TestWhatAnOperationDoesNotHaveIsNotInTheTrail gives each operation that is in it secrets as parameters:
// what is in its body too, as a parameter it is none.
func TestWhatAnOperationDoesNotHaveIsNotInTheTrail(t *testing.T) {
	kept := tabletrail.Memory()
	d := withTrail(t, kept)
	asked := 0
	for _, h := range d.api.Operations() {
		if h.Method != http.MethodPost || h.Ingest || h.Reads {
			continue
		}
		asked++
		path := strings.NewReplacer("{", "", "}", "").Replace(h.Path)
		for _, name := range []string{"password", "secret", "token", "old", "new", "body"} {
			d.ask(http.MethodPost, path+"?role=viewer&"+name+"="+marker, "")
		}
		d.headed(http.MethodPost, path, "role=viewer&password="+marker, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	}
	if all := d.get("audit-trail"); strings.Contains(all, marker) || len(lines(all)) < asked {
		t.Errorf("%d operations were asked, and the trail has a secret or too few entries:\n%s", asked, all)
	}
	d.ask(http.MethodPost, "users/ada/role?role=viewer&password="+marker, "")
	if one := d.trailOf("order=newest&max=1"); len(one) != 1 || one[0].Filter != "role=viewer" || one[0].Thing != "ada" {
		t.Errorf("what the operation has is not there: %+v", one)
	}
}

func TestTakingEventsInIsNotInTheTrail(t *testing.T) {
	n := 0
	for _, h := range withTrail(t, tabletrail.Memory()).api.Operations() {
		if h.Ingest != strings.HasPrefix(h.ID, "send") {
			t.Errorf("%s takes events in: %v", h.ID, h.Ingest)
		}
		if h.Ingest {
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d operations take events in", n)
	}
}

func TestARequestThatIsAskedForAgainIsOneEntry(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	for range 3 {
		d.good(d.headed(http.MethodPost, "queues/q/pause", "", http.Header{"Idempotency-Key": {"k"}}))
	}
	if all := d.trailOf(""); len(all) != 1 {
		t.Errorf("there are %+v", all)
	}
}

// awayTrail is a trail that cannot be written: from the beginning, or to the end.
type awayTrail struct {
	trail.Trail
	begin bool
}

func (b awayTrail) Begin(ctx context.Context, e trail.Entry) (uint64, error) {
	if b.begin {
		return 0, errors.New("the store is away")
	}
	return b.Trail.Begin(ctx, e)
}

func (b awayTrail) End(context.Context, uint64, trail.End) error {
	return errors.New("the store is away")
}

func TestNothingIsDoneThatTheTrailCannotSay(t *testing.T) {
	d := withTrail(t, awayTrail{tabletrail.Memory(), true})
	refused(t, d.ask("POST", "queues/q/pause", ""), 503, "nothing was done")
	if d.field(d.get("queues/q"), "paused") != false {
		t.Error("it was done")
	}
	d = withTrail(t, awayTrail{tabletrail.Memory(), false})
	d.post("queues/q/pause", "")
	if all := d.trailOf(""); len(all) != 1 || all[0].Outcome != "unknown" {
		t.Errorf("of a change whose end was not written: %+v", all)
	}
	d.logged("the audit trail does not say how a change ended")
}

func TestTheTrailIsReadInPagesBothWays(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	for range 5 {
		d.post("queues/q/pause", "")
	}
	type page struct {
		Items          []api.TrailEntry
		Next, Previous string
	}
	var first, second, back page
	get := func(query string, p *page) {
		t.Helper()
		var got operation.Paged[api.TrailEntry]
		d.into(d.get("audit-trail?order=newest&"+query), &got)
		*p = page{got.Items, got.Next, got.Previous}
	}
	get("limit=2", &first)
	d.post("queues/q/resume", "") // a newer one moves nothing
	get("limit=2&cursor="+first.Next, &second)
	get("limit=2&cursor="+second.Previous, &back)
	if first.Items[0].Seq != 9 || second.Items[0].Seq != 5 || second.Items[1].Seq != 3 || back.Items[0].Seq != 9 || back.Items[1].Seq != 7 {
		t.Errorf("%+v\n%+v\n%+v", first, second, back)
	}
	if all := d.trailOf("max=3"); len(all) != 3 || all[0].Seq != 1 {
		t.Errorf("%+v", all)
	}
	refused(t, d.ask("GET", "audit-trail?since=soon", ""), 400, "soon")
}

func TestEverybodySeesTheLastChangesOfThingsAndNotOfPeople(t *testing.T) {
	kept := tabletrail.Memory()
	d := withTrail(t, kept)
	d.post("queues/q/pause", "")
	d.addUser("ada", "viewer")
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	d.post("queues/q/resume", "")
	got := d.good(d.as(ada, "GET", "changes", ""))
	if all := lines(got); len(all) != 2 || d.field(all[0], "operation") != "resumeQueue" || d.field(all[1], "who") != "key:admin" || strings.Contains(got, "127.0.0.1") {
		t.Errorf("a viewer sees %s", got)
	}
	if all := lines(d.get("changes")); len(all) != 3 {
		t.Errorf("an admin sees %q", all)
	}
	if all := lines(d.get("changes?operation=login")); len(all) != 1 || d.field(all[0], "who") != "ada" {
		t.Errorf("of logins an admin sees %q", all)
	}
	if all := lines(d.get("changes?thing=q&max=1")); len(all) != 1 || d.field(all[0], "operation") != "resumeQueue" {
		t.Errorf("of q there are %q", all)
	}
	if all := lines(d.get("changes?operation=addUser&operation=pauseQueue&max=5")); len(all) != 2 || d.field(all[0], "operation") != "addUser" || d.field(all[1], "operation") != "pauseQueue" {
		t.Errorf("by two operations there are %q", all)
	}
	if all := lines(d.get("changes?operation=pauseQueue&thing=other")); len(all) != 0 {
		t.Errorf("of another thing there are %q", all)
	}
	if _, err := kept.Begin(t.Context(), trail.Entry{At: time.Now(), Who: "eve", Operation: "revokeKey", Thing: "shop/0123456789abcdef"}); err != nil {
		t.Fatal(err)
	}
	if all := lines(d.get("changes?operation=revokeKey&thing=shop")); len(all) != 1 || d.field(all[0], "thing") != "shop/0123456789abcdef" {
		t.Errorf("of what is in a thing there are %q", all)
	}
	refused(t, d.as(ada, "GET", "audit-trail", ""), 403, "listAuditTrail needs the role admin")
}

func TestAProblemHasTheIDOfItsRequest(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	for given, taken := range map[string]bool{"a-b.c:1": true, "": false, "with space": false, strings.Repeat("x", 129): false, "a\nb": false} {
		w := d.headed(http.MethodGet, "nothing", "", http.Header{"X-Request-Id": {given}})
		id := w.Header().Get("X-Request-Id")
		if d.field(w.Body.String(), "instance") != id || (id == given) != taken || id == "" {
			t.Errorf("given %q the id is %q: %s", given, id, w.Body)
		}
	}
	r := request(http.MethodGet, admin.Prefix+"me", "")
	w := httptest.NewRecorder()
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Viewer)})))
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("a request inside has no id")
	}
}

func TestWhatOnlyReadsLeavesNoEntry(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, admin.Parts{Trail: tabletrail.Memory(), Letters: letters, Bulk: tablebulk.Memory(), Once: tableledger.Memory(tableledger.Options{}), People: access.Options{Store: tableaccess.Memory()}})
	d.post("operations/preview?what=dead.delete&all=true", "")
	refused(t, d.ask("POST", "operations/preview?what=dead.delete", ""), 400, "say which")
	var reads []string
	for _, h := range d.api.Operations() {
		if h.Reads {
			reads = append(reads, h.ID)
		}
		if h.Reads && h.Method != http.MethodPost {
			t.Errorf("%s is a %s: that reads anyway", h.ID, h.Method)
		}
	}
	if all := d.trailOf(""); len(all) != 0 || !slices.Equal(reads, []string{"previewOperation"}) {
		t.Errorf("the trail has %+v; %v only read", all, reads)
	}
	// They come from a page of ours all the same.
	r := request(http.MethodPost, admin.Prefix+"operations/preview?what=dead.delete&all=true", "")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	d.api.ServeHTTP(w, r)
	refused(t, w, 403, "another site's page")
}

// TestTheTrailHasWhatAnOperationWasFor: it outlives the operation, whose preview is gone by then.
func TestTheTrailHasWhatAnOperationWasFor(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 3)
		o := d.start("preview=" + d.preview("what=dead.delete&pipeline=p").ID)
		all := d.trailOf("operation=startOperation")
		for _, want := range []string{`"operation":"` + o.ID + `"`, `"what":"dead.delete"`, `"pipeline":"p"`, `"count":3`} {
			if len(all) != 1 || !strings.Contains(string(all[0].After), want) {
				t.Errorf("the trail has no %s: %+v", want, all)
			}
		}
	})
}

func TestWhoWasTooLateIsToldWhoWasFaster(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	d.addUser("root", "admin")
	d.addUser("eve", "viewer")
	for at, edits := range map[string][2][2]string{
		"queues/q":  {{"queues/q/settings", `{"max":1}`}, {"queues/q/settings", `{"max":2}`}},
		"users/eve": {{"users/eve/role?role=operator", ""}, {"users/eve/role?role=admin", ""}},
	} {
		seen := d.tag(at)
		d.good(d.change(edits[0][0], edits[0][1], seen))
		var p operation.Problem
		if err := json.Unmarshal(d.change(edits[1][0], edits[1][1], seen).Body.Bytes(), &p); err != nil || p.Status != http.StatusPreconditionFailed || p.Now == nil || p.Changed == nil || p.Changed.By != "key:admin" || p.Changed.At.IsZero() {
			t.Errorf("%s: %v, %+v", at, err, p)
		}
	}
}

func TestOfAnEditedJobItIsSaidWhoEditedThatOne(t *testing.T) {
	_, s := queues(t)
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Trail: tabletrail.Memory()})
	one, other := "queues/q/job/payload?id=e0%2Fp&tenant=shop", "queues/q/job/payload?id=e1%2Fp&tenant=shop"
	seen := d.ask(http.MethodGet, one, "").Header().Get("ETag")
	d.good(d.change(one, "mended", seen))
	first := d.change(one, "late", seen)
	d.good(d.change(other, "x", "*"))
	for _, w := range []*httptest.ResponseRecorder{first, d.change(one, "late", seen)} {
		var p operation.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Changed == nil {
			t.Errorf("%v, %s", err, w.Body)
		}
	}
}
