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
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
)

// bulkDesk is a desk with dead letters of the pipelines p and q, and jobs of the queue jobs.
type bulkDesk struct {
	*desk
	letters deadletter.Store
	queues  *memoryqueue.Store
	store   bulk.Store
	keys    int
}

// operates calls do with a desk, in a time of its own.
func operates(t *testing.T, do func(d *bulkDesk)) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := &bulkDesk{letters: letters, queues: memoryqueue.New(memoryqueue.Options{}), store: tablebulk.Memory()}
		d.desk = newDesk(t, admin.Parts{Letters: letters, Bulk: d.store, Trail: tabletrail.Memory(), Once: tableledger.Memory(tableledger.Options{}), Common: &answer.Common{Queues: d.queues}})
		do(d)
	})
}

// dies puts n dead letters of a pipeline.
func (d *bulkDesk) dies(pipeline, tenant string, kind tidemill.Kind, from, n int) {
	d.Helper()
	for i := from; i < from+n; i++ {
		m := &tidemill.Message{ID: fmt.Sprintf("%s%d", pipeline, i), Tenant: tenant, Payload: []byte("{}")}
		if err := d.letters.Put(d.Context(), []tidemill.DeadLetter{{Pipeline: pipeline, Message: m, Kind: kind, Cause: "because", At: time.Now()}}); err != nil {
			d.Fatal(err)
		}
	}
	time.Sleep(time.Millisecond) // what is seen was there before
}

// fails adds jobs of a queue and lets them fail.
func (d *bulkDesk) fails(tenant string, from, n int) {
	d.Helper()
	if _, err := d.queues.Set(d.Context(), "jobs", func(s *queue.Settings) { s.Failed.Count = 1000 }); err != nil {
		d.Fatal(err)
	}
	var ms []*tidemill.Message
	for i := from; i < from+n; i++ {
		ms = append(ms, &tidemill.Message{To: "jobs", ID: fmt.Sprint("j", i), Tenant: tenant, Type: "order"})
	}
	if err := d.queues.Add(d.Context(), ms, nil); err != nil {
		d.Fatal(err)
	}
	src, out := d.queues.Open("jobs", queue.Options{}), make([]*tidemill.Message, n)
	for i := range out {
		out[i] = new(tidemill.Message)
	}
	got, err := src.Receive(d.Context(), out)
	if err != nil || got != n {
		d.Fatal(got, err)
	}
	var ends []tidemill.Settlement
	for _, m := range out {
		ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Dead, Cause: "refused"})
	}
	if err := src.Settle(d.Context(), ends); err != nil {
		d.Fatal(err)
	}
	time.Sleep(time.Millisecond)
}

func (d *bulkDesk) preview(query string) (p api.OperationPreview) {
	d.Helper()
	d.into(d.post("operations/preview?"+query, ""), &p)
	return p
}

// starting asks for a start, with a key of its own.
func (d *bulkDesk) starting(query string) *httptest.ResponseRecorder {
	d.keys++
	w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+"operations?"+query, "")
	r.Header.Set("Idempotency-Key", fmt.Sprint(d.keys))
	d.api.ServeHTTP(w, r)
	asDescribed(d.T, r, w)
	return w
}

func (d *bulkDesk) start(query string) (o api.Operation) {
	d.Helper()
	d.into(d.good(d.starting(query)), &o)
	return o
}

// ends runs operations until this one has ended.
func (d *bulkDesk) ends(id string) (o api.Operation) {
	d.Helper()
	run := d.api.Operate()
	for range 500 {
		if err := run(d.Context()); err != nil {
			d.Fatal(err)
		}
		if d.into(d.get("operations/"+id), &o); o.Ended != nil {
			return o
		}
		time.Sleep(time.Second)
	}
	d.Fatalf("it never ends: %+v", o)
	return o
}

func (d *bulkDesk) count(f deadletter.Filter) int {
	d.Helper()
	n, err := d.letters.Count(d.Context(), f)
	if err != nil {
		d.Fatal(err)
	}
	return n
}

