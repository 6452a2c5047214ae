package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Look is what a program and its servers have used until a moment.
type Look struct {
	At      time.Time
	Own     time.Duration
	Servers map[string]time.Duration // by name
	RSS     float64                  // MiB, the most so far
}

// Look looks at a program and at servers. at is the time before it.
func (s *Services) Look(p *Program) Look {
	l := Look{At: time.Now(), Own: CPU(p.PID()), Servers: map[string]time.Duration{}, RSS: math.Round(MostRSS(p.PID()))}
	for _, name := range s.names {
		l.Servers[name] = s.CPU(name)
	}
	return l
}

// Micros is CPU time in µs for each of n, to two digits.
func Micros(d time.Duration, n int) float64 { return math.Round(d.Seconds()*1e8/float64(n)) / 100 }

// Converse runs a program that plays a part by a Talk. It looks at it whenever it says a phase, and
// returns these looks, two at least, and the report.
func Converse[R any](cmd *exec.Cmd, s *Services) (looks []Look, told R, err error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, told, err
	}
	defer out.Close()
	cmd.Stdout = in
	on, err := cmd.StdinPipe()
	if err != nil {
		return nil, told, err
	}
	p, err := Start(cmd)
	_ = in.Close() // it has its own
	if err != nil {
		return nil, told, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, told, err
		}
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "{") {
			err = json.Unmarshal([]byte(line), &told)
		} else {
			now := s.Look(p)
			_, err = io.WriteString(on, "\n")
			if len(looks) == 0 {
				now.At = time.Now() // it begins now
			}
			looks = append(looks, now)
		}
		if err != nil {
			return nil, told, fmt.Errorf("it said %q: %w", line, err)
		}
	}
	<-p.Ended()
	if len(looks) < 2 {
		err = errors.New("it ended before it was done")
	}
	return looks, told, err
}

// BullMQ installs the program of bench/peers/bullmq in a folder, and returns what starts it.
func BullMQ(ctx context.Context, folder string) (func(ctx context.Context, args ...string) *exec.Cmd, error) {
	if err := os.CopyFS(folder, os.DirFS("bench/peers/bullmq")); err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "installing bullmq")
	// Not npm ci: the parts of a dependency for other systems may be missing in the lock.
	npm := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install bullmq: %w\n%s", err, out)
	}
	return func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "node", append([]string{filepath.Join(folder, "queue.mjs")}, args...)...)
	}, nil
}
