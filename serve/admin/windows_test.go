package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// windowDesk is an API over a windows system in memory, which runs in fake time.
type windowDesk struct {
	*desk
	store  window.Store
	queues *memoryqueue.Store
	sys    *windows.System
	fails  atomic.Uint32 // the kind of what topics answer; 0: they take all
	stop   func()
}

// Write is a topic's.
func (d *windowDesk) Write(ctx context.Context, batch []*tidemill.Message) error {
	if k := tidemill.Kind(d.fails.Load()); k != 0 {
		return tidemill.Fail(k, "as the test says")
	}
	return queue.Sink(d.queues).Write(ctx, batch)
}

// withWindows runs a test in a bubble whose clock begins in the year 2000. Windows are open for
// a minute and tried three times; steps are what is done with records.
func withWindows(t *testing.T, test func(d *windowDesk), steps ...process.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &windowDesk{queues: memoryqueue.New(memoryqueue.Options{})}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		var err error
		d.store, err = tablewindow.Memory(window.Options{Owner: "me"})
		must(err)
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		must(err)
		other, err := tabledeadletter.Memory(deadletter.Options{}) // another system's letters lie in a store of their own
		must(err)
		index, err := memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions())
		must(err)
		chain, err := process.New(steps, process.Options{})
		must(err)
		d.sys, err = windows.New(windows.Parts{
			Intakes: []windows.Intake{{Name: "adapter-event", Source: d.queues.Open("adapter-event", queue.Options{}), Kind: record.Event}},
			Windows: d.store, DeadLetters: letters, Chain: chain, Out: windows.Each(d), Index: index,
			Readers: []windows.Reader{
				{Name: "index-event", Source: d.queues.Open("processor-event", queue.Options{}), Schema: search.Events()},
				{Name: "index-mention", Source: d.queues.Open("processor-mention", queue.Options{}), Schema: search.Mentions()},
			},
		}, windows.Options{Tries: 3, AtOnce: 1, Seed: 1})
		must(err)
		common := &answer.Common{}
		d.desk = newDesk(t, admin.Parts{Common: common, Rooms: only(windows.Name, (&windowsapi.API{Common: common, Windows: d.sys}).Operations()), Letters: other, OwnLetters: []admin.OwnLetters{{System: windows.Name, Store: letters}}, Systems: []admin.System{{Name: windows.Name, Pipelines: d.sys.Pipelines(), Books: d.sys.Books()}}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.sys.Run(ctx) }()
		d.stop = func() {
			if stop(); ended != nil {
				if err := <-ended; err != nil {
					t.Error(err)
				}
				ended = nil
			}
		}
		synctest.Wait()
		test(d)
		d.stop()
	})
}

func gdeltEvent(id int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"day":20250323,"actor1Name":"ACTOR %d","sourceUrl":"https://example.com/%d?a=1&b=<2>"}`, id, id, id)
}

func gdeltMention(id int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"mentionTimeDate":20250323151500,"mentionIdentifier":"https://example.com/a","sentenceId":1}`, id)
}

// send puts records into their window.
func (d *windowDesk) send(batch, kind string, records ...string) string {
	d.Helper()
	return d.post("windows/records?kind="+kind+"&batch="+url.QueryEscape(batch), strings.Join(records, "\n"))
}

// only is the id of the one window there is.
func (d *windowDesk) only() string {
	d.Helper()
	all := lines(d.get("windows"))
	if len(all) != 1 {
		d.Fatalf("%d windows, want 1: %q", len(all), all)
	}
	return d.field(all[0], "id").(string)
}

// stands checks where a window stands, and why.
func (d *windowDesk) stands(id, state, waits string) string {
	d.Helper()
	got := d.get("windows/" + url.PathEscape(id))
	if d.field(got, "state") != state || d.field(got, "waits_for") != waits {
		d.Errorf("window %s is %v and waits for %v, want %s and %s: %s", id, d.field(got, "state"), d.field(got, "waits_for"), state, waits, got)
	}
	return got
}