func TestAPreviewShowsWhatWouldBeChanged(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 30)
		d.dies("p", "blog", tidemill.Partner, 30, 10)
		d.dies("q", "shop", tidemill.Timeout, 0, 5)
		p := d.preview("what=dead.delete&pipeline=p&since=1h&rate=10/s")
		if p.Count != 40 || p.AtLeast || p.Looked != 40 || p.Kinds["timeout"] != 30 || p.Owners["shop"] != 30 || p.Owners["blog"] != 10 || len(p.Sample) != 20 || p.After != 60 || p.Takes != 4 {
			d.Errorf("the preview is %+v", p)
		}
		if s := p.Sample[0]; s.ID != "p0" || s.Owner != "shop" || s.Kind != "timeout" || s.Group != "p" || s.Cause != "because" {
			d.Errorf("the first is %+v", s)
		}
		if want := "tidemill operations start dead.delete --pipeline=p --since=" + p.Filter.Since + " --rate=10/s"; p.Command != want || strings.Contains(p.Filter.Since, "1h") {
			d.Errorf("the command is %s, want %s", p.Command, want)
		}
		if d.count(deadletter.Filter{}) != 45 {
			d.Error("a preview changed something")
		}
		if one := d.preview("what=dead.delete&id=p1"); one.Count != 1 || one.After != 10 {
			d.Errorf("of one it is %+v", one)
		}
		// The request that it names does the same.
		path, query, _ := strings.Cut(strings.TrimPrefix(p.Request, "POST "), "?")
		if path != admin.Prefix+"operations" {
			d.Errorf("the request is %s", p.Request)
		}
		if o := d.start(query); o.Count != 40 || o.What != "dead.delete" || o.Rate != "10/s" || o.State != "scheduled" {
			d.Errorf("it started %+v", o)
		}
	})
}

func TestACountThatIsNotExactSaysSo(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		var ms []*tidemill.Message
		for i := range 10_500 {
			ms = append(ms, &tidemill.Message{To: "jobs", ID: fmt.Sprint(i), Tenant: fmt.Sprint("t", i%300)})
		}
		if err := d.queues.Add(d.Context(), ms, nil); err != nil {
			d.Fatal(err)
		}
		time.Sleep(time.Second)
		p := d.preview("what=jobs.remove&queue=jobs&all=true")
		if p.Looked != 10_000 || p.Count < 10_000 || len(p.Owners) > 101 || p.Owners["(others)"] == 0 || !p.AtLeast && p.Count != 10_500 {
			d.Errorf("looked at %d, counted %d (at least %v), %d owners", p.Looked, p.Count, p.AtLeast, len(p.Owners))
		}
		if p := d.preview("what=jobs.remove&queue=jobs&all=true&max=7"); p.Count != 7 || p.AtLeast {
			d.Errorf("of at most 7 it counts %d", p.Count)
		}
	})
}

func TestAnOperationChangesWhatThePreviewShowed(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 200)
		d.dies("q", "shop", tidemill.Timeout, 0, 50)
		p := d.preview("what=dead.delete&pipeline=p")
		d.dies("p", "shop", tidemill.Timeout, 200, 20)                                                                                    // new ones
		d.dies("p", "shop", tidemill.Partner, 0, 10)                                                                                      // that died again
		if n, err := d.letters.Replay(d.Context(), deadletter.Filter{Pipeline: "p", IDs: []string{"p50", "p51"}}); n != 2 || err != nil { // on their way
			d.Fatal(n, err)
		}
		o := d.start("preview=" + p.ID)
		if o.By != "key:admin" || time.Until(o.Starts) < 59*time.Second {
			d.Errorf("it is %+v", o)
		}
		if d.count(deadletter.Filter{Pipeline: "p"}) != 220 {
			d.Error("it began in the time in which it can be stopped")
		}
		o = d.ends(o.ID)
		if o.State != "done" || o.Changed != 188 || o.Gone != 12 || o.Ended.Sub(o.Starts) > 10*time.Second {
			d.Errorf("it ended as %+v", o)
		}
		left := map[string]bool{}
		for l, err := range d.letters.List(d.Context(), deadletter.Filter{Pipeline: "p"}) {
			if err != nil {
				d.Fatal(err)
			}
			left[l.ID] = true
		}
		if len(left) != 32 || !left["p0"] || !left["p9"] || left["p10"] || !left["p50"] || !left["p219"] || d.count(deadletter.Filter{Pipeline: "q"}) != 50 {
			d.Errorf("%d are left: %v", len(left), left)
		}
		books, err := d.letters.Open("p").(tidemill.Bookkeeper).Books(d.Context())
		if err != nil || books.Settled.Skipped != 188 || books.Off() != 0 {
			d.Errorf("the books are %+v, %v", books, err)
		}
	})
}

