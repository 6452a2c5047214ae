//go:build unix

// Package process runs the real binary in tests, as a user would: it is started, killed at any
// moment, frozen, told to stop, and queried by the command line. What it logs is held to docs/logs.md.
package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/apitoken"
	"github.com/tidemill/tidemill/internal/logbook"
)

// Binary is the path of tidemill, built once for all tests of a package.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidemill-binary")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tidemill")
	return path, build("", path)
})

// build builds tidemill of the sources around a folder. Its version is "dev" wherever they came from.
func build(dir, path string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/tidemill/tidemill/cmd/tidemill")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// An Instance is one data folder and address, whose process comes and goes.
type Instance struct {
	Addr string // host:port it listens on
	Dir  string // its data folder

	// Binary builds the program that runs; nil: the one that is tested.
	Binary func() (string, error)

	t     testing.TB
	args  []string
	env   []string
	proc  *exec.Cmd
	ready chan struct{} // closed when it reports that it is ready
	ended chan error    // its end, once
	log   tail
	book  logbook.Book // what each record of the log shall be
}

// New makes an instance that runs `tidemill run` with these arguments, and with this
// environment in addition to the test's. It ends with the test. If that failed, its last output
// is shown.
func New(t testing.TB, args, env []string) *Instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := &Instance{t: t, Dir: t.TempDir(), Addr: l.Addr().String(), env: env, book: logbook.Open(t)}
	in.args = append([]string{"run", "--data", in.Dir, "--listen", in.Addr}, args...)
	t.Cleanup(func() {
		in.Kill()
		if t.Failed() {
			t.Logf("the instance at %s said last:\n%s", in.Addr, in.log.String())
		}
	})
	return in
}

// unbound lets callers ask as much as they like, unless a test says what they may: tests ask as fast as
// they can.
var unbound = []string{"TIDEMILL_ADMIN_RATES_READS=0", "TIDEMILL_ADMIN_RATES_CHANGES=0", "TIDEMILL_ADMIN_RATES_DEAR=0", "TIDEMILL_ADMIN_RATES_DEAR_OF_ALL=0"}

// Start runs the binary and returns when it reports that it is ready.
func (in *Instance) Start() {
	in.t.Helper()
	in.Begin()
	if err := in.WaitReady(time.Minute); err != nil {
		in.t.Fatal(err)
	}
}

// program is the path of what runs.
func (in *Instance) program() (string, error) {
	if in.Binary != nil {
		return in.Binary()
	}
	return Binary()
}

// Begin runs the binary and returns at once.
func (in *Instance) Begin() {
	in.t.Helper()
	path, err := in.program()
	if err != nil {
		in.t.Fatal(err)
	}
	if in.proc != nil {
		in.t.Fatal("it runs already")
	}
	cmd := exec.Command(path, in.args...)
	cmd.Env = slices.Concat(os.Environ(), unbound, in.env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ready, ended := make(chan struct{}), make(chan error, 1)
	said := sync.OnceFunc(func() { close(ready) })
	in.log.on(`"msg":"ready"`, said) // if all its output is JSON
	in.log.whole = nil               // the version before logs otherwise
	if in.Binary == nil {
		in.log.whole = func(line string) {
			if wrong := in.book.Line(line); wrong != "" {
				in.t.Errorf("the log: %s", wrong)
			}
		}
	}
	cmd.Stderr = &in.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		in.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		in.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				said()
			}
		}
		_, _ = io.Copy(io.Discard, out)
		ended <- cmd.Wait()
	}()
	in.proc, in.ready, in.ended = cmd, ready, ended
}

// WaitReady waits until it reports that it is ready.
func (in *Instance) WaitReady(within time.Duration) error {
	select {
	case <-in.ready:
		return nil
	case err := <-in.ended:
		in.proc = nil
		return fmt.Errorf("it ended before it was ready: %w\n%s", orNil(err), in.log.String())
	case <-time.After(within):
		return fmt.Errorf("it is not ready after %v:\n%s", within, in.log.String())
	}
}

