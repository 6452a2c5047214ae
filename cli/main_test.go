package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/golden"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// call runs a command in this process.
func call(t *testing.T, getenv map[string]string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, command.Env{Table: systems.All(), In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(k string) string { return getenv[k] }})
	return status, o.String(), e.String()
}

func TestTheHelpAtTheTop(t *testing.T) {
	status, out, errs := call(t, nil, "--help")
	if status != 0 || errs != "" {
		t.Errorf("--help ends with %d and says %q on standard error", status, errs)
	}
	golden.Same(t, filepath.Join("testdata", "help.golden"), []byte(out))
	if status, none, errs := call(t, nil); status != 2 || none != "" || errs != out {
		t.Errorf("without arguments: exit status %d, want 2 and the help on standard error", status)
	}
}

func TestEveryCommandTeaches(t *testing.T) {
	t.Setenv("TIDEMILL_TOKEN", "canary-token")
	var c commands
	model, err := kong.New(&c, append(ofSystems(systems.All()), kong.Vars{"systems": "", "version": ""})...)
	if err != nil {
		t.Fatal(err)
	}
	leaves := model.Model.Leaves(true)
	if len(leaves) < 18 {
		t.Fatalf("only %d commands", len(leaves))
	}
	for _, l := range leaves {
		path := strings.Fields(l.Path())
		status, out, errs := call(t, nil, append(path, "--help")...)
		if path[0] == "help" {
			continue // it explains the others
		}
		if status != 0 || errs != "" || !strings.HasPrefix(out, "Usage: tidemill "+l.Path()) || !strings.Contains(strings.Join(strings.Fields(out), " "), l.Help) {
			t.Errorf("%s --help: exit status %d\n%s%s", l.Path(), status, out, errs)
		}
		if strings.Contains(out, "canary") {
			t.Errorf("%s --help shows the token:\n%s", l.Path(), out)
		}
		for _, f := range l.Flags {
			if f.Help == "" {
				t.Errorf("%s --%s is not explained", l.Path(), f.Name)
			}
		}
		for _, p := range l.Positional {
			if p.Help == "" {
				t.Errorf("%s <%s> is not explained", l.Path(), p.Name)
			}
		}
	}
}

func TestAWrongCommandLineIsExitStatus2(t *testing.T) {
	for _, c := range []struct {
		name, args, want string
	}{
		{"an unknown command", "statsu", `unexpected argument statsu, did you mean "status"?`},
		{"an unknown flag", "status --jso", `unknown flag --jso, did you mean "--json"?`},
		{"a group without a command", "dead", `expected one of "list", "show", "edit", "replay", "delete"`},
		{"a missing argument", "person show", `expected "<distinct-id>"`},
		{"too many arguments", "audit a b", "unexpected argument b"},
		{"a flag without its value", "events --max", "--max"},
		{"a word for a number", "events --max many", "--max"},
		{"an unknown system", "run nonsense", `there is no system "nonsense"`},
		{"an unknown system to plan", "plan nonsense --rate 1", `there is no system "nonsense"`},
		{"a plan without a rate", "plan crm", "--rate"},
		{"a project without a key", "run --project shop", "--project wants NAME=KEY"},
		{"an empty key", "run --project shop=", "--project wants NAME=KEY"},
		{"no choice of letters", "dead delete", "say which dead letters to delete"},
		{"all letters and some", "dead replay --all --reason timeout --rate 5/s", "contradict each other"},
		{"a rate that is none", "dead replay --all --rate fast", `"fast" is not a rate: write 50/s, 50/m or 50/h`},
		{"a rate of nothing", "dead replay --all --rate 0/s", "is not a rate"},
		{"a state of a letter that there is not", "dead list --state gone", "--state"},
		{"no choice of jobs", "queue retry q", "say which jobs to retry"},
		{"all jobs and some", "queue clean q --all --state failed", "contradict each other"},
		{"a state that cannot be removed", "queue remove q --state failed", "--state"},
		{"limits of nobody", "queue limits q --tenant shop", "say which limit"},
		{"a limit and none", "queue limits q --none --rate 5/s", "contradict each other"},
		{"limits of two", "queue limits q --tenant shop --each-key --rate 5/s", "can't be used together"},
		{"a time to keep nothing", "queue limits q --keep-for 1h", "--keep-for needs"},
		{"no choice of events to replay", "replay start", "say what to replay: --since"},
		{"all events and some", "replay start --all --type x", "contradict each other"},
		{"a count and a wait", "replay start --all --wait --dry-run", "contradict each other"},
		{"a state of the sync log that there is not", "synclog list --state gone", "--state"},
		{"a count below nothing", "synclog list --max=-1", "-n wants a number"},
		{"half of an event's name", "synclog show club", `expected "<id>"`},
		{"no choice of windows", "window replay", "say which windows to replay"},
		{"all windows and some", "window replay --all --batch b", "contradict each other"},
		{"a state of a window that there is not", "window list --state gone", "--state"},
		{"fewer windows than none", "window list --max=-1", "-n wants a number"},
		{"fewer records than none", "window show b --records=-1", "--records wants a number"},
		{"records of no batch", "window send --kind event", "say which batch the records of standard input belong to"},
		{"records of no kind", "window send --batch b", "say what the records of standard input are"},
		{"records of another kind", "window send --batch b --kind person", "--kind"},
		{"a batch that expects less than nothing", "window send --batch b --kind event --expect=-1", "--expect wants a number"},
		{"fewer hits than none", "search x --size=-1", "--size wants a number"},
		{"a state that cannot be cleaned", "queue clean q --state leased", "--state"},
		{"a time that has passed", "partner open p --for=-1s", "--for needs a time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := call(t, nil, strings.Fields(c.args)...)
			if status != 2 || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "--help`.") {
				t.Errorf("tidemill %s: exit status %d, want 2 and %q\n%s%s", c.args, status, c.want, out, errs)
			}
		})
	}
	if _, _, errs := call(t, nil, "dead", "list", "--nonsense"); !strings.Contains(errs, "See `tidemill dead list --help`.") {
		t.Errorf("the hint is not the command's own: %s", errs)
	}
}