func TestRecordsAreSentByHandAndFound(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		if got, want := d.send("a/b", "event", gdeltEvent(1), gdeltEvent(2), gdeltEvent(1), "{", `{"day":1}`), `{"stored":2,"duplicates":1,"refused":[`; !strings.HasPrefix(got, want) ||
			!strings.Contains(got, `{"index":3,"error":"the event is refused: it is no JSON`) || !strings.Contains(got, `{"index":4,"error":"the event is refused: globalEventId is missing"}`) {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := d.send("a/b", "mention", "["+gdeltMention(1)+",\n"+gdeltMention(2)+"]"), `{"stored":2,"duplicates":0,"refused":[]}`+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := d.send("a/b", "event", "{\n\"globalEventId\":\n3}"), `{"stored":1,"duplicates":0,"refused":[]}`+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		pass(10 * time.Second)
		id := d.only()
		want := fmt.Sprintf(`{"id":"%s","batch":"a/b","project":"default","revision":946684800000,"state":"active","records":5,"bytes":%s,"lost":0,"opened_at":"2000-01-01T00:00:00Z","age_seconds":10,"due_at":"2000-01-01T00:01:00Z","handed":0,"tries":0,"replays":0`, id, "%v")
		list := d.get("windows")
		if want = fmt.Sprintf(want, d.field(list, "bytes")) + "}\n"; list != want {
			t.Errorf("%s, want %s", list, want)
		}
		show := d.stands(id, "active", "records")
		if !strings.HasSuffix(show, `,"waits_for":"records","waits_until":"2000-01-01T00:01:00Z","kinds":{"event":3,"mention":2},"damaged":0,"counted":5}`+"\n") {
			t.Errorf("%s", show)
		}
		if same := d.get("windows/a%2Fb/946684800000"); same != show {
			t.Errorf("by batch id and revision: %s", same)
		}

		page := d.get("windows/" + url.PathEscape(id) + "/records?size=3")
		var got struct {
			Records []struct{ Kind, ID, Qualifier, Payload string }
			Next    string
		}
		d.into(page, &got)
		if len(got.Records) != 3 || got.Next == "" || got.Records[1].Payload != gdeltEvent(2) || got.Records[1].ID != "2" || got.Records[1].Kind != "event" {
			t.Errorf("%s", page)
		}
		rest := d.get("windows/a%2Fb/946684800000/records?after=" + url.QueryEscape(got.Next))
		if !strings.Contains(rest, `"kind":"mention","id":"2_https://example.com/a","qualifier":"1"`) || strings.Contains(rest, "next") || strings.Count(rest, `"kind"`) != 2 {
			t.Errorf("%s", rest)
		}
		refused(t, d.ask("GET", "windows/a%2Fb/946684800000/records?after=x", ""), 400, "no page's Next")

		if got, want := d.post("windows/a%2Fb/close", ""), `{"batch":"a/b","closed":true,"project":"default"}`+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.logged("window closed by hand", "batch=a/b")
		refused(t, d.ask("POST", "windows/a%2Fb/close", ""), 404, `no window of batch "a/b" collects`)
		pass(10 * time.Second)
		if got := d.get("windows"); got != "" {
			t.Errorf("what was delivered is still there: %s", got)
		}
		refused(t, d.ask("GET", "windows/"+url.PathEscape(id), ""), 404, "there is no such window: one is forgotten when it is delivered")
		refused(t, d.ask("GET", "windows/"+url.PathEscape(id)+"/records", ""), 404, "there is no such window")

		hits := d.get("search?q=" + url.QueryEscape(`actor1Name:"actor 2"`))
		if want := `{"family":"gdelt-events","total":1,"hits":[{"day":"2025-03-23","id":"2","document":{"globalEventId":2,`; !strings.HasPrefix(hits, want) {
			t.Errorf("%s, want %s", hits, want)
		}
		for query, want := range map[string]string{
			"":                                     `"total":2`, // one has no day
			"family=mentions":                      `{"family":"gdelt-mentions","total":2`,
			"family=gdelt-events&until=2025-03-22": `"total":0,"hits":[]}`,
			"since=2025-03-23&until=2025-03-23":    `"total":2`,
			"until=2025-03-24T00:00:00Z":           `"total":2`,
			"until=2025-03-23T00:00:00Z":           `"total":0,"hits":[]}`,
			"oldest=true&size=1":                   `"hits":[{"day":"2025-03-23","id":"1"`,
			"oldest=false&size=1":                  `"hits":[{"day":"2025-03-23","id":"2"`,
			"q=globalEventId:%3E1&family=events":   `"total":1`,
		} {
			if got := d.get("search?" + query); !strings.Contains(got, want) {
				t.Errorf("search?%s: %s, want %s", query, got, want)
			}
		}
		first := d.get("search?family=mentions&size=1")
		second := d.get("search?family=mentions&size=1&after=" + url.QueryEscape(d.field(first, "next").(string)))
		if d.field(second, "next") != nil || d.field(second, "total") != nil || strings.Count(second, `"id"`) != 1 || second == first {
			t.Errorf("the second page: %s", second)
		}
	})
}