func TestUndoLeavesNothingChanged(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 20)
		d.fails("shop", 0, 20)
		for _, query := range []string{"what=dead.delete&all=true", "what=jobs.clean&queue=jobs&all=true"} {
			o := d.start("preview=" + d.preview(query).ID)
			run := d.api.Operate()
			for range 58 {
				if err := run(d.Context()); err != nil {
					d.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			var stopped api.Operation
			d.into(d.post("operations/"+o.ID+"/stop", ""), &stopped)
			if stopped.State != "stopped" || stopped.StoppedBy != "key:admin" || stopped.Changed != 0 || stopped.Begun != nil {
				d.Errorf("it is %+v", stopped)
			}
			time.Sleep(time.Hour)
			if err := run(d.Context()); err != nil {
				d.Fatal(err)
			}
		}
		st, err := d.queues.Stats(d.Context(), "jobs")
		if err != nil || st.Failed != 20 || d.count(deadletter.Filter{}) != 20 {
			d.Errorf("%d jobs and %d dead letters are left, %v", st.Failed, d.count(deadletter.Filter{}), err)
		}
	})
}

func TestOperationsOfJobs(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.fails("shop", 0, 100)
		d.fails("blog", 100, 50)
		o := d.start("what=jobs.retry&queue=jobs&tenant=shop&expect_at_most=100")
		d.fails("shop", 200, 7) // later
		if o = d.ends(o.ID); o.Changed != 100 || o.State != "done" || o.Starts.After(*o.Begun) {
			d.Errorf("retried: %+v", o)
		}
		st, err := d.queues.Stats(d.Context(), "jobs")
		if err != nil || st.Waiting != 100 || st.Failed != 57 {
			d.Errorf("after the retry: %+v, %v", st, err)
		}
		if o = d.ends(d.start("what=jobs.remove&queue=jobs&type=order&max=30&expect_at_most=30").ID); o.Changed != 30 {
			d.Errorf("removed: %+v", o)
		}
		if o = d.ends(d.start("what=jobs.clean&queue=jobs&state=failed&expect_at_most=1000").ID); o.Changed != 57 {
			d.Errorf("cleaned: %+v", o)
		}
		if st, err = d.queues.Stats(d.Context(), "jobs"); err != nil || st.Waiting != 70 || st.Failed != 0 {
			d.Errorf("in the end: %+v, %v", st, err)
		}
		books, err := d.queues.Open("jobs", queue.Options{}).(tidemill.Bookkeeper).Books(d.Context())
		if err != nil || books.Off() != 0 || books.Settled.Skipped != 30 {
			d.Errorf("the books are %+v, %v", books, err)
		}
	})
}

func TestAReplayHeedsAPauseAndAnOpenCircuit(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 30)
		if _, err := d.queues.Set(d.Context(), "p", func(s *queue.Settings) { s.Paused = true }); err != nil {
			d.Fatal(err)
		}
		id := d.start("what=dead.replay&pipeline=p&expect_at_most=30").ID
		ctx, end := context.WithCancel(d.Context())
		go func() { _ = d.api.Operate()(ctx) }()
		defer end()
		waits := func(want string, replaying int) {
			d.Helper()
			time.Sleep(time.Minute)
			var o api.Operation
			if d.into(d.get("operations/"+id), &o); !strings.Contains(o.Waits, want) || d.count(deadletter.Filter{State: deadletter.Replaying}) != replaying {
				d.Errorf("it waits for %q, want %q: %+v", o.Waits, want, o)
			}
		}
		waits("queue p is paused", 0)
		if err := d.queues.Open("p", queue.Options{}).(tidemill.Gater).Gate(d.Context(), time.Now().Add(time.Hour), 1); err != nil {
			d.Fatal(err)
		}
		if _, err := d.queues.Set(d.Context(), "p", func(s *queue.Settings) { s.Paused = false }); err != nil {
			d.Fatal(err)
		}
		waits("the circuit of queue p is open", 0)
		time.Sleep(time.Hour)
		waits("", 30)
	})
}

