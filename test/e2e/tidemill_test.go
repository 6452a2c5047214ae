//go:build e2e

// Package e2e runs the real binary as a user would: unmodified SDKs send to it, it is
// killed at random moments, and what came of it is asked by the command line.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tidemill-e2e")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tidemill")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tidemill/tidemill/cmd/tidemill")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// instance is one data folder and address, whose process comes and goes.
type instance struct {
	t    *testing.T
	dir  string
	addr string
	proc *exec.Cmd
	log  bytes.Buffer
}

const key = "e2e-key"

func newInstance(t *testing.T) *instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in := &instance{t: t, dir: t.TempDir(), addr: l.Addr().String()}
	t.Cleanup(func() {
		in.kill()
		if t.Failed() {
			t.Logf("the instance said:\n%s", in.log.String())
		}
	})
	return in
}

// start runs the binary and returns when it says that it is ready.
func (in *instance) start() {
	in.t.Helper()
	path, err := binary()
	if err != nil {
		in.t.Fatal(err)
	}
	in.proc = exec.Command(path, "run", "analytics", "--data", in.dir, "--listen", in.addr, "--project", "shop="+key)
	in.proc.Env = append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn")
	in.proc.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := in.proc.StdoutPipe()
	if err != nil {
		in.t.Fatal(err)
	}
	in.proc.Stderr = &in.log
	if err := in.proc.Start(); err != nil {
		in.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	in.t.Fatalf("it ended before it was ready:\n%s", in.log.String())
}

// kill ends it without notice and waits until it is gone.
func (in *instance) kill() {
	if in.proc == nil {
		return
	}
	_ = syscall.Kill(-in.proc.Process.Pid, syscall.SIGKILL)
	_ = in.proc.Wait()
	in.proc = nil
}

// ask runs a command of the CLI against the instance.
func (in *instance) ask(args ...string) []byte {
	in.t.Helper()
	path, err := binary()
	if err != nil {
		in.t.Fatal(err)
	}
	cmd := exec.Command(path, append(args, "--server", "http://"+in.addr)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		in.t.Fatalf("tidemill %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out
}

type audit struct {
	Accepted, Delivered, Skipped, Dead, Lost int
	InFlight                                 int `json:"in_flight"`
	Balanced                                 bool
}

// settled waits until nothing is in flight, and returns the books.
func (in *instance) settled() (a audit) {
	in.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if err := json.Unmarshal(in.ask("audit", "analytics", "--json"), &a); err != nil {
			in.t.Fatal(err)
		}
		if a.InFlight == 0 {
			return a
		}
		if time.Now().After(deadline) {
			in.t.Fatalf("still in flight after a minute: %+v", a)
		}
		time.Sleep(50 * time.Millisecond) // between two looks at another process
	}
}

// send runs an SDK to its end and returns what it reports.
func send(ctx context.Context, sdk, addr string, count int, pause time.Duration) error {
	cmd := exec.CommandContext(ctx, "node", "send.mjs", sdk, "http://"+addr, key, fmt.Sprint(count), fmt.Sprint(pause.Milliseconds()))
	cmd.Dir = filepath.Join("..", "sdk")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", sdk, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var report struct{ Failures []string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		return fmt.Errorf("%s: %w in\n%s", sdk, err, out)
	}
	if len(report.Failures) > 0 {
		return fmt.Errorf("%s reported %d failures, the first: %s", sdk, len(report.Failures), report.Failures[0])
	}
	return nil
}
