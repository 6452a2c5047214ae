package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// servers are the neighbours, started for this run.
type servers struct {
	dir                         string
	redis, postgres, clickhouse string
	env                         []string
}

func startServers(ctx context.Context, dir string) (*servers, error) {
	s := &servers{dir: dir, env: append(os.Environ(), "SERVICES_DIR="+dir, "SERVICES_CACHE="+filepath.Join(os.TempDir(), "tidemill-services", "cache"))}
	ports := map[string]string{}
	for _, name := range []string{"REDIS_PORT", "POSTGRES_PORT", "CLICKHOUSE_PORT"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		_, ports[name], _ = net.SplitHostPort(l.Addr().String())
		_ = l.Close()
		s.env = append(s.env, name+"="+ports[name])
	}
	if out, err := s.services(ctx, "up"); err != nil {
		return nil, fmt.Errorf("start the servers: %w\n%s", err, out)
	}
	s.redis = "127.0.0.1:" + ports["REDIS_PORT"]
	s.postgres = "postgres://postgres@127.0.0.1:" + ports["POSTGRES_PORT"] + "/test?sslmode=disable"
	s.clickhouse = "http://127.0.0.1:" + ports["CLICKHOUSE_PORT"]
	return s, nil
}

func (s *servers) services(ctx context.Context, verb string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "bash", "scripts/services/services.sh", verb, "redis", "postgres", "clickhouse")
	cmd.Env = s.env
	return cmd.CombinedOutput()
}

func (s *servers) stop() { _, _ = s.services(context.Background(), "down") }

// pids of a server and of all its children.
func (s *servers) pids(name string) []int {
	b, err := os.ReadFile(filepath.Join(s.dir, "run", name+".pid"))
	if err != nil {
		return nil
	}
	first, _ := strconv.Atoi(strings.Fields(string(b))[0])
	all := []int{first}
	for i := 0; i < len(all); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, t := range tasks {
			b, _ := os.ReadFile(t)
			for _, f := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(f); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// spent is user and system time so far of processes and of their children that ended.
func spent(pids ...int) (d time.Duration) {
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

// cpu is what each process spent, in µs an event.
type cpu struct{ product, redis, postgres, clickhouse float64 }

type timed struct {
	perSecond float64
	cpu       cpu
}

// timed runs do and reads what it cost every process.
func (s *servers) timed(product, events int, do func() error) (timed, error) {
	look := func() [4]time.Duration {
		var mine time.Duration
		if product > 0 {
			mine = spent(product)
		}
		return [4]time.Duration{mine, spent(s.pids("redis")...), spent(s.pids("postgres")...), spent(s.pids("clickhouse")...)}
	}
	before, from := look(), time.Now()
	err := do()
	took, after := time.Since(from), look()
	each := func(i int) float64 { return (after[i] - before[i]).Seconds() * 1e6 / float64(events) }
	return timed{float64(events) / took.Seconds(), cpu{each(0), each(1), each(2), each(3)}}, err
}

// product is the binary under load.
type product struct {
	cmd *exec.Cmd
	url string
}

func (s *servers) start(ctx context.Context, bin, data string) (*product, error) {
	p := &product{cmd: exec.CommandContext(ctx, bin, "run", "analytics", "--data", data, "--listen", "127.0.0.1:0", "--project", projectID+"=bench-key-of-sixteen")}
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), "TIDEMILL_LOG_LEVEL=warn", "REDIS_URL=redis://"+s.redis, "DATABASE_URL="+s.postgres, "CLICKHOUSE_URL="+s.clickhouse, "CLICKHOUSE_DB=bench")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "listening"); ok {
			p.url = strings.TrimSpace(url)
		}
		if strings.Contains(lines.Text(), "ready") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s ended before it was ready", bin)
}

func (p *product) pid() int { return p.cmd.Process.Pid }

func (p *product) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.cmd.Wait()
}

// profile writes eight seconds of the product's CPU to a file.
func (p *product) profile(to string) error {
	if to == "" {
		return nil
	}
	b, err := p.get("/debug/pprof/profile?seconds=8")
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

func (p *product) get(path string) ([]byte, error) {
	resp, err := http.Get(p.url + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// drained waits until nothing is in the stream, where what has ended is deleted, and checks
// the books. It asks the stream's length and not for an audit, which counts rows.
func (p *product) drained(ctx context.Context, client rueidis.Client, stream string) error {
	for {
		n, err := client.Do(ctx, client.B().Xlen().Key(stream).Build()).AsInt64()
		if err != nil {
			return err
		}
		if n == 0 {
			return p.audited()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond): // between two looks at another process
		}
	}
}

// audited says whether everything that was accepted was delivered.
func (p *product) audited() error {
	b, err := p.get("/api/v1/audit")
	if err != nil {
		return err
	}
	var a struct {
		Balanced bool
		Systems  []struct{ Accepted, Delivered uint64 }
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return err
	}
	if !a.Balanced || len(a.Systems) != 1 || a.Systems[0].Accepted != a.Systems[0].Delivered {
		return fmt.Errorf("the books do not balance: %s", b)
	}
	return nil
}

// tell prints the product's own metrics that begin so.
func (p *product) tell(names ...string) {
	b, err := p.get("/metrics")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(b)) {
		for _, n := range names {
			if strings.HasPrefix(line, n) {
				fmt.Print("    ", line)
			}
		}
	}
}

// rss is the resident memory in MiB.
func rss(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kb) / 1024
		}
	}
	return 0
}