func orNil(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Runs reports whether its process was started and not ended by Kill or Wait.
func (in *Instance) Runs() bool { return in.proc != nil }

// PID is its process's id; 0 if none runs.
func (in *Instance) PID() int {
	if in.proc == nil {
		return 0
	}
	return in.proc.Process.Pid
}

// Signal sends a signal to its process group.
func (in *Instance) Signal(sig syscall.Signal) {
	in.t.Helper()
	if err := syscall.Kill(-in.proc.Process.Pid, sig); err != nil {
		in.t.Fatalf("signal %v: %v", sig, err)
	}
}

// Freeze stops it, as a paused machine does, and returns when none of its threads runs any
// more: after the signal alone, threads other than the first to see it go on for a while,
// longer on a busy machine.
func (in *Instance) Freeze() {
	in.t.Helper()
	in.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	pid, err := in.PID(), error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		in.t.Fatalf("it is not frozen: %v, wait status %#x", err, uint32(status))
	}
}

// Thaw lets it go on.
func (in *Instance) Thaw() {
	in.t.Helper()
	in.Signal(syscall.SIGCONT)
}

// Kill ends it without notice and waits until it is gone.
func (in *Instance) Kill() {
	if in.proc == nil {
		return
	}
	_ = syscall.Kill(-in.proc.Process.Pid, syscall.SIGKILL)
	<-in.ended
	in.proc = nil
}

// Wait waits for its end, and returns how it ended. After the time it returns an error of its
// own and the process goes on.
func (in *Instance) Wait(within time.Duration) error {
	select {
	case err := <-in.ended:
		in.proc = nil
		return err
	case <-time.After(within):
		return fmt.Errorf("%w %v:\n%s", ErrRuns, within, in.log.String())
	}
}

// ErrRuns says that a process did not end in time.
var ErrRuns = errors.New("it still runs after")

// Stop sends SIGTERM and waits for its end.
func (in *Instance) Stop(within time.Duration) error {
	in.t.Helper()
	in.Signal(syscall.SIGTERM)
	return in.Wait(within)
}

// Log is its last standard error output.
func (in *Instance) Log() string { return in.log.String() }

// Ask runs a command of the CLI against the instance.
func (in *Instance) Ask(args ...string) []byte {
	in.t.Helper()
	out, err := in.Try(args...)
	if err != nil {
		in.t.Fatal(err)
	}
	return out
}

// Token is its API's token, once it has started: TIDEMILL_TOKEN of its environment, or the one
// in its data folder.
func (in *Instance) Token() string {
	for _, e := range slices.Backward(in.env) {
		if token, ok := strings.CutPrefix(e, "TIDEMILL_TOKEN="); ok {
			return token
		}
	}
	t, err := apitoken.Read(in.Dir)
	if err != nil { // it fails where it is used
		return ""
	}
	return t.Reveal()
}

// Try is Ask with the error returned, in addition to the output.
func (in *Instance) Try(args ...string) ([]byte, error) {
	path, err := in.program()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, append(args, "--server", "http://"+in.Addr)...)
	cmd.Env = append(os.Environ(), "TIDEMILL_TOKEN="+in.Token())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("tidemill %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	b    []byte
	want []byte // an awaited text; nil: none
	came func() // called when it was written

	line  []byte            // the last one, as far as it came
	whole func(line string) // is told each line; nil: nobody is
}

// on calls came once later writes contain a text.
func (w *tail) on(text string, came func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.b) > 0 { // an earlier run's last line may be incomplete
		w.b = append(w.b, '\n')
	}
	w.want, w.came = []byte(text), came
}

const keptLog = 32 << 10

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := max(0, len(w.b)-len(w.want))
	w.b = append(w.b, p...)
	if w.whole != nil {
		w.line = append(w.line, p...)
		for {
			line, rest, ok := bytes.Cut(w.line, []byte("\n"))
			if !ok {
				break
			}
			w.whole(string(line))
			w.line = rest
		}
	}
	if w.want != nil && bytes.Contains(w.b[from:], w.want) {
		w.want = nil
		w.came()
	}
	if over := len(w.b) - keptLog; over > keptLog { // now and then, not at each line
		w.b = append(w.b[:0], w.b[over:]...)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b[max(0, len(w.b)-keptLog):])
}
