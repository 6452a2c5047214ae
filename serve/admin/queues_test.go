package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// queues is a desk over two queues. Of the first, q, jobs 0 and 1 of shop wait, job 2 of
// blog waits with a higher priority, 3 is put off after a try, 4 is out, 5 was delivered
// and 6 and 7 have died.
func queues(t *testing.T) (*desk, *memoryqueue.Store) {
	t.Helper()
	s := memoryqueue.New(memoryqueue.Options{Capacity: 10})
	if _, err := s.Set(t.Context(), "q", func(s *queue.Settings) {
		s.Fair, s.Completed.Count, s.Failed.Count, s.Weights = queue.Unfair, 10, 10, map[uint8]int{3: 9}
	}); err != nil {
		t.Fatal(err)
	}
	var jobs []*tidemill.Message
	for i, what := range []string{"page_view", "purchase", "purchase", "page_view", "page_view", "page_view", "page_view", "page_view"} {
		m := &tidemill.Message{To: "q", ID: fmt.Sprintf("e%d/p", i), Tenant: "shop", Type: what, Payload: fmt.Append(nil, "payload ", i),
			Header: []tidemill.Field{{Name: []byte("gpc"), Value: []byte{0xff}}}}
		if i == 2 {
			m.Tenant = "blog"
		}
		jobs = append(jobs, m)
	}
	add := func(ms ...*tidemill.Message) {
		t.Helper()
		if err := s.Add(t.Context(), ms, nil); err != nil {
			t.Fatal(err)
		}
	}
	add(jobs[3:]...)
	src := s.Open("q", queue.Options{})
	out := make([]*tidemill.Message, 5)
	for i := range out {
		out[i] = new(tidemill.Message)
	}
	if n, err := src.Receive(t.Context(), out); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	end := func(i int, e tidemill.Settlement) tidemill.Settlement {
		e.ID, e.Mark = out[i].ID, out[i].Mark
		return e
	}
	if err := src.Settle(t.Context(), []tidemill.Settlement{
		end(0, tidemill.Settlement{End: tidemill.Again, CountTry: true, After: time.Hour, Kind: tidemill.Partner, Cause: "answered 503"}),
		end(2, tidemill.Settlement{Fate: tidemill.Delivered}),
		end(3, tidemill.Settlement{Fate: tidemill.Dead, Cause: "refused"}), end(4, tidemill.Settlement{Fate: tidemill.Dead, Cause: "refused"}),
	}); err != nil {
		t.Fatal(err)
	}
	jobs[2].Priority = 3
	add(jobs[:3]...)
	add(&tidemill.Message{To: "other", ID: "x"})
	return newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}}), s
}

func TestQueuesAreListedAndShown(t *testing.T) {
	d, _ := queues(t)
	ls := lines(d.get("queues"))
	if len(ls) != 2 || d.field(ls[0], "name") != "other" {
		t.Fatalf("queues: %s", ls)
	}
	type depth struct {
		Priority uint8
		Tenant   string
		Waiting  int64
		Oldest   time.Time `json:"oldest_added_at"`
	}
	var q struct {
		Name, ETag                                  string
		Waiting, Delayed, Leased, Completed, Failed int64
		Oldest                                      time.Time `json:"oldest_added_at"`
		Age                                         float64   `json:"oldest_age_seconds"`
		Paused, Closed                              bool
		Priorities, Tenants                         []depth
		Settings                                    *queue.Settings
	}
	d.into(ls[1], &q)
	if q.Name != "q" || q.Waiting != 3 || q.Delayed != 1 || q.Leased != 1 || q.Completed != 1 || q.Failed != 2 || q.Oldest.IsZero() || q.Age < 0 ||
		q.Settings != nil || q.Tenants != nil || q.Priorities != nil {
		t.Errorf("listed as %s", ls[1])
	}
	d.into(d.get("queues/q"), &q)
	if len(q.Priorities) != 2 || q.Priorities[0].Priority != 3 || q.Priorities[0].Waiting != 1 || q.Priorities[1].Waiting != 2 {
		t.Errorf("by priority there is %+v", q.Priorities)
	}
	if q.Settings == nil || q.Settings.Fair != queue.Unfair || len(q.Tenants) != 2 || q.Tenants[0].Tenant != "shop" || q.Tenants[0].Waiting != 2 {
		t.Errorf("shown as %+v", q)
	}
	refused(t, d.ask("GET", "queues/nix", ""), http.StatusNotFound, `there is no queue "nix"; there are other, q`)
}