func TestWhatCouldNotBeChangedCanBeAskedForAgain(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		o := &bulk.Operation{ID: "a", Kind: "jobs.retry", Filter: []byte(`{"queue":"jobs"}`), State: bulk.Done, Made: time.Now(),
			Progress: bulk.Progress{Failed: map[string]int{"not_changed": 2}, Failures: []bulk.Failure{{ID: "x"}, {ID: "y", Reason: "not_changed"}}}}
		if err := d.store.Add(d.Context(), o); err != nil {
			d.Fatal(err)
		}
		var got api.Operation
		if d.into(d.get("operations/a"), &got); got.Again == nil || got.Again.Queue != "jobs" || !slices.Equal(got.Again.IDs, []string{"x", "y"}) || len(got.Failures) != 2 {
			d.Errorf("it is %+v", got)
		}
	})
}

func TestOperationsAreRefused(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 3)
		d.fails("shop", 0, 3)
		for _, c := range []struct {
			query, want string
			status      int
		}{
			{"pipeline=p", "say what the operation does", 400},
			{"what=dead.burn&pipeline=p", "want dead.replay, dead.delete", 400},
			{"what=dead.delete", "say which letters to delete", 400},
			{"what=jobs.remove&queue=jobs", "say which jobs to remove", 400},
			{"what=jobs.remove&all=true", "there is no queue", 404},
			{"what=jobs.remove&queue=nix&all=true", "there is no queue \"nix\"", 404},
			{"what=jobs.remove&queue=jobs&pipeline=p&since=1h", "pipeline, since chooses nothing that jobs.remove is for", 400},
			{"what=dead.delete&queue=jobs&pipeline=p", "queue chooses nothing", 400},
			{"what=dead.delete&pipeline=p&state=replaying", "cannot be moved", 400},
			{"what=jobs.retry&queue=jobs&tenant=shop&state=waiting", "retry is for those of the states", 400},
			{"what=dead.replay&pipeline=p&rate=fast", "is not a rate", 400},
			{"what=dead.replay&pipeline=p&until=nix", "until=", 400},
			{"what=dead.replay&pipeline=p&nix=1", "is no parameter", 400},
		} {
			refused(d.T, d.ask("POST", "operations/preview?"+c.query, ""), c.status, c.want)
			refused(d.T, d.starting(c.query+"&expect_at_most=9"), c.status, c.want)
		}
		p := d.preview("what=dead.delete&pipeline=p").ID
		for _, c := range []struct {
			query, want string
			status      int
		}{
			{"what=dead.delete&pipeline=p", "expect_at_most", 400},
			{"what=dead.delete&pipeline=p&expect_at_most=2", "3 match, and 2 are expected at most", 409},
			{"preview=nix", "there is no such operation or preview", 404},
			{"preview=" + p + "&pipeline=p", "leave everything out but preview and rate", 400},
			{"preview=" + p + "&what=dead.delete", "leave everything out", 400},
		} {
			refused(d.T, d.starting(c.query), c.status, c.want)
		}
		refused(d.T, d.ask("POST", "operations?preview="+p, ""), 400, "startOperation needs the header Idempotency-Key")
		refused(d.T, d.ask("POST", "operations/"+p+"/stop", ""), 409, "was not started")
		refused(d.T, d.ask("GET", "operations/"+p, ""), 404, "there is no such operation")
		refused(d.T, d.ask("POST", "operations/nix/stop", ""), 404, "there is no such operation")
		refused(d.T, d.ask("GET", "operations?state=nix", ""), 400, "want active")
		o := d.start("preview=" + p)
		refused(d.T, d.starting("preview="+p), 409, "not in a state for that")
		refused(d.T, d.starting("what=dead.delete&pipeline=p&expect_at_most=3"), 409, "operation "+o.ID)
		late := d.preview("what=dead.replay&pipeline=p").ID
		time.Sleep(bulk.PreviewFor)
		refused(d.T, d.starting("preview="+late), 409, "older than 10 minutes")
		if d.count(deadletter.Filter{State: deadletter.Held}) != 3 {
			d.Error("a refusal changed something")
		}
	})
}

func TestAStartIsMadeOnceForItsKey(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 3)
		query := "what=dead.delete&pipeline=p&expect_at_most=3"
		first := d.start(query)
		d.keys-- // the answer was lost
		if second := d.start(query); second.ID != first.ID {
			d.Errorf("it was started twice: %s and %s", first.ID, second.ID)
		}
	})
}

