//go:build unix

package docs

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/test/process"
)

const (
	patience = 60 * time.Second // for a command that is repeated, and for another terminal
	within   = 10 * time.Minute // for one command to end, on the slowest machine
	pause    = 100 * time.Millisecond
)

// ours are the default ports of the product.
var ours = []string{"8484", "8080", "8081", "9090", "1883", "9191"}

// session is what one reader does, beginning in an empty folder.
type session struct {
	t     testing.TB
	dir   string
	ports map[string]string // of the page → of this session
	in    io.Writer         // the shell's
	out   *output           // the shell's
	shell *exec.Cmd
	turn  int // commands so far
	terms []*terminal
}

// begin opens a shell in an empty folder, with servers of its own.
func begin(t testing.TB, servers []string) *session {
	t.Helper()
	s := &session{t: t, dir: t.TempDir(), ports: map[string]string{}, out: &output{changed: make(chan struct{}, 1)}}
	for _, p := range ours {
		s.ports[p] = testenv.FreePort(t)
	}
	for _, name := range servers {
		s.serve(name)
	}
	s.shell = exec.Command("bash", "--noprofile", "--norc")
	s.shell.Dir = s.dir
	s.shell.Env = append(s.environment(), "PATH="+s.tools()+":"+os.Getenv("PATH"))
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	s.shell.Stdout, s.shell.Stderr = s.out, s.out
	if err := s.shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what a test that failed left behind
		for _, term := range s.terms {
			if !term.ended {
				_ = syscall.Kill(-term.pid, syscall.SIGKILL)
			}
		}
		_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL)
		_ = s.shell.Wait()
	})
	s.do("set -m") // a process group for each terminal
	return s
}

// environment is the test's without variables that would change the product.
func (s *session) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "TIDEMILL_") || strings.Contains(name, "REDIS") || strings.Contains(name, "KAFKA") ||
			slices.Contains([]string{"DATABASE_URL", "CLICKHOUSE_URL", "OPENSEARCH_URL", "PATH", "PWD"}, name)
	})
	return append(env, "TIDEMILL_LISTEN=127.0.0.1:"+s.ports["8484"], "CHECKOUT="+checkout(s.t), "LC_ALL=C.UTF-8", "TZ=UTC")
}

// checkout is the folder of the repository.
func checkout(t testing.TB) string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve starts a server of the session's own, in place of the one on its usual port.
func (s *session) serve(name string) {
	s.t.Helper()
	kinds := map[string]struct {
		kind testenv.Kind
		port string
	}{
		"redis": {testenv.PrivateRedis, "6379"}, "postgres": {testenv.PrivatePostgres, "5432"}, "clickhouse": {testenv.PrivateClickHouse, "8123"},
		"kafka": {testenv.PrivateKafka, "9092"}, "mosquitto": {testenv.PrivateMosquitto, "1883"}, "opensearch": {testenv.PrivateOpenSearch, "9200"},
	}
	k, ok := kinds[name]
	if !ok {
		s.t.Fatalf("no server %q: have %v", name, slices.Sorted(maps.Keys(kinds)))
	}
	server := testenv.Start(s.t, k.kind)
	_, s.ports[k.port], _ = strings.Cut(server.Addr, ":")
	if name == "postgres" {
		s.database(server.URL)
	}
}

// database makes the user and the database that the pages name.
func (s *session) database(url string) {
	s.t.Helper()
	c, err := pgx.Connect(s.t.Context(), url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(s.t.Context())
	for _, sql := range []string{"CREATE ROLE tidemill LOGIN", "CREATE DATABASE tidemill OWNER tidemill"} {
		if _, err := c.Exec(s.t.Context(), sql); err != nil {
			s.t.Fatal(err)
		}
	}
}

// tools makes a folder with the binary under its name, and with other tools that have a default
// port, so that the default is one of the session's.
func (s *session) tools() string {
	s.t.Helper()
	binary, err := process.Binary()
	if err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text), 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	script("tidemill", fmt.Sprintf(`case "$1 $2" in
"partner listen") set -- "$@" --listen 127.0.0.1:%s ;;
"run bridge" | "bridge listen" | "bridge send") export TIDEMILL_BRIDGE_BROKER_LISTEN=127.0.0.1:%s HEALTH_PORT=%s METRICS_PORT=%s ;;
esac
exec -a tidemill %s "$@"
`, s.ports["9191"], s.ports["1883"], s.ports["8080"], s.ports["9090"], binary))
	instead := func(name, arguments string) {
		if path, err := exec.LookPath(name); err == nil {
			script(name, fmt.Sprintf("exec %s %s \"$@\"\n", path, arguments))
		}
	}
	instead("curl", "--silent --show-error") // as if it printed to a terminal
	if port := s.ports["6379"]; port != "" {
		instead("redis-cli", "-p "+port)
	}
	return dir
}