func TestVersion(t *testing.T) {
	build := command.Build{Version: "1.2.3", Commit: "c0ffee", Date: "2026-11-26T00:00:00Z"}
	of := func(args ...string) string {
		var out bytes.Buffer
		if status := run(t.Context(), args, command.Env{Table: systems.All(), Build: build, Out: &out, Err: &out}); status != 0 {
			t.Errorf("%s: exit status %d", args, status)
		}
		return out.String()
	}
	if out := of("--version"); out != "tidemill 1.2.3\n" {
		t.Errorf("--version = %q", out)
	}
	want := fmt.Sprintf("tidemill 1.2.3\n  commit   c0ffee\n  date     2026-11-26T00:00:00Z\n  go       %s %s/%s\n  systems  analytics, bridge, delivery, crm, windows\n  servers  redis, postgresql, clickhouse, kafka, opensearch\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if out := of("version"); out != want {
		t.Errorf("version = %q, want %q", out, want)
	}
	var view map[string]any
	out := of("version", "--json")
	if err := json.Unmarshal([]byte(out), &view); err != nil || view["version"] != "1.2.3" || view["commit"] != "c0ffee" || view["date"] != build.Date || view["go"] != runtime.Version() {
		t.Errorf("version --json = %q (%v)", out, err)
	}
}

func TestGoKnowsWhatIsNotARelease(t *testing.T) {
	noted := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026"}}}
	if got := (command.Build{Version: "dev"}).Or(noted); got != (command.Build{Version: "0.2.0", Commit: "abc", Date: "2026"}) {
		t.Errorf("what go install noted = %+v", got)
	}
	release := command.Build{Version: "1", Commit: "c", Date: "d"}
	if got := release.Or(noted); got != release {
		t.Errorf("a release = %+v", got)
	}
	noted.Main.Version = "(devel)"
	if got := (command.Build{Version: "dev"}).Or(noted); got.Version != "dev" {
		t.Errorf("a clone = %+v", got)
	}
}

func TestWhereTheInstanceIsLookedFor(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8484": command.DefaultServer, "127.0.0.1:0": command.DefaultServer, "0.0.0.0:99": "http://127.0.0.1:99", "[::]:99": "http://127.0.0.1:99",
		":99": "http://127.0.0.1:99", "[::1]:99": "http://[::1]:99", "example.com:99": "http://example.com:99",
	} {
		if got := command.Listener(&config.Loaded{Config: config.Config{Listen: listen}}); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
	}
	c, err := systems.All().Settings().Load(config.Layers{})
	if err != nil || command.Listener(c) != "http://127.0.0.1:8484" {
		t.Errorf("without configuration: %s, %v", command.Listener(c), err)
	}
	for server, want := range map[string]string{"localhost:1": "http://localhost:1", "https://x/": "https://x", "http://x": "http://x"} {
		if got := command.Address(server); got != want {
			t.Errorf("--server %s: %s, want %s", server, got, want)
		}
	}
}

