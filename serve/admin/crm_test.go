package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
	"github.com/tidemill/tidemill/systems/crm/crmtest"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// crmDesk is an API over a CRM system in memory, which runs in fake time.
type crmDesk struct {
	*desk
	queues *memoryqueue.Store
	kind   atomic.Uint32 // of what the handler answers
	calls  atomic.Int32
}

// withCRM runs a test in a bubble whose clock begins in the year 2000.
func withCRM(t *testing.T, test func(d *crmDesk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &crmDesk{queues: memoryqueue.New(memoryqueue.Options{Capacity: 100})}
		p := crmtest.Parts(t, handler.Spec{Name: "test", Types: []string{"member.*"}, Handler: handler.Func(func(context.Context, *handler.Call) error {
			d.calls.Add(1)
			if k := tidemill.Kind(d.kind.Load()); k != 0 {
				return tidemill.Fail(k, "as the test says")
			}
			return nil
		})})
		p.Queues = d.queues
		sys := crmtest.New(t, p, crm.Options{Create: true, Seed: 1})
		// Letters of another system lie in a store of their own.
		other, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		common := &answer.Common{Queues: d.queues}
		d.desk = newDesk(t, admin.Parts{Common: common, Rooms: only(crm.Name, (&crmapi.API{Common: common, CRM: sys}).Operations()), Letters: other, OwnLetters: []admin.OwnLetters{{System: crm.Name, Store: p.DeadLetters}}, Systems: []admin.System{{Name: crm.Name, Pipelines: sys.Pipelines()}}})
		stop := crmtest.Run(t, sys)
		test(d)
		stop()
	})
}

// event is one of the club.
func crmEvent(id, typ string) string {
	return fmt.Sprintf(`{"id":%q,"type":%q,"tenantId":"club","identity":{"email":"ann@example.com"},"occurredAt":"2000-01-01T00:00:00Z"}`, id, typ)
}

func (d *crmDesk) send(events ...string) {
	d.Helper()
	if w := d.ask("POST", "crm/events", "["+strings.Join(events, ",")+"]"); w.Code != http.StatusAccepted {
		d.Fatalf("answered %d: %s", w.Code, w.Body)
	}
}

// pass lets time go by, and work be done.
func pass(d time.Duration) {
	time.Sleep(d) // in the bubble
	synctest.Wait()
}

func TestEventsAreSentByHand(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		w := d.ask("POST", "crm/events", "["+crmEvent("a", "member.created")+","+crmEvent("a", "member.created")+",7]")
		want := `{"results":[{"id":"a","status":"accepted"},{"id":"a","status":"duplicate"},{"status":"rejected","error":{"code":"validation_failed","problems":[{"path":"","message":"is a number","allowed":"an object"}]}}]}` + "\n"
		if w.Code != 202 || w.Body.String() != want {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w := d.ask("POST", "crm/events", crmEvent("b", "member.created")); w.Code != 202 || w.Body.String() != `{"results":[{"id":"b","status":"accepted"}]}`+"\n" {
			t.Errorf("one: %d %s", w.Code, w.Body)
		}
		if w := d.ask("POST", "crm/events", `{}`); w.Code != 200 || !strings.Contains(w.Body.String(), "id\",\"message\":\"is missing") {
			t.Errorf("one that is wrong: %d %s", w.Code, w.Body)
		}
		for body, c := range map[string]struct {
			status int
			want   string
		}{
			"[1":                             {400, "neither an event nor an array"},
			"[" + strings.Repeat("1,", 1001): {400, "more than 1000 events"},
			strings.Repeat(" ", 4<<20+1):     {413, "at most 4 MiB"},
		} {
			refused(t, d.ask("POST", "crm/events", body), c.status, c.want)
		}
		d.post("queues/crm-events/drain", "")
		w = d.ask("POST", "crm/events", crmEvent("c", "member.created"))
		if refused(t, w, 503, "drained"); w.Header().Get("Retry-After") == "" {
			t.Error("it does not say when to come again")
		}
	})
}

