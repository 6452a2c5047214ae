package cli

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemill": func() { Main(command.Build{Version: "dev"}, systems.All()) }, "plant": plant})
}

// TestSessions runs the sessions in testdata: what somebody types, and what comes of it.
// Beside testscript's own commands they use
//
//	start ARGS…               tidemill run ARGS…, until it is ready; sets TIDEMILL_SERVER, KEY and TIDEMILL_DATA, where its token is
//	end [SIGNAL]              ends it and wants exit status 0; its output is in run.out, run.err
//	hangup                    sends it SIGHUP, and waits until the log has what came of it
//	filled FILE TEXT          waits until a file has a text, for 20s
//	follow REGEXP             runs the commands that start showed for a first event; the last one's output matches at last
//	eventually REGEXP ARGS…   tidemill ARGS… until its output matches, for 20s
//	status N ARGS…            tidemill ARGS… must end with this exit status
//	get PATH FILE [BODY]      asks the instance as a program would, with TIDEMILL_TOKEN; the answer is added to the file
//	plant …                   puts into a data folder what no door lets in; see plant
func TestSessions(t *testing.T) {
	t.Parallel()
	dir, files := "testdata", []string(nil)
	if watched { // make servers runs all of them
		dir = ""
		for _, name := range []string{"run", "operate"} {
			files = append(files, filepath.Join("testdata", name+".txtar"))
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Files:               files,
		RequireUniqueNames:  true,
		RequireExplicitExec: false,
		Setup: func(e *testscript.Env) error {
			// No instance is found by chance: nobody listens on port 1.
			e.Setenv("TIDEMILL_LISTEN", "127.0.0.1:1")
			e.Values[instanceKey{}] = new(instance)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "end": end, "hangup": hangup, "filled": filled, "follow": follow, "eventually": eventually, "status": status, "get": get,
		},
	})
}

// instance is a tidemill run of a session.
type instance struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when all it printed is in run.out
}

type instanceKey struct{}

func execute(ts *testscript.TestScript, args ...string) *exec.Cmd {
	path, err := exec.LookPath("tidemill")
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TIDEMILL_LISTEN", "TIDEMILL_SERVER", "TIDEMILL_DATA", "TIDEMILL_TOKEN", "TIDEMILL_SYSTEMS", "TIDEMILL_GEOIP_URL", "TIDEMILL_GEOIP_ALLOW_PRIVATE"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

var printed = map[string]*regexp.Regexp{
	"TIDEMILL_SERVER": regexp.MustCompile(`^  listening +(http://\S+)`),
	"KEY":             regexp.MustCompile(`^ +(tm_\S+)$`),
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: start ARGS…")
	}
	ts.Setenv("TIDEMILL_SERVER", "")
	ts.Setenv("TIDEMILL_DATA", "")
	cmd := execute(ts, append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	errs, err := os.OpenFile(ts.MkAbs("run.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer errs.Close()
	out, err := os.OpenFile(ts.MkAbs("run.out"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	ts.Check(err)
	cmd.Stderr = errs
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	in := ts.Value(instanceKey{}).(*instance)
	*in = instance{cmd, make(chan struct{})}
	read := in.read
	ts.Defer(func() { _ = cmd.Process.Kill(); <-read; _ = cmd.Wait() })
	ready := make(chan bool, 1)
	found := map[string]string{}
	go func() {
		defer close(read)
		defer out.Close()
		waiting := true
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			_, _ = out.WriteString(lines.Text() + "\n")
			for name, re := range printed {
				if m := re.FindStringSubmatch(lines.Text()); m != nil && waiting {
					found[name] = m[1]
				}
			}
			if waiting && strings.HasPrefix(lines.Text(), "ready") {
				waiting = false
				ready <- true
			}
		}
		if waiting {
			ready <- false
		}
	}()
	if !<-ready {
		text, _ := os.ReadFile(ts.MkAbs("run.err"))
		ts.Fatalf("it ended before it was ready:\n%s", text)
	}
	ts.Setenv("KEY", "")
	for name, v := range found {
		ts.Setenv(name, v)
	}
	if n := slices.Index(args, "--data"); n >= 0 && n+1 < len(args) {
		ts.Setenv("TIDEMILL_DATA", ts.MkAbs(args[n+1]))
	}
}

func end(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt, "KILL": os.Kill}
	name := "TERM"
	if len(args) == 1 {
		name = args[0]
	}
	in := ts.Value(instanceKey{}).(*instance)
	if neg || signals[name] == nil || in.cmd == nil {
		ts.Fatalf("usage: end [TERM|INT|KILL], after start")
	}
	ts.Check(in.cmd.Process.Signal(signals[name]))
	<-in.read
	err := in.cmd.Wait()
	if name != "KILL" {
		ts.Check(err)
	}
	in.cmd = nil
	ts.Setenv("TIDEMILL_SERVER", "")
	ts.Setenv("TIDEMILL_DATA", "")
}

func filled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: filled FILE TEXT")
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		b, _ := os.ReadFile(ts.MkAbs(args[0]))
		if strings.Contains(string(b), args[1]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s never had %q; it has\n%s", args[0], args[1], b)
		}
	}
}

func hangup(ts *testscript.TestScript, neg bool, args []string) {
	in := ts.Value(instanceKey{}).(*instance)
	if neg || in.cmd == nil {
		ts.Fatalf("usage: hangup, after start")
	}
	ts.Check(in.cmd.Process.Signal(syscall.SIGHUP))
	filled(ts, false, []string{"run.err", "SIGHUP"})
}

func follow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: follow REGEXP, after start")
	}
	_, shown, ok := strings.Cut(ts.ReadFile("run.out"), "Send a first event, from another terminal:\n\n")
	shown, _, _ = strings.Cut(shown, "\n\n")
	if !ok {
		ts.Fatalf("no first events are shown")
	}
	var out []byte
	do := func(line string) (err error) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = ts.Getenv("WORK")
		cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
		out, err = cmd.CombinedOutput()
		return err
	}
	last := ""
	for line := range strings.SplitSeq(shown, "\n") {
		if last = line[min(len(line), 14):]; strings.Contains(last, "bridge listen") {
			continue
		}
		if err := do(last); err != nil && !strings.Contains(last, " show ") { // it may take a moment to be known
			ts.Fatalf("%s\n%v\n%s", last, err, out)
		}
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(20 * time.Second); !want.Match(out); time.Sleep(20 * time.Millisecond) {
		if err := do(last); time.Now().After(end) {
			ts.Fatalf("%s never said %s; it says (%v)\n%s", last, args[0], err, out)
		}
	}
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP ARGS…")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		out, err := execute(ts, args[1:]...).CombinedOutput()
		if want.Match(out) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("tidemill %s never said %s; it says (%v)\n%s", strings.Join(args[1:], " "), args[0], err, out)
		}
	}
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: status N ARGS…")
	}
	err := ts.Exec("tidemill", args[1:]...)
	got := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ProcessState.String()[len("exit status "):]
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s (%v)", got, args[0], err)
	}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: get PATH FILE [BODY]")
	}
	method, body := http.MethodGet, io.Reader(nil)
	if len(args) == 3 {
		method, body = http.MethodPost, strings.NewReader(args[2])
	}
	req, err := http.NewRequest(method, ts.Getenv("TIDEMILL_SERVER")+args[0], body)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+ts.Getenv("TIDEMILL_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = io.Copy(f, resp.Body)
	ts.Check(errors.Join(err, f.Close()))
}