func TestJobsAreListedByEveryFilter(t *testing.T) {
	d, _ := queues(t)
	for query, want := range map[string]string{
		"":                           "e3/p e4/p e0/p e1/p e2/p",
		"state=waiting":              "e0/p e1/p e2/p",
		"state=delayed":              "e3/p",
		"state=leased":               "e4/p",
		"state=completed":            "e5/p",
		"state=failed":               "e6/p e7/p",
		"tenant=blog":                "e2/p",
		"type=purchase":              "e1/p e2/p",
		"id=e1/p&id=e3/p":            "e3/p e1/p",
		"max=2":                      "e3/p e4/p",
		"until=2020-01-01T00:00:00Z": "",
		"state=failed&until=2999-01-01T00:00:00Z&max=1": "e6/p",
	} {
		var got []string
		for _, l := range lines(d.get("queues/q/jobs?" + query)) {
			got = append(got, fmt.Sprint(d.field(l, "id")))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("jobs?%s lists %v, want %s", query, got, want)
		}
	}
	for query, want := range map[string]string{"state=gone": "want waiting, delayed, leased, completed or failed", "until=soon": "is no time", "max=-1": "is not a count"} {
		refused(t, d.ask("GET", "queues/q/jobs?"+query, ""), http.StatusBadRequest, want)
	}
}

func TestAJobIsShownWithEveryAttempt(t *testing.T) {
	d, _ := queues(t)
	var j struct {
		Queue, ETag, ID, Tenant, Type, State, Cause, Payload, Fate string
		Priority, Tries, Handed                                    int
		Added                                                      time.Time  `json:"added_at"`
		Due                                                        *time.Time `json:"due_at"`
		Time                                                       *time.Time
		Ended                                                      *time.Time `json:"ended_at"`
		Fields                                                     []struct {
			Name, Value string
			Base64      string `json:"value_base64"`
		}
		Attempts []struct {
			At          time.Time
			Kind, Cause string
		}
	}
	for _, tenant := range []string{"&tenant=shop", ""} {
		d.into(d.get("queues/q/job?id=e3/p"+tenant), &j)
		if j.ID != "e3/p" || j.State != "delayed" || j.Tries != 1 || j.Handed != 1 || j.Cause != "answered 503" || j.Payload != "payload 3" || j.Due == nil ||
			len(j.Attempts) != 1 || j.Attempts[0].Kind != "partner_error" || j.Attempts[0].Cause != "answered 503" || len(j.Fields) != 1 || j.Fields[0].Base64 != "/w==" {
			t.Errorf("shown as %+v", j)
		}
	}
	if got := d.get("queues/q/job?id=e6/p"); d.field(got, "state") != "failed" || d.field(got, "fate") != "dead" || d.field(got, "ended_at") == nil {
		t.Errorf("a failed job is %s", got)
	}
	refused(t, d.ask("GET", "queues/q/job", ""), http.StatusBadRequest, "say which job")
	refused(t, d.ask("GET", "queues/q/job?id=nix", ""), http.StatusNotFound, "there is no job nix in queue q: it has ended or was removed")
	refused(t, d.ask("GET", "queues/q/job?id=e3/p&tenant=blog", ""), http.StatusNotFound, "there is no such job")
}

func TestAJobOfSeveralTenantsHasToBeNamedWhole(t *testing.T) {
	d, s := queues(t)
	if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "e1/p", Tenant: "blog"}}, nil); err != nil {
		t.Fatal(err)
	}
	refused(t, d.ask("GET", "queues/q/job?id=e1/p", ""), http.StatusConflict, "say which tenant")
	if got := d.get("queues/q/job?id=e1/p&tenant=blog"); d.field(got, "tenant") != "blog" {
		t.Errorf("shown as %s", got)
	}
}