func TestHowCRMStands(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		if got, want := d.get("crm/status"), `{"queue":"crm-events","paused":false,"closed":false,"waiting":0,"delayed":0,"leased":0,"completed":0,"skipped":0,"failed":0,"kept":{"completed":0,"failed":0},"oldest_age_seconds":0,"priorities":[],"dead":0,"expired":0,"matched_percent":null,"open_replays":0}`+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.send(crmEvent("a", "member.created"), crmEvent("nobody's", "unheard.of"))
		pass(time.Second)
		d.kind.Store(uint32(tidemill.Business))
		d.send(crmEvent("b", "member.created"))
		pass(time.Second)
		d.post("queues/crm-events/pause", "")
		d.send(crmEvent("c", "member.created"), crmEvent("d", "email.opened"), crmEvent("e", "scl.payment.failed"))
		want := `{"queue":"crm-events","paused":true,"closed":false,"waiting":3,"delayed":0,"leased":0,"completed":1,"skipped":1,"failed":1,"kept":{"completed":2,"failed":1},"oldest_added_at":"2000-01-01T00:00:02Z","oldest_age_seconds":0,"priorities":[` +
			`{"priority":3,"name":"high","waiting":1,"oldest_added_at":"2000-01-01T00:00:02Z"},{"priority":2,"name":"normal","waiting":1,"oldest_added_at":"2000-01-01T00:00:02Z"},` +
			`{"priority":1,"name":"low","waiting":1,"oldest_added_at":"2000-01-01T00:00:02Z"}],"dead":1,"expired":0,"matched_percent":50,"open_replays":0}` + "\n"
		if got := d.get("crm/status"); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	})
}

func TestHandlersAreShownWithWhatTheyFailed(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		if got := d.get("crm/handlers"); !strings.Contains(got, `{"handlers":[{"name":"test","types":["member.*"],"failed":0}],"since":"`) {
			t.Errorf("before any: %s", got)
		}
		d.kind.Store(uint32(tidemill.Business))
		d.send(crmEvent("a", "member.created"), crmEvent("b", "member.left"), crmEvent("c", "unheard.of"))
		pass(time.Minute)
		got := d.get("crm/handlers")
		for _, want := range []string{`"failed":2,"last_failed_at":"2000-01-01T00:00:0`, `"last_kind":"business","last_error":"handle: test: as the test says"`, `"looked":3,"at_least":false,"unknown":1`} {
			if !strings.Contains(got, want) {
				t.Errorf("it lacks %s: %s", want, got)
			}
		}
		pass(25 * time.Hour)
		if got := d.get("crm/handlers"); !strings.Contains(got, `"failed":0}`) {
			t.Errorf("a day later: %s", got)
		}
		refused(t, d.ask("GET", "crm/handlers?since=1h", ""), 400, "since")
	})
}

func TestTheProfileOfAnIdentityIsShown(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.send(crmEvent("a", "member.created"))
		pass(time.Second)
		got := d.get("crm/profiles?tenant=club&email=%20ANN@example.com")
		if !strings.Contains(got, `"tenant":"club","identities":[{"kind":"email","value":"ann@example.com"}],"attributes":{},"created_at":"2000-01-01T00:00:0`) {
			t.Errorf("the profile is %s", got)
		}
		refused(t, d.ask("GET", "crm/profiles?tenant=club&externalId=m-9", ""), 404, "tenant club has no profile with this externalId")
		refused(t, d.ask("GET", "crm/profiles?tenant=other&email=ann@example.com", ""), 404, "tenant other has no profile")
		refused(t, d.ask("GET", "crm/profiles?tenant=club&phone=abc", ""), 400, "bad identity: phone")
		for _, q := range []string{"tenant=club", "tenant=club&email=a@b&phone=123", "email=ann@example.com"} {
			refused(t, d.ask("GET", "crm/profiles?"+q, ""), 400, "")
		}
	})
}