// here puts the session's ports in place of the page's.
func (s *session) here(text string) string { return swapPorts(text, s.ports) }

// there puts the page's ports in place of the session's, and removes what the product says only
// because its ports are unusual.
func (s *session) there(text string) string {
	back := map[string]string{}
	for of, is := range s.ports {
		back[is] = of
	}
	return unusual.Replace(swapPorts(text, back))
}

var unusual = strings.NewReplacer(" --server http://127.0.0.1:8484", "", "MQTT_BROKERS=tcp://127.0.0.1:1883 tidemill", "tidemill")

var port = regexp.MustCompile(`[:=]\d{4,5}\b`)

func swapPorts(text string, with map[string]string) string {
	return port.ReplaceAllStringFunc(text, func(p string) string {
		if is, ok := with[p[1:]]; ok {
			return p[:1] + is
		}
		return p
	})
}

var (
	staysOpen = regexp.MustCompile(`^(\w+=\S+ +)*tidemill (run|bridge listen|partner listen)\b`)
	onlyLooks = regexp.MustCompile(`^tidemill (events|find|explain|warnings|audit|status|doctor|search|(person|event|dead|synclog|window|queue) (show|list|jobs|stats)|(crm|replay|window) status|partner list)\b`)
	aside     = regexp.MustCompile(`\s+# .*$`) // a comment at the end of a command
	logRecord = regexp.MustCompile(`^(time=|\{"time":)`)
	notice    = regexp.MustCompile(`^bash: line \d+: +\d+ Killed `) // bash says so of another terminal's command
	ingestKey = regexp.MustCompile(`\btm_[A-Za-z0-9_-]{32}`)
)

// run does a step of the page, and returns what is wrong.
func (s *session) run(st step) error {
	switch st.kind {
	case "file":
		return os.WriteFile(filepath.Join(s.dir, st.name), []byte(s.here(st.text)), 0o644)
	case "setup":
		if staysOpen.MatchString(st.text) {
			return s.open(st)
		}
		if out, err := s.do(s.here(st.text)); err != nil {
			return fmt.Errorf("%w; it printed:\n%s", err, indented(out))
		}
		return nil
	case "gdelt":
		_, err := gdelttest.Batch{Stamp: st.name, Events: 1000, Mentions: 3000}.Write(s.dir, true)
		return err
	case "node":
		return s.node(st)
	case "stop":
		return s.stop(st.name)
	case "prints":
		return s.prints(st)
	}
	switch file, shows := strings.CutPrefix(st.text, "cat "); {
	case shows && !s.has(file):
		return os.WriteFile(filepath.Join(s.dir, file), []byte(strings.Join(st.output, "\n")+"\n"), 0o644)
	case staysOpen.MatchString(st.text) && !st.fails():
		return s.open(st)
	case st.kill != "":
		return s.killed(st)
	}
	return s.command(st)
}

func (s *session) has(file string) bool {
	_, err := os.Stat(filepath.Join(s.dir, file))
	return err == nil
}

// command runs a command to its end, repeatedly if it only looks.
func (s *session) command(st step) error {
	again := onlyLooks.MatchString(st.text)
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		out, err := s.do(s.here(st.text))
		switch {
		case (err != nil) != st.fails():
			err = fmt.Errorf("%v; it printed:\n%s", or(err, "it succeeded, where the page shows an error"), indented(out))
		case st.outputShown:
			err = compare(st.output, out, st.marks)
		default:
			err = nil
		}
		if err == nil || !again || time.Now().After(deadline) {
			return err
		}
	}
}

func or(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// do types a command into the shell and returns its output. The error is its exit status.
func (s *session) do(command string) ([]string, error) {
	s.turn++
	mark := fmt.Sprintf("<end of command %d: ", s.turn)
	from := s.out.len()
	fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1; printf '\\n%s%%s>\\n' $?\n", command, mark)
	text, status, err := s.out.until(from, mark, within)
	if err != nil {
		return nil, err
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(s.there(text), "\n"), "\n"), notice.MatchString)
	if status != "0" {
		return lines, fmt.Errorf("exit status %s", status)
	}
	return lines, nil
}

// node runs a program, with the SDKs of test/sdk beside it.
func (s *session) node(st step) error {
	modules, err := filepath.Abs(filepath.Join("..", "sdk", "node_modules"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(modules); err != nil {
		return fmt.Errorf("the SDKs are not installed: make test/sdk/node_modules: %w", err)
	}
	if !s.has("node_modules") {
		if err := os.Symlink(modules, filepath.Join(s.dir, "node_modules")); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "program.mjs"), []byte(s.here(st.text)), 0o644); err != nil {
		return err
	}
	if out, err := s.do("node program.mjs"); err != nil {
		return fmt.Errorf("%w; it printed:\n%s", err, indented(out))
	}
	return nil
}