func TestAJobIsEdited(t *testing.T) {
	d, s := queues(t)
	if got := d.put("queues/q/job/payload?id=e0/p&tenant=shop", "mended"); d.field(got, "payload") != "mended" {
		t.Errorf("answered %s", got)
	}
	j, err := s.Look(t.Context(), queue.Name{Queue: "q", Tenant: "shop", ID: "e0/p"})
	if err != nil || string(j.Payload) != "mended" {
		t.Errorf("the job is %+v, %v", j, err)
	}
	d.logged("job edited by hand", "queue=q", "job=e0/p", "bytes=6")
	refused(t, d.ask("PUT", "queues/q/job/payload?id=e4/p", "x"), http.StatusConflict, "somebody works on the job")
	refused(t, d.ask("PUT", "queues/q/job/payload?id=e5/p&tenant=shop", "x"), http.StatusNotFound, "there is no such job")
	refused(t, d.ask("PUT", "queues/q/job/payload?id=e0/p", ""), http.StatusBadRequest, "no body")
}

func TestAQueueIsPausedDrainedAndResumed(t *testing.T) {
	d, s := queues(t)
	settings := func() queue.Settings {
		t.Helper()
		is, err := s.Settings(context.WithoutCancel(t.Context()), "q")
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	for range 2 { // twice is as once
		if got := d.post("queues/q/pause", ""); d.field(got, "paused") != true || !settings().Paused || settings().Closed {
			t.Errorf("paused: %s", got)
		}
	}
	if got := d.post("queues/q/drain", ""); d.field(got, "closed") != true || d.field(got, "waiting") != 3.0 || !settings().Paused || !settings().Closed {
		t.Errorf("draining: %s", got)
	}
	refused(t, d.ask("POST", "queues/q/retry?all=true", ""), http.StatusConflict, "is being drained")
	if got := d.post("queues/q/resume", ""); d.field(got, "closed") != false || settings().Paused || settings().Closed || settings().Fair != queue.Unfair {
		t.Errorf("resumed: %s", got)
	}
	d.logged("queue steered by hand", "queue=q", "what=drain")
	refused(t, d.ask("POST", "queues/nix/pause", ""), http.StatusNotFound, `no queue "nix"`)
}

func TestAPauseForATimeEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{})
		for _, q := range []string{"short", "anew", "ever"} {
			if _, err := s.Set(t.Context(), q, func(s *queue.Settings) { s.Limit.AtOnce = 3 }); err != nil {
				t.Fatal(err)
			}
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}})
		defer d.api.Close()
		loop := d.api.Sample()
		pass := func(long time.Duration, want string) {
			t.Helper()
			time.Sleep(long)
			if err := loop.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			var is []string
			for _, q := range []string{"short", "anew", "ever"} {
				at, err := s.Settings(t.Context(), q)
				if err != nil || at.Limit.AtOnce != 3 {
					t.Fatal(at, err)
				}
				is = append(is, fmt.Sprint(at.Paused))
			}
			if got := strings.Join(is, " "); got != want {
				t.Errorf("after %v more paused: %s, want %s", long, got, want)
			}
		}
		refused(t, d.ask("POST", "queues/short/pause?for=soon", ""), http.StatusBadRequest, `for="soon" is no time to wait: write 10m or 2h`)
		refused(t, d.ask("POST", "queues/short/pause?for=-1m", ""), http.StatusBadRequest, "is no time to wait")
		until := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		if got := d.post("queues/short/pause?for=1m", ""); d.field(got, "paused_until") != until {
			t.Errorf("paused: %s, want until %s", got, until)
		}
		d.post("queues/anew/pause?for=1m", "")
		d.post("queues/ever/pause?for=1m", "")
		d.post("queues/ever/pause", "") // until it is resumed
		pass(30*time.Second, "true true true")
		d.post("queues/anew/pause?for=1m", "")
		pass(30*time.Second, "false true true")
		d.logged("pause of a queue is over", "queue=short")
		pass(30*time.Second, "false false true")
		d.post("queues/ever/pause?for=1m", "")
		d.post("queues/ever/resume", "")
		d.post("queues/ever/pause", "")
		pass(time.Hour, "false false true")
	})
}

