package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// newspaper is an instance that collects windows in memory, and a person at a terminal.
type newspaper struct {
	*session
	now     time.Time // by the windows' clock, while nothing runs
	windows window.Store
	source  tidemill.Source
	index   search.Store
	sys     *windows.System
}

func newNewspaper(t *testing.T, o windows.Options, w window.Options, change ...func(*windowsapi.API)) *newspaper {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := &newspaper{session: &session{T: t, queues: memoryqueue.New(memoryqueue.Options{})}, now: day}
	if w.Now == nil {
		w.Now = func() time.Time { return n.now }
	}
	w.Owner = "press-1\x1b[2J"
	var err error
	n.letters, err = tabledeadletter.Memory(deadletter.Options{})
	must(err)
	n.windows, err = tablewindow.Memory(w)
	must(err)
	n.index, err = memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions())
	must(err)
	n.sys, err = windows.New(windows.Parts{
		Intakes: []windows.Intake{{Name: "adapter-event", Source: n.queues.Open("adapter-event", queue.Options{}), Kind: record.Event}},
		Windows: n.windows, DeadLetters: n.letters, Out: windows.Each(queue.Sink(n.queues)), Index: n.index,
		Readers: []windows.Reader{
			{Name: "index-event", Source: n.queues.Open("processor-event", queue.Options{}), Schema: search.Events()},
			{Name: "index-mention", Source: n.queues.Open("processor-mention", queue.Options{}), Schema: search.Mentions()},
		},
	}, o)
	must(err)
	its := &windowsapi.API{Common: &answer.Common{}, Windows: n.sys}
	for _, c := range change {
		c(its)
	}
	n.serve(admin.Parts{NoAuth: true, Common: its.Common, Rooms: only(windows.Name, its.Operations()), Letters: n.letters, Systems: []admin.System{{Name: windows.Name, Pipelines: n.sys.Pipelines(), Books: n.sys.Books(),
		Audit: func(ctx context.Context) (any, bool, error) {
			a, err := n.sys.Audit(ctx)
			if err != nil {
				return nil, false, err
			}
			return a, a.Balanced, nil
		}}}})
	return n
}

// batchOf is what the window store calls a batch of a project.
func batchOf(name, id string) string { return record.NewBatch(project.ID(name), id).String() }

// settle takes the next window and settles it so.
func (n *newspaper) settle(s tidemill.Settlement) {
	n.Helper()
	if n.source == nil {
		n.source = n.windows.Open()
	}
	m := []*tidemill.Message{{}}
	if got, err := n.source.Receive(n.Context(), m); err != nil || got != 1 {
		n.Fatal(got, err)
	}
	s.ID, s.Mark = m[0].ID, m[0].Mark
	if err := n.source.Settle(n.Context(), []tidemill.Settlement{s}); err != nil {
		n.Fatal(err)
	}
}

// run lets the system work until the test ends.
func (n *newspaper) works() {
	ctx, stop := context.WithCancel(n.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.sys.Run(ctx) }()
	n.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			n.Error(err)
		}
	})
}

