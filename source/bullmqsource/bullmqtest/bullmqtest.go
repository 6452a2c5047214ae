// Package bullmqtest starts processes with real BullMQ, for tests of packages that share a queue
// with it.
package bullmqtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

//go:embed bullmq/package.json bullmq/package-lock.json bullmq/peer.mjs
var files embed.FS

// packages installs BullMQ, once for all runs, and returns where.
var packages = sync.OnceValues(func() (string, error) {
	of, err := fs.Sub(files, "bullmq")
	if err != nil {
		return "", err
	}
	lock, err1 := fs.ReadFile(of, "package-lock.json")
	script, err2 := fs.ReadFile(of, "peer.mjs")
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(lock, script...))
	dir := filepath.Join(testenv.Dir(), "bullmq-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(testenv.Dir(), 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(testenv.Dir(), "bullmq-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, of); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	// Not npm ci: the parts of one dependency that are for other systems may not be in the lock.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install BullMQ (it needs Node.js 20 and npm): %w\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, other := os.Stat(dir); other != nil { // no other process was first
			return "", err
		}
	}
	return dir, nil
})

// Peer is a process with BullMQ: a Queue, and more where asked for.
type Peer struct {
	t   testing.TB
	cmd *exec.Cmd

	mu  sync.Mutex
	in  *json.Encoder
	out *bufio.Scanner
}

// Start starts a process with a version of BullMQ ("bullmq-early", "bullmq-late" or "bullmq-six")
// and its Queue. It ends with the test.
func Start(t testing.TB, version string, redis *url.URL, prefix, queue string) *Peer {
	t.Helper()
	dir, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(dir, "peer.mjs"), version, redis.Hostname(), redis.Port(), prefix, queue)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &Peer{t: t, cmd: cmd, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	p.out.Buffer(nil, 64<<20)
	t.Cleanup(p.Kill)
	if _, err := p.answer(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Kill ends the process as kill -9 does.
func (p *Peer) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// Do makes a call of peer.mjs and returns what BullMQ says.
func (p *Peer) Do(what string, args ...any) json.RawMessage {
	p.t.Helper()
	is, err := p.Try(what, args...)
	if err != nil {
		p.t.Fatalf("%s %v: %v", what, args, err)
	}
	return is
}

// Try is Do where BullMQ may refuse.
func (p *Peer) Try(what string, args ...any) (json.RawMessage, error) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if args == nil {
		args = []any{}
	}
	if err := p.in.Encode(map[string]any{"do": what, "args": args}); err != nil {
		p.t.Fatalf("%s %v: %v", what, args, err)
	}
	return p.answer()
}

func (p *Peer) answer() (json.RawMessage, error) {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("BullMQ ended: %v", p.out.Err())
	}
	var a struct {
		Is    json.RawMessage
		Error string
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		p.t.Fatalf("BullMQ said %q: %v", p.out.Text(), err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	return a.Is, nil
}

// As reads what BullMQ said.
func As[T any](p *Peer, raw json.RawMessage) (v T) {
	p.t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		p.t.Fatalf("BullMQ said %s: %v", raw, err)
	}
	return v
}