func TestWhereAnEventOfCRMIs(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		explain := func(id, state, parts string) string {
			t.Helper()
			got := d.get("crm/events?tenant=club&id=" + id)
			if d.field(got, "state") != state {
				t.Errorf("%s is %v, want %s: %s", id, d.field(got, "state"), state, got)
			}
			for p := range strings.FieldsSeq(parts) {
				has := strings.HasPrefix(p, "+")
				if v := d.field(got, p[1:]); (v != nil) != has {
					t.Errorf("%s: %s is %v: %s", id, p, v, got)
				}
			}
			return got
		}
		d.post("queues/crm-events/pause", "") // the queue exists: it was set up
		d.send(crmEvent("a", "member.created"))
		pass(time.Second)
		explain("a", "queued", "+job -record -letter +received_at")
		d.kind.Store(uint32(tidemill.Transient))
		d.post("queues/crm-events/resume", "")
		pass(time.Second)
		got := explain("a", "retrying", "+job +record -letter")
		if !strings.Contains(got, `"failed_attempts":[{"at":"2000-01-01T00:00:01Z","kind":"transient","cause":"`) || !strings.Contains(got, `"payload":"{\"id\":\"a\"`) {
			t.Errorf("%s", got)
		}
		pass(time.Minute)
		got = explain("a", "dead", "+job +record +letter")
		if n := strings.Count(got[:strings.Index(got, `"record"`)], `"kind":"transient"`); n != 3 || !strings.Contains(got, `"tenant":"club"`) {
			t.Errorf("%d attempts, want 3: %s", n, got)
		}
		d.kind.Store(0)
		d.post("queues/crm-events/pause", "")
		if got := d.post("crm/retry?tenant=club&id=a", ""); got != `{"count":1}`+"\n" {
			t.Errorf("%s", got)
		}
		d.logged("dead event opened again by hand", "event=a")
		pass(10 * time.Second)
		if got := explain("a", "retrying", "+record -letter"); !strings.Contains(got, `"other_jobs":[{"queue":"crm-events","id":"retry-1.`) {
			t.Errorf("its other job is not shown: %s", got)
		}
		d.post("queues/crm-events/resume", "")
		pass(time.Minute)
		explain("a", "completed", "+record -letter")
		d.send(crmEvent("u", "unheard.of"))
		pass(time.Second)
		explain("u", "skipped", "+record")
		d.kind.Store(uint32(tidemill.Validation))
		d.send(crmEvent("v", "member.created"))
		pass(time.Second)
		if got := explain("v", "failed", "+record -letter"); strings.Count(got, `"kind":"validation"`) != 2 {
			t.Errorf("%s", got)
		}

		refused(t, d.ask("POST", "crm/retry?tenant=club&id=a", ""), 404, "job not found")
		refused(t, d.ask("GET", "crm/events?tenant=club&id=nix", ""), 404, "nothing is known of this event")
		refused(t, d.ask("GET", "crm/events?tenant=club", ""), 400, "say which event")
		refused(t, d.ask("GET", "crm/events?tenant=a/b&id=c", ""), 400, "no tenant is called so")
	})
}

func TestTheSyncLogIsListed(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.send(crmEvent("a", "member.created"))
		pass(24 * time.Hour)
		d.kind.Store(uint32(tidemill.Validation))
		d.send(crmEvent("b", "member.updated"))
		pass(24 * time.Hour)
		first := `{"tenant":"club","id":"a","type":"member.created","state":"COMPLETED","attempts":1,"created_at":"2000-01-01T00:00:00Z","started_at":"2000-01-01T00:00:00Z","completed_at":"2000-01-01T00:00:00Z"}` + "\n"
		second := d.get("crm/log?tenant=club&type=member.updated")
		if !strings.Contains(second, `"state":"FAILED","kind":"validation","error":"`) || !strings.Contains(second, `"failed_at":"2000-01-02T00:00:00Z"`) {
			t.Errorf("%s", second)
		}
		for query, want := range map[string]string{
			"": first + second, "order=newest": second + first, "order=newest&max=1": second, "order=newest&until=2000-01-01": first, "max=1": first, "state=failed": second, "state=COMPLETED": first, "state=processing": "",
			"since=2000-01-01&until=2000-01-01": first, "since=2000-01-02": second, "until=2000-01-02": first + second,
			"since=2000-01-02T00:00:00Z&until=2000-01-02T00:00:01Z": second, "until=2000-01-02T00:00:00Z": first + second, "until=2000-01-01T23:59:59Z": first, "since=2000-01-02T00:00:00.001Z": "", "tenant=other": "",
		} {
			if got := d.get("crm/log?" + query); got != want {
				t.Errorf("%s lists\n%swant\n%s", query, got, want)
			}
		}
		if got := d.get("crm/log?max=1&payload=true"); !strings.Contains(got, `"payload":"{\"id\":\"a\"`) {
			t.Errorf("%s", got)
		}
		for query, want := range map[string]string{"since=soon": "is no time", "max=x": "is not a count", "state=gone": "want processing, completed or failed", "since=2000-01-02&until=2000-01-01": "is not after"} {
			refused(t, d.ask("GET", "crm/log?"+query, ""), 400, want)
		}
	})
}