func TestOperationsAreListedInPagesByState(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		d.dies("p", "shop", tidemill.Timeout, 0, 3)
		d.preview("what=dead.delete&pipeline=p") // is in no list
		var ids []string
		for i := range 5 {
			o := d.start("what=dead.delete&" + url.Values{"id": {fmt.Sprint("p", i%3)}}.Encode() + "&expect_at_most=3")
			ids = append(ids, o.ID)
			if i < 4 {
				d.post("operations/"+o.ID+"/stop", "")
			}
			time.Sleep(time.Second)
		}
		if got, want := d.thereAndBack("operations?limit=2"), []string{ids[0] + " " + ids[1], ids[2] + " " + ids[3], ids[4]}; !slices.Equal(got, want) {
			d.Errorf("the pages are %q, want %q", got, want)
		}
		d.thereAndBack("operations?limit=2&order=newest")
		for state, n := range map[string]int{"": 5, "?state=active": 1, "?state=scheduled": 1, "?state=running": 0, "?state=stopped": 4} {
			if got := lines(d.get("operations" + state)); len(got) != n {
				d.Errorf("%d are %s, want %d", len(got), state, n)
			}
		}
	})
}

// awayStore is a store that is away.
type awayStore struct{ bulk.Store }

var errAway = errors.New("connection refused")

func (awayStore) Add(context.Context, *bulk.Operation) error           { return errAway }
func (awayStore) Get(context.Context, string) (*bulk.Operation, error) { return nil, errAway }
func (awayStore) Change(context.Context, string, func(*bulk.Operation) error) (*bulk.Operation, error) {
	return nil, errAway
}
func (awayStore) List(context.Context, bulk.Filter) ([]*bulk.Operation, error) { return nil, errAway }

func TestAStoreOfOperationsThatIsAwayIsSaidSo(t *testing.T) {
	letters := lettersOf(t, "a")
	d := &bulkDesk{desk: newDesk(t, admin.Parts{Letters: letters, Bulk: awayStore{}, Once: tableledger.Memory(tableledger.Options{})})}
	for _, w := range []*httptest.ResponseRecorder{d.ask("POST", "operations/preview?what=dead.delete&all=true", ""), d.starting("preview=x"), d.ask("GET", "operations", ""),
		d.ask("GET", "operations/x", ""), d.ask("POST", "operations/x/stop", "")} {
		refused(t, w, http.StatusInternalServerError, "connection refused")
	}
	if err := d.api.Operate()(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("the loop says %v", err)
	}
	nowhere := newDesk(t, admin.Parts{Letters: letters})
	refused(t, nowhere.ask("GET", "operations", ""), http.StatusNotFound, "no database that keeps operations")
}

// TestADiscardOfVeryManyNeedsAFreshLogin asks as somebody who logged in a while ago.
func TestADiscardOfVeryManyNeedsAFreshLogin(t *testing.T) {
	operates(t, func(d *bulkDesk) {
		var ms []*tidemill.Message
		for i := range 10_001 {
			ms = append(ms, &tidemill.Message{To: "jobs", ID: fmt.Sprint(i), Tenant: "t"})
		}
		if err := d.queues.Add(d.Context(), ms, nil); err != nil {
			d.Fatal(err)
		}
		time.Sleep(time.Second)
		ask := func(path string, age time.Duration) *httptest.ResponseRecorder {
			d.keys++
			w, r := httptest.NewRecorder(), request(http.MethodPost, admin.Prefix+path, "")
			r.Header.Set("Idempotency-Key", fmt.Sprint("fresh", d.keys))
			d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(d.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Operator), Entered: time.Now().Add(-age)})))
			return w
		}
		again := func(w *httptest.ResponseRecorder) {
			d.Helper()
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), operation.LoginAgain) {
				d.Errorf("it is answered %d: %s", w.Code, w.Body)
			}
		}
		all := d.preview("what=jobs.remove&queue=jobs&all=true").ID
		again(ask("operations?preview="+all, 16*time.Minute))
		again(ask("operations?what=jobs.remove&queue=jobs&all=true&expect_at_most=20000", 16*time.Minute))
		again(ask("queues/jobs/remove?all=true", 16*time.Minute))
		again(ask("queues/jobs/clean?all=true&state=all", 16*time.Minute))
		d.good(ask("queues/jobs/remove?all=true&dry_run=true", 16*time.Minute))
		d.good(ask("operations?preview="+all, 14*time.Minute))
		d.good(ask("queues/jobs/remove?all=true&max=1", 16*time.Minute)) // 10,000 are left
		d.good(ask("queues/jobs/promote?all=true", 16*time.Minute))      // which is no discard
		d.good(ask("queues/jobs/remove?all=true", 16*time.Minute))
	})
}
