// Command stage runs one stage of the tests with gotestsum, as `make` and CI do:
//
//	go run ./test/stage [-again] [-after STAGE] NAME PACKAGES… [-- FLAGS OF go test…]
//	go run ./test/stage -check
//
// It prints the ten slowest tests, and gotestsum's summary as the last line, which it also
// keeps as bin/tests/NAME.summary. If the machine has room in memory, tests and their servers
// keep their files there. With -again, a failed test runs again alone, at most twice, if no
// more than five failed. One that passes then is flaky: it is printed with its first output and
// added to test/flaky.txt, which has the rule for that list. -check checks a change against the
// rule.
//
// -after names a stage without servers that ran before: a test that passed there, skipped no part
// and did without no server has nothing new to do on servers, and does not run again.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	reruns      = "2" // how often a failed test runs again
	maxFailures = "5" // more failed tests than this do not run again
	flakyFile   = "test/flaky.txt"
)

func main() {
	again := flag.Bool("again", false, "run a failed test again")
	after := flag.String("after", "", "leave out what passed whole in this `stage`, without servers")
	check := flag.Bool("check", false, "check that test/flaky.txt is no longer than its rule allows")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *check {
		err = checkList(ctx, ".")
	} else {
		var s stage
		if s, err = parse(flag.Args()); err == nil {
			s.again, s.after, s.out = *again, *after, os.Stdout
			if s.gotestsum, err = toolPath(ctx); err == nil {
				err = s.run(ctx, time.Now())
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(1)
	}
}

// stage is one run of gotestsum over some packages.
type stage struct {
	name      string
	packages  []string
	flags     []string // of go test
	again     bool     // a failed test runs again
	after     string   // the stage that ran before; "": none
	dir       string   // of the module; "": the current one
	gotestsum string   // path of the binary
	out       io.Writer
}

func parse(args []string) (stage, error) {
	var flags []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, flags = args[:i], args[i+1:]
	}
	if len(args) < 2 {
		return stage{}, errors.New("usage: stage [-again] [-after STAGE] NAME PACKAGES… [-- FLAGS OF go test…]")
	}
	return stage{name: args[0], packages: args[1:], flags: flags}, nil
}

// toolPath builds gotestsum in the version that go.mod names.
func toolPath(ctx context.Context) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "gotestsum")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build gotestsum: %w: %s", err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// run runs the stage. The error is nil if every test passed, at once or when it ran again.
func (s stage) run(ctx context.Context, now time.Time) error {
	kept := filepath.Join(s.dir, "bin", "tests")
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	events := filepath.Join(kept, s.name+".json")
	summary := filepath.Join(kept, s.name+".summary")
	_ = os.Remove(summary)
	_ = os.Remove(events)
	done, err := wholly(filepath.Join(kept, s.after+".json"))
	if err != nil {
		return err
	}
	if len(done) > 0 {
		fmt.Fprintf(s.out, "%s: %d tests passed in %s and have nothing to do on servers: they are left out\n", s.name, len(done), s.after)
		s.flags = append([]string{"-skip=^(" + strings.Join(done, "|") + ")$"}, s.flags...)
	}
	tail := &lastLine{prefix: "DONE "}
	failed := s.command(ctx, io.MultiWriter(s.out, tail), events).Run()

	flaky, err := s.report(ctx, events, failed, now)
	verdict := "ok"
	switch {
	case err != nil:
		verdict = "FAILED"
	case flaky > 0:
		verdict = fmt.Sprintf("ok but for %d FLAKY", flaky)
	}
	line := fmt.Sprintf("%s %s: %s", s.name, verdict, tail.line)
	fmt.Fprintln(s.out, line)
	return errors.Join(err, os.WriteFile(summary, []byte(line+"\n"), 0o644))
}

func (s stage) command(ctx context.Context, out io.Writer, events string) *exec.Cmd {
	absolute, err := filepath.Abs(events)
	if err != nil {
		absolute = events
	}
	args := []string{"--format=standard-quiet", "--hide-summary=skipped", "--jsonfile=" + absolute, "--packages=" + strings.Join(s.packages, " ")}
	if s.again {
		args = append(args, "--rerun-fails="+reruns, "--rerun-fails-max-failures="+maxFailures)
	}
	// make lint vets more than go test.
	cmd := exec.CommandContext(ctx, s.gotestsum, append(append(args, "--", "-vet=off"), s.flags...)...)
	cmd.Env = inMemory(os.Environ())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // gotestsum ends its tests
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	return cmd
}

// report prints slow and flaky tests, and returns how many were flaky and whether the stage
// failed.
func (s stage) report(ctx context.Context, events string, failed error, now time.Time) (flaky int, err error) {
	slow, _ := exec.CommandContext(ctx, s.gotestsum, "tool", "slowest", "--num=10", "--threshold=100ms", "--jsonfile="+events).Output()
	fmt.Fprintf(s.out, "\nthe slowest tests of %s:\n%s\n", s.name, slow)
	if !s.again {
		return 0, failed
	}
	f, err := os.Open(events)
	if err != nil {
		return 0, errors.Join(failed, err)
	}
	defer f.Close()
	found, failing, err := findFlaky(f)
	if err != nil {
		return 0, errors.Join(failed, err)
	}
	if failed == nil && len(failing) > 0 { // a subtest whose name changes from run to run
		failed = fmt.Errorf("failed, and did not run again under the same name: %s", strings.Join(failing, ", "))
	}
	list := filepath.Join(s.dir, flakyFile)
	listed, err := readList(list)
	if err != nil {
		return 0, errors.Join(failed, err)
	}
	for _, t := range found {
		fmt.Fprintf(s.out, "\n!!! FLAKY: %s failed, and passed when it ran again alone. What it printed when it failed:\n%s", t.name, t.output)
		if slices.Contains(listed, t.name) {
			failed = errors.Join(failed, fmt.Errorf("%s is in %s: it has no second chance", t.name, flakyFile))
			continue
		}
		if err := addToList(list, now, t.name); err != nil {
			return len(found), errors.Join(failed, err)
		}
		fmt.Fprintf(s.out, "!!! FLAKY: %s was added to %s: commit it with the next change, which must shorten the list\n\n", t.name, flakyFile)
	}
	return len(found), failed
}

// lastLine keeps the last line written that begins with a prefix.
type lastLine struct {
	prefix string
	part   []byte
	line   string
}

func (l *lastLine) Write(p []byte) (int, error) {
	l.part = append(l.part, p...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if bytes.HasPrefix(line, []byte(l.prefix)) {
			l.line = string(line)
		}
		l.part = rest
	}
}