func TestAWindowThatFailsIsParkedAndReplayed(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		if got, want := d.get("windows/status"), `{"states":{"active":{"windows":0,"records":0,"oldest_age_seconds":0},"leased":{"windows":0,"records":0,"oldest_age_seconds":0},"parked":{"windows":0,"records":0,"oldest_age_seconds":0},"ready":{"windows":0,"records":0,"oldest_age_seconds":0}},"lost":0,"closed":0,"delivery":{"state":"running","breaker":"closed"},"processors":[{"name":"read","records":0,"skipped":0,"dead":0,"failed":0,"seconds":0}]}`+"\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		d.fails.Store(uint32(tidemill.Partner))
		d.post("windows/records?batch=b&kind=event&expect=2", gdeltEvent(1)+"\n"+gdeltEvent(2))
		first := d.only()
		pass(5500 * time.Millisecond) // it is closed by its count, and tried
		got := d.stands(first, "ready", "retry")
		if d.field(got, "closed_by") != "count" || d.field(got, "expect") != 2.0 || d.field(got, "tries") != 1.0 || d.field(got, "kind") != "partner_error" || !strings.Contains(d.field(got, "error").(string), "as the test says") {
			t.Errorf("%s", got)
		}
		d.send("b", "event", gdeltEvent(3))
		second := d.field(lines(d.get("windows?state=active"))[0], "id").(string)
		d.post("windows/b/close", "")
		if got := d.stands(second, "ready", "older"); d.field(got, "behind") != first {
			t.Errorf("%s", got)
		}
		pass(3500 * time.Millisecond)
		if got := d.stands(first, "parked", "replay"); d.field(got, "tries") != 3.0 {
			t.Errorf("%s", got)
		}
		d.post("pipelines/windows-delivery/pause", "")
		if got := d.stands(second, "ready", "retry"); d.field(got, "behind") != nil {
			t.Errorf("%s", got)
		}
		pass(time.Minute)
		d.stands(second, "ready", "resume")
		if got := d.get("windows/status"); !strings.Contains(got, `"parked":{"windows":1,"records":2,"oldest_opened_at":"2000-01-01T00:00:00Z","oldest_age_seconds":69}`) ||
			!strings.Contains(got, `"closed":1,"delivery":{"state":"paused",`) {
			t.Errorf("%s", got)
		}
		for query, want := range map[string]int{"": 2, "?state=parked": 1, "?batch=b&state=ready": 1, "?batch=c": 0, "?max=1": 1, "?id=" + url.QueryEscape(second): 1} {
			if got := lines(d.get("windows" + query)); len(got) != want {
				t.Errorf("windows%s: %q, want %d", query, got, want)
			}
		}
		for form, want := range map[string]string{"all=true": "1", "batch=b": "1", "id=" + url.QueryEscape(first): "1", "id=" + url.QueryEscape(second): "0", "batch=c": "0", "max=1": "1", "state=parked&all=true": "1"} {
			if got, want := d.post("windows/replay?dry_run=true&"+form, ""), `{"count":`+want+"}\n"; got != want {
				t.Errorf("%s would be %s, want %s", form, got, want)
			}
		}
		d.stands(first, "parked", "replay")
		if got := d.post("windows/replay?id="+url.QueryEscape(first), ""); got != `{"count":1}`+"\n" {
			t.Errorf("%s", got)
		}
		d.logged("windows replayed by hand", "count=1", "dry_run=false")
		if got := d.stands(first, "ready", "older"); d.field(got, "behind") != second || d.field(got, "replays") != 1.0 {
			t.Errorf("%s", got)
		}
		d.fails.Store(0)
		d.post("pipelines/windows-delivery/resume", "")
		pass(time.Minute)
		if got := d.get("windows"); got != "" {
			t.Errorf("still there: %s", got)
		}
	})
}