// TestAnswersThatAreNone has servers that are no instance, or that break down.
func TestAnswersThatAreNone(t *testing.T) {
	const status = `{"version":"v","data":"/nowhere","systems":[]}`
	ok := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }
	for _, c := range []struct {
		name string
		do   http.HandlerFunc
		args string
		want string
	}{
		{"another program", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) },
			"status", "answered with text/html; charset=utf-8: is it a Tidemill instance?"},
		{"another program without such a page", http.NotFound, "status", "answered 404 Not Found: is it a Tidemill instance?"},
		{"an answer that is cut off", func(w http.ResponseWriter, _ *http.Request) { ok(w); _, _ = w.Write([]byte(status[:20])) },
			"status", "was cut off: unexpected EOF"},
		{"a listing that is cut off", func(w http.ResponseWriter, r *http.Request) {
			ok(w)
			if strings.HasSuffix(r.URL.Path, "/status") {
				_, _ = w.Write([]byte(status))
				return
			}
			w.Header().Set("Content-Type", operation.LinesType)
			_, _ = w.Write([]byte(`{"event_id":"1"}` + "\n" + `{"event_id":`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "events --json", "the listing was cut off: unexpected EOF"},
		{"a listing that ends with an error", func(w http.ResponseWriter, r *http.Request) {
			ok(w)
			if strings.HasSuffix(r.URL.Path, "/status") {
				_, _ = w.Write([]byte(status))
				return
			}
			w.Header().Set("Content-Type", operation.LinesType)
			_, _ = w.Write([]byte(`{"event_id":"1"}` + "\n" + `{"problem":{"type":"/api/v1/problems/failed","title":"Internal Server Error","status":500,"detail":"the disk broke"}}` + "\n"))
		}, "events --json", "the listing was cut off: the disk broke"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.do)
			defer s.Close()
			got, out, errs := call(t, nil, append(strings.Fields(c.args), "--server", s.URL)...)
			if got != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("exit status %d, want 1 and %q\n%s", got, c.want, errs)
			}
			if strings.HasPrefix(c.args, "events") && out != `{"event_id":"1"}`+"\n" {
				t.Errorf("printed %q, want the whole line and nothing else", out)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		status, out, errs := call(t, nil, "completion", shell)
		if status != 0 || !strings.Contains(out, "__complete") {
			t.Errorf("completion %s: exit status %d\n%s%s", shell, status, out, errs)
		}
	}
	for _, c := range []struct{ asked, want string }{ // what the shell asks, by that script
		{"dea", "dead :4"},
		{"dead sho", "show :4"},
		{"run win", "windows :4"},
		{"run windows cr", "crm :4"},
		{"dead list --sta", "--state :4"},
		{"dead list --state h", "held :4"},
		{"help wind", "window :4"},
		{"help window sh", "show :4"},
		{"completion f", "fish :4"},
		{"send ", ":0"}, // files, which the shell knows
		{"person show x ", ":4"},
	} {
		words := strings.Split(c.asked, " ")
		status, out, errs := call(t, nil, append([]string{"__completeNoDesc"}, words...)...)
		if got := strings.Join(strings.Fields(out), " "); status != 0 || got != c.want {
			t.Errorf("completing %q: exit status %d, %q, want %q\n%s", c.asked, status, got, c.want, errs)
		}
	}
}

func TestTextFromOutsideDoesNotSteerTheTerminal(t *testing.T) {
	if got := command.Printable("a\x1b[2J\u009b\x7f\nü"); got != "a<U+001B>[2J<U+009B><U+007F><U+000A>ü" {
		t.Errorf("printable = %q", got)
	}
	if got := command.Short("äöü", 2); got != "ä…" {
		t.Errorf("short = %q", got)
	}
}

func TestTablesAreLaidOutBlockByBlock(t *testing.T) {
	var b bytes.Buffer
	w := command.Table{Out: &b, Head: "A\tB", None: "None."}
	if err := w.End(nil); err != nil || b.String() != "None.\n" {
		t.Errorf("without rows: %q, %v", b.String(), err)
	}
	b.Reset()
	w = command.Table{Out: &b, Head: "A\tB"}
	for range command.Block {
		if err := w.Row("long", "b"); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(b.String(), "\n"); n != command.Block+1 {
		t.Errorf("after %d rows %d lines are printed", command.Block, n)
	}
	if err := w.End(nil); err != nil || !strings.HasPrefix(b.String(), "A     B\nlong  b\n") {
		t.Errorf("%v, %q", err, b.String()[:40])
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	rows := [][]string{{"2026-01-01", "a-long-name-of-something", "12345", strings.Repeat("ü", 100)}, {"2026-01-02", "b", "7", "short"}}
	show := func(width int, live bool) string {
		var b bytes.Buffer
		w := command.Table{Out: &b, Head: "DAY\tNAME\tCOUNT\tTEXT", Width: width, Live: live}
		for _, r := range rows {
			if err := w.Row(r...); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, width := range []int{120, 60, 40} {
		for _, live := range []bool{false, true} {
			got := show(width, live)
			for line := range strings.Lines(got) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
					t.Errorf("%d characters on a terminal of %d:\n%s", n, width, got)
				}
			}
			if strings.Count(got, "\n") != 3 || !strings.Contains(got, "12345") || !strings.Contains(got, "2026-01-01") || !strings.Contains(got, "…") {
				t.Errorf("on a terminal of %d:\n%s", width, got)
			}
		}
	}
	if got := show(-1, false); !strings.Contains(got, rows[0][1]) || !strings.Contains(got, rows[0][3]) {
		t.Errorf("on no terminal something is cut:\n%s", got)
	}
	want := "DAY    2026-01-01\nNAME   a-long-name-of-something\nCOUNT  12345\nTEXT   " + rows[0][3] + "\n\nDAY    2026-01-02\n"
	if got := show(25, false); !strings.HasPrefix(got, want) {
		t.Errorf("on one of 25, where no cutting helps:\n%s", got)
	}
}

func TestHelpOfACommand(t *testing.T) {
	var c commands
	model, err := kong.New(&c, append(ofSystems(systems.All()), kong.Vars{"systems": "", "version": ""})...)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range model.Model.Leaves(true) {
		if watched && i%10 > 0 { // make servers asks all of them
			continue
		}
		path := strings.Fields(l.Path())
		_, want, _ := call(t, nil, append(path, "--help")...)
		if status, out, errs := call(t, nil, append([]string{"help"}, path...)...); status != 0 || errs != "" || path[0] != "help" && out != want {
			t.Errorf("help %s: exit status %d\n%s%s", l.Path(), status, out, errs)
		}
	}
	_, want, _ := call(t, nil, "--help")
	if status, out, _ := call(t, nil, "help"); status != 0 || out != want {
		t.Errorf("help: exit status %d\n%s", status, out)
	}
	if status, out, _ := call(t, nil, "help", "dead"); status != 0 || !strings.Contains(out, "tidemill dead <command>") {
		t.Errorf("help dead: exit status %d\n%s", status, out)
	}
	if status, _, errs := call(t, nil, "help", "nonsense"); status != 2 || !strings.Contains(errs, "nonsense") {
		t.Errorf("help nonsense: exit status %d\n%s", status, errs)
	}
}

// TestInProcess checks that commands without a running instance get what they would over
// the network.
func TestInProcess(t *testing.T) {
	tr := &operation.InProcess{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			_, _ = w.Write([]byte("some"))
			panic(http.ErrAbortHandler)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		default:
			w.Header().Set("X", "y")
			_, _ = w.Write([]byte(r.RemoteAddr + " " + r.Host + " " + r.RequestURI))
		}
	})}
	client := http.Client{Transport: tr}
	get := func(path string) (*http.Response, string, error) {
		resp, err := client.Get("http://anything" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(resp.Body)
		return resp, b.String(), err
	}
	if r, body, err := get("/a?b=c"); err != nil || r.StatusCode != 200 || r.Header.Get("X") != "y" || body != "127.0.0.1:0 localhost /a?b=c" {
		t.Errorf("%v %v %q %v", r.Status, r.Header, body, err)
	}
	if _, body, err := get("/cut"); err == nil || body != "some" {
		t.Errorf("a cut answer reads %q, %v", body, err)
	}
	if r, _, err := get("/none"); err != nil || r.Status != "204 No Content" {
		t.Errorf("%v, %v", r.Status, err)
	}
	resp, err := client.Get("http://anything/endless")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	tr.Begun.Wait() // a handler that is not read any more ends
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://anything/endless", nil)
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close()
	}
	tr.Begun.Wait()
}