func news(id int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"day":20260301,"actor1Name":"POLICE %d","actor2Name":"PROTESTER","eventCode":"141","avgTone":-2.5,"numMentions":3,"actionGeoFullName":"Berlin, Germany","sourceUrl":"https://example.com/%d"}`, id, id, id)
}

func TestASessionAboutWindows(t *testing.T) {
	n := newNewspaper(t, windows.Options{}, window.Options{})
	n.types("window list", "No such windows.")
	n.fails("window show nix", "there is no window or batch id nix: it was delivered, or no records came for it")
	n.fails("window show nix/1", "there is no window or batch id nix/1")
	n.fails("window close nix", `no window of batch "nix" collects`)
	n.fails("window replay nix/1", "no window that matches is parked")
	n.fails("window replay nix", "(--batch) means all of a batch id")
	n.types("window replay --all", "Replaying 0 windows.")

	send := func(command string, records ...string) {
		n.Helper()
		if status, out, errs := n.session.run(n.Context(), strings.Join(records, "\n"), "window send "+command); status != 0 || errs != "" {
			n.Fatalf("%d %s%s", status, out, errs)
		}
	}
	send("--batch old --kind event", news(1), news(2))
	send("--batch old --kind mention", `{"globalEventId":1,"mentionIdentifier":"x","sentenceId":1}`)
	n.types("window close old", "The window of batch old is closed.")
}

func TestWhereWindowsAreIsShown(t *testing.T) {
	n := newNewspaper(t, windows.Options{}, window.Options{})
	put := func(batch string, expect int, ids ...int) {
		n.Helper()
		var rs []window.Record
		for _, id := range ids {
			rs = append(rs, window.Record{Batch: batchOf("default", batch), Kind: "event", ID: fmt.Sprint(id), Body: []byte(news(id)), Expect: expect})
		}
		if err := n.windows.Put(n.Context(), rs, nil); err != nil {
			n.Fatal(err)
		}
	}
	put("parked", 0, 1, 2)
	n.types("window close parked --json", `{"batch":"parked","closed":true,"project":"default"}`)
	n.settle(tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Dead, CountTry: true, Kind: tidemill.Partner, Cause: "answered 502\x1b[2J"})
	put("failed", 0, 3)
	n.types("window close failed --json", `{"batch":"failed","closed":true,"project":"default"}`)
	n.settle(tidemill.Settlement{End: tidemill.Again, After: time.Minute, CountTry: true, Kind: tidemill.Timeout, Cause: "no answer"})
	put("failed", 0, 4)
	n.types("window close failed --json", `{"batch":"failed","closed":true,"project":"default"}`)
	put("out", 0, 5)
	n.types("window close out --json", `{"batch":"out","closed":true,"project":"default"}`)
	n.settle(tidemill.Settlement{End: tidemill.Left})
	put("free", 0, 6)
	n.types("window close free --json", `{"batch":"free","closed":true,"project":"default"}`)
	put("young", 300, 7)
	put("it's", 0, 8)
	n.now = day.Add(10 * time.Second)
	revision := func(i int64) string { return fmt.Sprint(day.UnixMilli() + i) }
	n.types("window list", `