func TestWhatWindowsWaitFor(t *testing.T) {
	slow := process.Each("slow", func(ctx context.Context, _ string, _ *process.Item) error {
		<-ctx.Done()
		return ctx.Err()
	})
	withWindows(t, func(d *windowDesk) {
		d.send("a", "event", gdeltEvent(1))
		d.send("b", "event", gdeltEvent(2))
		a, b := d.field(lines(d.get("windows?batch=a"))[0], "id").(string), d.field(lines(d.get("windows?batch=b"))[0], "id").(string)
		d.post("windows/a/close", "")
		pass(time.Second)
		d.post("windows/b/close", "")
		pass(time.Second)
		if got := d.stands(a, "leased", "delivery"); d.field(got, "owner") != "me" || d.field(got, "leased_until") == nil || d.field(got, "due_at") != nil {
			t.Errorf("%s", got)
		}
		d.stands(b, "ready", "turn") // one at a time
		d.stop()
		if got := lines(d.get("windows?state=ready")); len(got) != 2 {
			t.Errorf("%q", got)
		}
		d.stands(b, "ready", "start")
	}, process.Step{Processor: slow})
	withWindows(t, func(d *windowDesk) {
		d.fails.Store(uint32(tidemill.Transient))
		d.send("a", "event", gdeltEvent(1))
		d.send("b", "event", gdeltEvent(1))
		pass(10 * time.Minute)
		found := false
		for range 60 { // until the breaker is open and the window's own pause is over
			for _, l := range lines(d.get("windows?state=ready")) {
				got := d.get("windows/" + url.PathEscape(d.field(l, "id").(string)))
				found = found || d.field(got, "waits_for") == "topics" && strings.Contains(d.field(got, "because").(string), "as the test says")
			}
			pass(time.Second)
		}
		if !found {
			t.Errorf("nobody says that nothing can be sent: %s", d.get("windows"))
		}
	})
}

func TestPagesOfWindows(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		for _, batch := range []string{"a", "b", "a/b", "c", "d"} {
			d.send(batch, "event", gdeltEvent(1))
			time.Sleep(time.Second) // in the bubble
		}
		names := func(pages []string) (all []string) {
			for _, p := range pages {
				for id := range strings.FieldsSeq(p) {
					all = append(all, id[:strings.LastIndexByte(id, '/')])
				}
				all = append(all, "|")
			}
			return all
		}
		if got := names(d.thereAndBack("windows?limit=2")); fmt.Sprint(got) != "[a b | a/b c | d |]" {
			t.Errorf("the pages are %q", got)
		}
		if got := names(d.thereAndBack("windows?limit=2&order=newest&state=active")); fmt.Sprint(got) != "[d c | a/b b | a |]" {
			t.Errorf("the pages from the newest are %q", got)
		}
	})
}