// Routing waits for a queue that takes nothing, and other partners with it.
func TestTheQueueOfAPartnerIsNotDrained(t *testing.T) {
	s := memoryqueue.New(memoryqueue.Options{})
	for _, q := range []string{"s2s.here", "s2s.gone", "ingest.low"} {
		if _, err := s.Set(t.Context(), q, func(s *queue.Settings) { s.Completed.Count = 10 }); err != nil {
			t.Fatal(err)
		}
	}
	cfg := loaded(t)
	deliveryconfig.Of(cfg).Partners = []partner.Partner{{Name: "here"}}
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Config: constant(cfg)})
	refused(t, d.ask("POST", "queues/s2s.here/drain", ""), http.StatusConflict, "no event is routed")
	refused(t, d.ask("POST", "queues/s2s.here/settings", `{"closed":true}`), http.StatusConflict, "no event is routed")
	if is, err := s.Settings(t.Context(), "s2s.here"); err != nil || is.Closed {
		t.Errorf("%+v, %v", is, err)
	}
	d.post("queues/s2s.here/pause", "")
	d.post("queues/s2s.gone/drain", "")
	d.post("queues/ingest.low/settings", `{"closed":true}`)
}

func TestSettingsAreMerged(t *testing.T) {
	d, s := queues(t)
	for _, c := range []struct{ patch, want string }{
		{`{"limit":{"per_second":50,"burst":5}}`, `{"weights":{"3":9},"fair":"unfair","limit":{"per_second":50,"burst":5},"completed":{"count":10},"failed":{"count":10}}`},
		{`{"limit":{"burst":null},"weights":{"3":2,"5":7},"tenants":{"shop":{"at_once":2}}}`,
			`{"weights":{"3":2,"5":7},"fair":"unfair","limit":{"per_second":50},"tenants":{"shop":{"at_once":2}},"completed":{"count":10},"failed":{"count":10}}`},
		{`{"limit":null,"weights":{"5":null},"tenants":null,"fair":"keys","completed":{"count":1},"failed":null}`, `{"weights":{"3":2},"fair":"keys","completed":{"count":1}}`},
		{`{}`, `{"weights":{"3":2},"fair":"keys","completed":{"count":1}}`},
	} {
		if got := d.post("queues/q/settings", c.patch); got != c.want+"\n" {
			t.Errorf("%s makes\n%swant\n%s", c.patch, got, c.want)
		}
	}
	d.logged("queue set by hand", "queue=q")
	before, _ := s.Settings(t.Context(), "q")
	for patch, want := range map[string]string{
		`{"limit":{"per_second":-1}}`: "want no negative number",
		`{"limit":{"rate":1}}`:        `unknown field "rate": there are per_second, burst, at_once`,
		`{"limt":null}`:               `unknown field "limt": did you mean "limit"?`,
		`{"limit":5}`:                 "no settings of a queue",
		`{"fair":"key"}`:              `did you mean "keys"?`,
		`[]`:                          "no JSON object",
		`limit=5`:                     "no JSON",
		``:                            "no body",
		`{"ordered":true}`:            "holds jobs",
	} {
		refused(t, d.ask("POST", "queues/q/settings", patch), http.StatusBadRequest, want)
	}
	if after, _ := s.Settings(t.Context(), "q"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("refused settings made %+v of %+v", after, before)
	}
}