func TestReplaysAreStartedShownAndStopped(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.send(crmEvent("a", "member.created"), crmEvent("b", "member.created"), crmEvent("c", "member.updated"))
		pass(time.Minute)
		if got := d.post("crm/replays", `{"type":"member.created","dry_run":true}`); got != `{"count":2}`+"\n" {
			t.Errorf("%s", got)
		}
		calls := d.calls.Load()
		w := d.ask("POST", "crm/replays", `{"id":"again","since":"2000-01-01","until":"2000-01-01","type":"member.created","tenant":"club"}`)
		if w.Code != 201 || d.field(w.Body.String(), "id") != "again" || d.field(w.Body.String(), "state") != "running" || d.field(w.Body.String(), "since") != "2000-01-01T00:00:00Z" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		d.logged("replay asked for by hand", "replay=again")
		pass(time.Minute)
		if n := d.calls.Load() - calls; n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		got := d.get("crm/replays/again")
		if d.field(got, "state") != "done" || d.field(got, "queued") != 2.0 || d.field(got, "share") != 1.0 || d.field(got, "ended_at") == nil {
			t.Errorf("%s", got)
		}
		w = d.ask("POST", "crm/replays", `{"id":"again","since":"2000-01-01","until":"2000-01-01","type":"member.created","tenant":"club"}`)
		if w.Code != 200 || d.field(w.Body.String(), "known_before") != true {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		refused(t, d.ask("POST", "crm/replays", `{"id":"again","all":true}`), 409, "another replay has that name")

		d.post("queues/crm-events/pause", "")
		if w := d.ask("POST", "crm/replays", `{"id":"second","all":true}`); w.Code != 201 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if got := d.get("crm/status"); d.field(got, "open_replays") != 1.0 {
			t.Errorf("%s", got)
		}
		stopped := d.post("crm/replays/second/stop", "")
		if s := d.field(stopped, "state"); s != "stopping" && s != "stopped" {
			t.Errorf("%s", stopped)
		}
		d.logged("replay stopped by hand", "replay=second")
		pass(time.Minute)
		all := lines(d.get("crm/replays"))
		if len(all) != 2 || d.field(all[0], "id") != "second" || d.field(all[0], "state") != "stopped" || d.field(all[1], "id") != "again" {
			t.Errorf("%s", all)
		}

		refused(t, d.ask("GET", "crm/replays/nix", ""), 404, "there is no such replay")
		refused(t, d.ask("POST", "crm/replays/nix/stop", ""), 404, "there is no such replay")
		for body, want := range map[string]string{
			"": "has no body", "{}": "say what to replay", `{"form":"2000-01-01"}`: `unknown field "form": there are id, since, until`, `{"since":"soon"}`: "is no time",
			`{"since":"2000-01-02","until":"2000-01-01"}`: "is not after", `{"id":"a b","all":true}`: "its name", `{"type":"member.*"}`: "patterns are not possible",
		} {
			refused(t, d.ask("POST", "crm/replays", body), 400, want)
		}
		refused(t, d.ask("POST", "crm/replays", `{"tenant":"nobody"}`), 422, "the sync log has no such event, and nothing is replayed")
		refused(t, d.ask("POST", "crm/replays", `{"since":"2000-01-03"}`), 400, "it begins at 2000-01-03T00:00:00Z, which is still to come")
	})
}