func TestWrongRequestsAboutWindows(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "windows?state=failed", "", 400, `state="failed": want active, ready, leased or parked`},
			{"GET", "windows?id=b", "", 400, `id="b" names no window`},
			{"GET", "windows?max=many", "", 400, "is not a count"},
			{"GET", "windows/b%2F1", "", 404, `window "b/1": there is no such window`},
			{"GET", "windows/b%2F1/records?size=5000", "", 400, "a page has at most 1000 records"},
			{"POST", "windows/replay", "", 400, "say which windows to replay"},
			{"POST", "windows/replay?all=yes", "", 400, `all="yes": want true or false`},
			{"POST", "windows/replay?all=true&state=ready", "", 400, "only parked windows can be replayed"},
			{"POST", "windows/records?kind=event", gdeltEvent(1), 400, "the batch id is empty"},
			{"POST", "windows/records?batch=b", gdeltEvent(1), 400, "want event or mention"},
			{"POST", "windows/records?batch=b&kind=event&expect=all", gdeltEvent(1), 400, "is not a count"},
			{"POST", "windows/records?batch=b&kind=event", " \n", 400, "the request has no records"},
			{"POST", "windows/records?batch=b&kind=event", "[{}", 400, "the body is no array in JSON"},
			{"POST", "windows/records?batch=b&kind=event", "[{}] {}", 400, "there is something behind it"},
			{"POST", "windows/records?batch=b&kind=event", "[" + strings.Repeat("1,", 10_001) + "1]", 413, "at most 10000 records"},
			{"POST", "windows/records?batch=b&kind=event", strings.Repeat("1\n", 10_001), 413, "at most 10000 records"},
			{"POST", "windows/records?batch=b&kind=event", strings.Repeat(" ", 8<<20+1), 413, "at most 8 MiB"},
			{"GET", "search?family=people", "", 400, "there are events, mentions"},
			{"GET", "search?q=" + url.QueryEscape("protest nix:1"), "", 400, "the query cannot be understood at byte 8: gdelt-events has no field"},
			{"GET", "search?since=soon", "", 400, "is no time"},
			{"GET", "search?since=2025-01-02&until=2025-01-01", "", 400, "is not after"},
			{"GET", "search?size=2000", "", 400, "want 1 to 1000"},
			{"GET", "search?size=-1", "", 400, "is not a count"},
			{"GET", "search?oldest=yes", "", 400, "want true or false"},
			{"GET", "search?after=nix", "", 400, "Next of the page before"},
		} {
			refused(t, d.ask(c.method, c.path, c.body), c.status, c.want)
		}
		if got := d.get("windows"); got != "" {
			t.Errorf("something was stored: %s", got)
		}
	})
}

func TestLettersOfWindowsAreOnTheDesk(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		if err := d.queues.Add(t.Context(), []*tidemill.Message{{ID: "1", To: "adapter-event", Payload: []byte(gdeltEvent(1))}}, nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for _, query := range []string{"", "?pipeline=adapter-event", "?system=windows"} {
			if got := lines(d.get("dead" + query)); len(got) != 1 || !strings.Contains(d.field(got[0], "cause").(string), "there is no batch id") {
				t.Errorf("dead%s: %q", query, got)
			}
		}
		if got := lines(d.get("dead?pipeline=windows-delivery")); len(got) != 0 {
			t.Errorf("of another pipeline: %q", got)
		}
		if got := d.get("dead/1?system=windows"); d.field(got, "pipeline") != "adapter-event" {
			t.Errorf("%s", got)
		}
		if got := d.field(d.post("dead/replay?pipeline=adapter-event", ""), "count"); got != 1.0 {
			t.Errorf("%v letters are replayed", got)
		}
	})
}

func TestAnInstanceWithoutAnIndex(t *testing.T) {
	store, err := tablewindow.Memory(window.Options{})
	if err != nil {
		t.Fatal(err)
	}
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queues := memoryqueue.New(memoryqueue.Options{})
	sys, err := windows.New(windows.Parts{Intakes: []windows.Intake{{Name: "in", Source: queues.Open("in", queue.Options{}), Kind: record.Event}},
		Windows: store, DeadLetters: letters, Out: windows.Each(queue.Sink(queues))}, windows.Options{})
	if err != nil {
		t.Fatal(err)
	}
	common := &answer.Common{}
	d := newDesk(t, admin.Parts{Common: common, Rooms: only(windows.Name, (&windowsapi.API{Common: common, Windows: sys}).Operations())})
	refused(t, d.ask(http.MethodGet, "search?q=x", ""), 404, "there is no search index here: windows.search.enabled")
	refused(t, d.ask(http.MethodGet, "search?family=people", ""), 404, "there is no search index here")
	if sys.Schemas() != nil {
		t.Error("there are families without an index")
	}
}

// away are books that cannot be read.
type away struct{}

func (away) Books(ctx context.Context) (tidemill.Books, error) {
	return tidemill.Books{}, errors.New("the brokers are away")
}

func TestTheStatusIsShownWhileBooksCannotBeRead(t *testing.T) {
	withWindows(t, func(d *windowDesk) {
		books := d.sys.Books()
		books[windows.Delivered] = away{}
		desk := newDesk(t, admin.Parts{Config: constant(loaded(t)), Systems: []admin.System{{Name: windows.Name, Pipelines: d.sys.Pipelines(), Books: books}}})
		if got := desk.get("status"); !strings.Contains(got, `"pending_error":"the brokers are away"`) || strings.Count(got, `"pending":0`) != len(books)-1 {
			t.Errorf("%s", got)
		}
	})
}