~ID +STATE +RECORDS +AGE +TRIES +DETAIL
~parked/`+revision(0)+` +parked +2 +10s +1 +partner_error: answered 502<U\+001B>\[2J
~failed/`+revision(1)+` +ready +1 +10s +1 +again 2026-03-01T12:01:00Z: timeout: no answer
~failed/`+revision(2)+` +ready +1 +10s +0 +waits for its turn
~out/`+revision(3)+` +leased +1 +10s +0 +with press-1<U\+001B>\[2J until 2026-03-01T12:00:30Z
~free/`+revision(4)+` +ready +1 +10s +0 +waits for its turn
~young/`+revision(5)+` +active +1 +10s +0 +closes with 300 records, or 2026-03-01T12:01:00Z
~it's/`+revision(6)+` +active +1 +10s +0 +closes 2026-03-01T12:01:00Z
`)
	n.types("window list --state parked --json", `~\{"id":"parked/`+revision(0)+`","batch":"parked",.*"error":"answered 502\\u001b\[2J"\}`)
	n.types("window list --batch failed --state ready -n 1 --json", `~\{"id":"failed/`+revision(1)+`",.*\}`)
	if status, out, errs := n.session.run(n.Context(), "", "window list -n 2"); status != 0 || strings.Count(out, "\n") != 3 || errs != "" {
		n.Errorf("%d %s%s", status, out, errs)
	}
	n.types("window show parked", `
window   parked/`+revision(0)+`
batch    parked
project  default
parked   it failed too often and is kept whole: partner_error: answered 502`+"<U+001B>"+`[2J
           when the cause is gone: `+"`tidemill window replay parked/"+revision(0)+"`"+`
records  2: 2 event, about `+fmt.Sprint(len(news(1))+len(news(2)))+` bytes
opened   2026-03-01T12:00:00Z, 10s ago
closed   2026-03-01T12:00:00Z: by hand
tries    1 failed, handed out 1 time, replayed 0 times
failed   2026-03-01T12:00:00Z  partner_error  answered 502`+"<U+001B>"+`[2J
`)
	n.types("window show out/"+revision(3), `
~window +out/`+revision(3)+`
batch    out
project  default
leased   it is being processed and sent
~records +1: 1 event, about \d+ bytes
opened   2026-03-01T12:00:00Z, 10s ago
closed   2026-03-01T12:00:00Z: by hand
owner    press-1`+"<U+001B>"+`[2J, until 2026-03-01T12:00:30Z unless it is renewed
tries    0 failed, handed out 1 time, replayed 0 times
`)
	for name, want := range map[string]string{
		"failed/" + revision(1): "ready +its last try failed, and it is tried again 2026-03-01T12:01:00Z: timeout: no answer",
		"failed/" + revision(2): "ready +another window of its batch id goes first: failed/" + revision(1),
		"free":                  "ready +the delivery does not run in this instance: `tidemill status` shows how it stands",
		"young":                 "active +it collects until there are 300 records, or 2026-03-01T12:01:00Z; `tidemill window close young` ends it now",
		"it's":                  `active +it collects until 2026-03-01T12:01:00Z; .tidemill window close 'it'\\''s'. ends it now`,
	} {
		if status, out, errs := n.session.run(n.Context(), "", "window show "+name); status != 0 || !lineOf(out, want) {
			n.Errorf("%s: %d %s%s\nwant a line %s", name, status, out, errs, want)
		}
	}
	if status, out, _ := n.session.run(n.Context(), "", "window show failed"); status != 0 || strings.Count(out, "window   failed/") != 2 {
		n.Errorf("of a batch id: %d %s", status, out)
	}
	n.types("window show free --json", `~\{"id":"free/.*"waits_for":"start","kinds":\{"event":1\},"damaged":0,"counted":1\}`)
	if status, out, _ := n.session.run(n.Context(), "", "window show parked --records 1"); status != 0 || !strings.HasSuffix(out, "\n\n"+news(1)+"\n") {
		n.Errorf("with records: %d %s", status, out)
	}
	n.types("window show parked --records 0 --json", `
~\{"kind":"event","id":"1","payload":"\{.*\}"\}
~\{"kind":"event","id":"2","payload":"\{.*\}"\}
`)
	n.types("window status", `
STATE   WINDOWS  RECORDS  OLDEST
active  2        2        10s
ready   3        3        10s
leased  1        1        10s
parked  1        2        10s

The delivery is idle.
1 window is parked: `+"`tidemill window list --state parked` shows why, `tidemill window replay --all` delivers them again."+`

PROCESSOR  RECORDS  SKIPPED  DEAD  FAILED  SECONDS
read       0        0        0     0       0.0
`)
	n.types("window status --json", `~\{"states":\{"active":\{"windows":2,.*`)
	n.types("window replay --batch parked --dry-run", "Would replay 1 window.")
	n.types("window replay parked/"+revision(0)+" --json", `{"count":1}`)
	n.fails("window replay parked/"+revision(0), "no window that matches is parked")
	n.now = day.Add(time.Hour)
	if _, out, _ := n.session.run(n.Context(), "", "window show out"); !lineOf(out, "leased +its instance did not finish; another one takes it over") {
		n.Errorf("after its lease: %s", out)
	}
	newSession(t).fails("window list", "windows do not run in this instance")
	newSession(t).fails("search x", "windows do not run in this instance")
}

func TestAHundredWindowsAreListed(t *testing.T) {
	n := newNewspaper(t, windows.Options{}, window.Options{})
	for i := range 105 {
		if err := n.windows.Put(n.Context(), []window.Record{{Batch: batchOf("default", fmt.Sprint("b", i)), Kind: "event", ID: "1", Body: []byte(news(1))}}, nil); err != nil {
			n.Fatal(err)
		}
	}
	if status, out, errs := n.session.run(n.Context(), "", "window list"); status != 0 || strings.Count(out, "\n") != 101 || !strings.Contains(errs, "-n 0 shows all") {
		n.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, errs := n.session.run(n.Context(), "", "window list --json"); status != 0 || strings.Count(out, "\n") != 105 || errs != "" {
		n.Errorf("%d %s%s", status, out, errs)
	}
}

// file writes a file into a folder of the test's own.
func (s *session) file(name, text string) string {
	s.Helper()
	name = filepath.Join(s.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return name
}

func TestRecordsAreSentFromFiles(t *testing.T) {
	n := newNewspaper(t, windows.Options{}, window.Options{})
	n.types("window send --batch b --kind event "+n.file("a.ndjson", news(1)+"\n\n"+news(2)+"\r\n")+" "+n.file("b.json", "["+news(3)+",\n"+news(1)+"]"), "3 records stored, 1 duplicate, 0 refused.")
	row := func(id string, columns int) string { return id + strings.Repeat("\t", columns-1) + "\n" }
	export, mentions := n.file("20260301120000.export.CSV", row("10", 61)+row("11", 61)+row("no id", 61)), n.file("20260301120000.mentions.CSV", row("10", 16))
	if status, out, errs := n.session.run(n.Context(), "", "window send "+export+" "+mentions); status != 0 || out != "3 records stored, 0 duplicates, 0 refused.\n" || !strings.Contains(errs, "1 row has no id and cannot be sent") {
		n.Errorf("%d %s%s", status, out, errs)
	}
	n.types("window send --batch b "+mentions, "1 record stored, 0 duplicates, 0 refused.")
	n.types("window show 20260301120000", `
~window +20260301120000/\d+
~batch +20260301120000
project  default
~active +it collects until 2026-03-01T12:01:00Z; .tidemill window close 20260301120000. ends it now
~records +3: 2 event, 1 mention, about \d+ bytes
~opened +2026-03-01T12:00:00Z, 0s ago
~tries +0 failed, handed out 0 times, replayed 0 times
`)
	if status, out, errs := n.session.run(n.Context(), news(4)+"\nno JSON\n{\"day\":1}\n"+news(5), "window send --batch c --kind event --expect 2"); status != 1 || out != "2 records stored, 0 duplicates, 2 refused.\n" || errs !=
		"refused: standard input, line 2: it is not JSON in UTF-8\nrefused: standard input, line 3: the event is refused: globalEventId is missing\ntidemill: 2 records were refused; the others were not held up\n" {
		n.Errorf("%d %s%s", status, out, errs)
	}
	n.types("window list --batch c --json", `~.*"records":2,.*"expect":2,.*`)
	if status, out, _ := n.session.run(n.Context(), "{}", "window send - --batch c --kind mention --json"); status != 1 || !strings.HasPrefix(out, `{"stored":0,"duplicates":0,"refused":1,"reasons":["standard input, line 1: the mention is refused`) {
		n.Errorf("%d %s", status, out)
	}
	var many strings.Builder
	for i := range 2345 {
		fmt.Fprintln(&many, news(i))
	}
	if status, out, errs := n.session.run(n.Context(), many.String(), "window send --batch many --kind event"); status != 0 || out != "2345 records stored, 0 duplicates, 0 refused.\n" || errs != "" {
		n.Errorf("%d %s%s", status, out, errs)
	}
	before := len(n.sentTo("b"))
	n.fails("window send --batch b --kind event "+n.file("a.json", news(9))+" nix.json", "nix.json: no such file")
	n.fails("window send --batch b "+n.TempDir(), "is a folder: name the files in it")
	n.fails("window send --batch b --kind event "+n.file("a.json", news(9))+" "+n.file("1.export.CSV.zip", "no zip"), "1.export.CSV.zip: it cannot be unpacked")
	if after := len(n.sentTo("b")); after != before {
		n.Errorf("%d records are there, were %d: something was sent beside a file that cannot be", after, before)
	}
}

// sentTo are the records of the one window of a batch id.
func (n *newspaper) sentTo(batch string) []window.Record {
	n.Helper()
	for i, err := range n.windows.List(n.Context(), window.Filter{Batch: batchOf("default", batch)}) {
		if err != nil {
			n.Fatal(err)
		}
		records := make([]window.Record, 1000)
		page, err := n.windows.Peek(n.Context(), i.ID, "", records)
		if err != nil {
			n.Fatal(err)
		}
		return records[:page.N]
	}
	return nil
}

// TestFromSendingToSearching is a session with a system that works.
func TestFromSendingToSearching(t *testing.T) {
	n := newNewspaper(t, windows.Options{Sweep: 10 * time.Millisecond}, window.Options{Now: time.Now})
	n.works()
	if status, out, errs := n.session.run(n.Context(), news(1)+"\n"+news(2)+"\n"+strings.Replace(news(3), "20260301", "20260302", 1), "window send --batch today --kind event"); status != 0 || out != "3 records stored, 0 duplicates, 0 refused.\n" {
		n.Fatalf("%d %s%s", status, out, errs)
	}
	if status, _, errs := n.session.run(n.Context(), `{"globalEventId":1,"mentionTimeDate":20260301120000,"mentionIdentifier":"https://example.com/a","mentionSourceName":"example.com","sentenceId":4,"confidence":90,"mentionDocTone":-1.5}`, "window send --batch today --kind mention"); status != 0 {
		n.Fatal(errs)
	}
	n.types("search police", "No such records.")
	n.types("window close today", "The window of batch today is closed.")
	n.eventually("search --in mentions", "2026-03-01T12:00:00Z +1 +example.com +4 +90 +-1.5 +https://example.com/a")
	n.eventually("search police", "2026-03-02 +3 +POLICE 3 +.*")
	n.eventually("search police", "2026-03-01 +1 +POLICE 1 +.*")
	n.types("search police --oldest", `
DAY         ID  ACTOR 1   ACTOR 2    CODE  TONE  MENTIONS  PLACE            SOURCE
2026-03-01  1   POLICE 1  PROTESTER  141   -2.5  3         Berlin, Germany  https://example.com/1
2026-03-01  2   POLICE 2  PROTESTER  141   -2.5  3         Berlin, Germany  https://example.com/2
2026-03-02  3   POLICE 3  PROTESTER  141   -2.5  3         Berlin, Germany  https://example.com/3
`)
	n.types("search actor1Name:police eventCode:141 --since 2026-03-02 --until 2026-03-02 --json", `~\{"day":"2026-03-02","id":"3","document":\{"globalEventId":3,.*\}\}`)
	if status, out, errs := n.session.run(n.Context(), "", "search --size 1 police"); status != 0 || strings.Count(out, "\n") != 2 || errs != "These are 1 of 3. --size 0 shows all.\n" {
		n.Errorf("%d %s%s", status, out, errs)
	}
	if status, out, errs := call(t, nil, "search", "--server", n.url, "--size", "0", "--json", "--", "police", "-globalEventId:2"); status != 0 || strings.Count(out, "\n") != 2 || errs != "" {
		n.Errorf("%d %s%s", status, out, errs)
	}
	n.fails("search nix:1", "the query cannot be understood at byte 0: gdelt-events has no field")
	n.fails("search --in people", "there are events, mentions")
	n.fails("search --since soon", "is no time")

	n.fails("window show today", "it was delivered, or no records came for it")
	n.eventually("audit windows", ` +windows-delivery +4 +4 +0 +0 +0 +0 +0 +0 +0 +0 +0`)
	n.types("audit windows", `
windows
~ +PIPELINE +ACCEPTED +.*
~ +windows-delivery +4 +4 .*
~ +adapter-event +0 +0 .*
~ +index-event +3 +3 .*
~ +index-mention +1 +1 .*
The books balance: every accepted record is accounted for.
`)
	n.eventually("status", `windows-delivery +running +\d+ +\d+ +0 +0 +0 +closed`)
	n.types("pause windows-delivery", "windows-delivery is paused.")
	if status, _, errs := n.session.run(n.Context(), news(7), "window send --batch late --kind event"); status != 0 {
		n.Fatal(errs)
	}
	n.types("window close late", "The window of batch late is closed.")
	n.eventually("window show late", "ready +the delivery is paused: `tidemill resume windows-delivery`")
	if _, out, _ := n.session.run(n.Context(), "", "window status"); !strings.Contains(out, "The delivery is paused: `tidemill resume windows-delivery` ends the pause.\n") {
		n.Errorf("%s", out)
	}
	n.types("resume windows-delivery", "windows-delivery is "+flow.Running.String()+".")
	n.eventually("search --size 1 --oldest police globalEventId:7", ".*POLICE 7.*")

	m := &tidemill.Message{ID: "x", To: "adapter-event", Payload: []byte(news(8))}
	if err := n.queues.Add(n.Context(), []*tidemill.Message{m}, nil); err != nil {
		n.Fatal(err)
	}
	n.eventually("dead list --pipeline adapter-event", `x +\S+ +validation +held +0 +there is no batch id.*`)
	n.types("dead show x", `
~number +1, held
~message +x
~pipeline +adapter-event
~event +
~reason +validation
~replays +0
~failed +\S+ +validation +there is no batch id.*

~\{"globalEventId":8.*
`)
}
