// Package process starts and watches the measured programs: the product's binary and its peers
// as processes of their own, and real servers of one run. CPU time and memory are read from
// /proc, so a benchmark runs on Linux.
package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Build builds the product's binary into a folder, unless one is given, and returns its
// absolute path.
func Build(ctx context.Context, bin, dir string) (string, error) {
	if bin != "" {
		return filepath.Abs(bin)
	}
	return BuildModule(ctx, ".", "github.com/tidemill/tidemill/cmd/tidemill", filepath.Join(dir, "tidemill"))
}

// BuildModule builds a package of the module in a folder to a file, and returns its
// absolute path.
func BuildModule(ctx context.Context, module, pkg, to string) (string, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w\n%s", pkg, module, err, out)
	}
	return to, nil
}

// Program is a program under load. Its errors go where ours go.
type Program struct {
	URL string // its address, http://host:port; empty unless Listening started it or the caller sets it

	cmd   *exec.Cmd
	ended chan struct{} // closed when the process is gone
	err   error         // how it ended; read after ended
}

// Start starts a program. Stop must follow.
func Start(cmd *exec.Cmd) (*Program, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Program{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Listening starts a program and returns when it has printed its address in a line with
// "listening" and then a line with "ready".
func Listening(cmd *exec.Cmd) (*Program, error) {
	out, in := io.Pipe()
	cmd.Stdout = in
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.ended
		_ = in.Close() // so that reading ends with the program
	}()
	defer func() { go func() { _, _ = io.Copy(io.Discard, out) }() }() // later output must not block it
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "listening"); ok {
			p.URL = strings.TrimSpace(url)
		}
		if strings.Contains(lines.Text(), "ready") {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s ended before it was ready: %w", cmd.Path, errors.Join(p.Stop(), io.ErrUnexpectedEOF))
}

// PID is its process id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the program is gone, however it ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Stop tells the program to stop and waits until it is gone: at most 30 seconds, then it is
// killed, which is an error. A second Stop returns the same.
func (p *Program) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.ended:
		return p.err
	case <-time.After(30 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not stop within 30 seconds of SIGTERM: %w", p.cmd.Path, p.err)
}

// Get reads the program's answer at a path of its URL.
func (p *Program) Get(path string) ([]byte, error) { return Get(p.URL + path) }

// Steer pauses or resumes a pipeline of the product, which was started with --no-auth.
func (p *Program) Steer(pipeline, verb string) error {
	resp, err := http.Post(p.URL+"/api/v1/pipelines/"+pipeline+"/"+verb, "application/json", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s the pipeline %s: %s: %.300s", verb, pipeline, resp.Status, text)
	}
	return err
}

// Serve serves on a free port until ctx ends, and says so as Listening waits for it.
func Serve(ctx context.Context, h *http.Server) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening http://%s\nready\n", l.Addr())
	go func() {
		<-ctx.Done()
		_ = h.Close()
	}()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Get reads the answer at a URL; a status other than 200 is an error.
func Get(url string) ([]byte, error) { return getAs("", url) }

// getAs is Get with a token; empty: none.
func getAs(token, url string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, resp.Status, b)
	}
	return b, err
}

// Profile writes so many seconds of the program's CPU to a file; an empty name: none.
func (p *Program) Profile(to string, seconds int) error {
	if to == "" {
		return nil
	}
	b, err := getAs(p.token(), fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", p.URL, seconds))
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// ProfileSelf writes the CPU of this process to a file until it is stopped; an empty name: none.
func ProfileSelf(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, err
}

// token is that of the product's API, for profiles; empty: the program has none.
func (p *Program) token() string {
	args := []string{"token"}
	if at := slices.Index(p.cmd.Args, "--data"); at >= 0 && at+1 < len(p.cmd.Args) {
		args = append(args, p.cmd.Args[at:at+2]...)
	}
	cmd := exec.Command(p.cmd.Path, args...)
	cmd.Dir, cmd.Env = p.cmd.Dir, p.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// CPU is user and system time so far of processes and of their children that ended.
func CPU(pids ...int) (d time.Duration) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[11:15] {
			n, _ := strconv.Atoi(f)
			d += time.Duration(n) * 10 * time.Millisecond // clock ticks are 1/100 s on Linux
		}
	}
	return d
}

// Written is how many bytes processes have had the kernel write to disks so far, as Linux counts them
// when a page becomes dirty. Of processes of other users it is read by root alone; else it is 0.
func Written(pids ...int) (bytes float64) {
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
				v, _ := strconv.ParseFloat(strings.TrimSpace(n), 64)
				bytes += v
			}
		}
	}
	return bytes
}

// RSS is the resident memory of a process in MiB.
func RSS(pid int) float64 { return memory(pid, "VmRSS:") }

// MostRSS is the highest resident memory of a process so far, in MiB.
func MostRSS(pid int) float64 { return memory(pid, "VmHWM:") }

func memory(pid int, name string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) / 1024
		}
	}
	return 0
}

// Bytes are those of all files in a folder, by their sizes.
func Bytes(folder string) (n float64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += float64(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was there a moment ago
		}
		return err
	})
	return n, err
}