func TestJobsAreMovedByFilterAndCountedBefore(t *testing.T) {
	for _, c := range []struct {
		path string
		want float64
		left string // waiting, delayed, leased, completed, failed
	}{
		{"retry?all=true", 2, "5 1 1 1 0"},
		{"retry?id=e6/p", 1, "4 1 1 1 1"},
		{"retry?max=1", 1, "4 1 1 1 1"},
		{"retry?tenant=blog", 0, "3 1 1 1 2"},
		{"promote?all=true", 1, "4 0 1 1 2"},
		{"promote?type=purchase", 0, "3 1 1 1 2"},
		{"remove?all=true", 4, "0 0 1 1 2"},
		{"remove?state=delayed", 1, "3 0 1 1 2"},
		{"remove?max=2", 2, "1 1 1 1 2"},
		{"remove?max=4", 4, "0 0 1 1 2"},
		{"remove?max=9", 4, "0 0 1 1 2"},
		{"remove?type=purchase&tenant=shop", 1, "2 1 1 1 2"},
		{"remove?id=e4/p&id=e5/p&id=e0/p", 1, "2 1 1 1 2"},
		{"clean?all=true", 3, "3 1 1 0 0"},
		{"clean?state=failed", 2, "3 1 1 1 0"},
		{"clean?state=failed&max=1", 1, "3 1 1 1 1"},
		{"clean?until=2020-01-01T00:00:00Z", 0, "3 1 1 1 2"},
		{"clean?until=2999-01-01T00:00:00Z", 3, "3 1 1 0 0"},
	} {
		d, s := queues(t)
		what, _, _ := strings.Cut(c.path, "?")
		if got := d.post("queues/q/"+c.path+"&dry_run=true", ""); d.field(got, "count") != c.want {
			t.Errorf("a dry run of %s: %s, want %v", c.path, got, c.want)
		}
		if st, _ := s.Stats(t.Context(), "q"); st.Waiting != 3 || st.Delayed != 1 || st.Completed != 1 || st.Failed != 2 {
			t.Errorf("a dry run of %s left %+v", c.path, st)
		}
		if got := d.post("queues/q/"+c.path, ""); d.field(got, "count") != c.want {
			t.Errorf("%s: %s, want %v", c.path, got, c.want)
		}
		st, err := s.Stats(t.Context(), "q")
		if got := fmt.Sprint(st.Waiting, st.Delayed, st.Leased, st.Completed, st.Failed); err != nil || got != c.left {
			t.Errorf("%s left %s, %v; want %s", c.path, got, err, c.left)
		}
		d.logged("jobs moved by hand", "queue=q", "what="+what, fmt.Sprint("count=", c.want), "dry_run=false")
	}
}

func TestToMeanAllJobsIsToSaySo(t *testing.T) {
	d, s := queues(t)
	for _, what := range []string{"retry", "promote", "remove", "clean"} {
		refused(t, d.ask("POST", "queues/q/"+what, ""), http.StatusBadRequest, "say which jobs to "+what)
		refused(t, d.ask("POST", "queues/q/"+what+"?dry_run=true", ""), http.StatusBadRequest, "say which jobs to "+what)
		refused(t, d.ask("POST", "queues/q/"+what+"?state=leased&all=true", ""), http.StatusBadRequest, "is for those of the states")
		refused(t, d.ask("POST", "queues/nix/"+what+"?all=true", ""), http.StatusNotFound, "no queue")
		refused(t, d.ask("POST", "queues/q/"+what+"?max=x", ""), http.StatusBadRequest, "is not a count")
	}
	refused(t, d.ask("POST", "queues/q/retry?state=failed", ""), http.StatusBadRequest, "say which jobs to retry")
	many := url.Values{"id": strings.Split(strings.Repeat("x,", 10_000)+"x", ",")}
	refused(t, d.ask("POST", "queues/q/retry?"+many.Encode(), ""), http.StatusBadRequest, "exceeded limit")
	if st, err := s.Stats(t.Context(), "q"); err != nil || st.Waiting != 3 || st.Failed != 2 {
		t.Errorf("left %+v, %v", st, err)
	}
}

func TestAQueueThatFillsSaysHowFarItCame(t *testing.T) {
	d, s := queues(t) // it holds 5 of 10
	for i := range 4 {
		if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: fmt.Sprint("more", i)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, d.ask("POST", "queues/q/retry?all=true", ""), http.StatusConflict, `after 1 jobs: queue "q" is full`)
}