func TestLettersOfCRMAreFoundWhereTheyAre(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.kind.Store(uint32(tidemill.Business))
		d.send(crmEvent("4711", "member.created"), crmEvent("e/1", "member.created"))
		pass(time.Second)
		if got := d.get("dead?pipeline=crm-events&tenant=club&kind=business"); len(lines(got)) != 2 || !strings.Contains(got, `"tenant":"club"`) {
			t.Errorf("%s", got)
		}
		if got := d.get("dead/4711"); d.field(got, "id") != "4711" { // no letter has that number
			t.Errorf("%s", got)
		}
		if got := d.get("dead/e%2F1"); d.field(got, "id") != "e/1" {
			t.Errorf("%s", got)
		}
		refused(t, d.ask("GET", "dead?site=a&tenant=b", ""), 400, "leave one out")
		d.kind.Store(0)
		if got := d.post("dead/replay?pipeline=crm-events&id=4711", ""); d.field(got, "count") != 1.0 {
			t.Errorf("%s", got)
		}
		pass(10 * time.Second)
		if got := lines(d.get("dead?system=crm")); len(got) != 1 || d.field(got[0], "id") != "e/1" {
			t.Errorf("%s", got)
		}
		if got := d.get("crm/events?tenant=club&id=4711"); d.field(got, "state") != "completed" {
			t.Errorf("%s", got)
		}
	})
}

func TestAQueueIsCleanedByState(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.kind.Store(uint32(tidemill.Transient))
		d.send(crmEvent("delayed", "member.created"), crmEvent("completed", "unheard.of"))
		pass(time.Millisecond)
		d.kind.Store(uint32(tidemill.Business))
		d.send(crmEvent("failed", "member.created"))
		pass(time.Millisecond)
		d.post("queues/crm-events/pause", "")
		d.send(crmEvent("waiting", "member.created"))
		count := func(query string, want float64) {
			t.Helper()
			if got := d.post("queues/crm-events/clean?"+query, ""); d.field(got, "count") != want {
				t.Errorf("clean %s: %s, want %v", query, got, want)
			}
		}
		count("state=all&dry_run=true", 4)
		count("all=true&dry_run=true", 2)
		count("state=wait", 1)
		count("state=waiting", 0)
		count("state=delayed&dry_run=true", 1)
		count("state=completed", 1)
		count("state=all", 2)
		refused(t, d.ask("POST", "queues/crm-events/clean?state=leased", ""), 400, "clean is for those of the states")
		if st, err := d.queues.Stats(t.Context(), crm.Queue); err != nil || st.Waiting+st.Delayed+st.Leased+st.Completed+st.Failed != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// brokenQueues cannot be added to.
type brokenQueues struct{ *memoryqueue.Store }

func (brokenQueues) Add(context.Context, []*tidemill.Message, []queue.Added) error {
	return tidemill.Fail(tidemill.Transient, "connection refused")
}

func TestWhenCRMCannotBeAsked(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sys, err := crm.New(crm.Parts{Queues: brokenQueues{memoryqueue.New(memoryqueue.Options{})}, DeadLetters: letters, Log: tableledger.Memory(tableledger.Options{}), Replays: tableledger.Memory(tableledger.Options{}), Profiles: profiles,
		Handlers: []handler.Spec{{Name: "test", Types: []string{"*"}, Handler: handler.Func(func(context.Context, *handler.Call) error { return errors.New("never called") })}}}, crm.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	common := &answer.Common{}
	d := newDesk(t, admin.Parts{Common: common, Rooms: only(crm.Name, (&crmapi.API{Common: common, CRM: sys}).Operations())})
	w := d.ask("POST", "crm/events", crmEvent("a", "member.created"))
	if refused(t, w, 503, "connection refused"); w.Header().Get("Retry-After") != "5" {
		t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
	}
	for _, c := range []struct{ method, path string }{{"GET", "crm/status"}, {"GET", "crm/log"}, {"POST", "crm/replays"}, {"POST", "crm/events"}} {
		refused(t, newDesk(t, admin.Parts{}).ask(c.method, c.path, "{}"), 404, "CRM does not run in this instance")
	}
}
