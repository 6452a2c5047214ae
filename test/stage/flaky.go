package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxOutput is how much of a flaky test's first output is printed, in bytes: enough for a
// test's own output, while a server's log could have any length.
const maxOutput = 64 << 10

// flakyTest is a test that failed, and passed when it ran again.
type flakyTest struct {
	name   string // package.Test/subtest
	output string // of the first run that failed
}

// findFlaky reads the events of a run (go test -json) and returns the tests that failed and
// then passed, and the names of those that failed and did not pass, in the order of their first
// failures. If a test and its subtest fail together, it returns the subtest.
func findFlaky(events io.Reader) (found []flakyTest, failing []string, err error) {
	type history struct {
		output strings.Builder
		failed bool
		passed bool // at the end
	}
	tests := map[string]*history{}
	var order []string
	d := json.NewDecoder(events)
	for {
		var e struct{ Action, Package, Test, Output string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("read the events of a run: %w", err)
		}
		if e.Test == "" {
			continue
		}
		name := e.Package + "." + e.Test
		h := tests[name]
		if h == nil {
			h = &history{}
			tests[name] = h
		}
		switch e.Action {
		case "output":
			if !h.failed && h.output.Len() < maxOutput {
				h.output.WriteString(e.Output)
			}
		case "fail":
			if !h.failed {
				order = append(order, name)
			}
			h.failed, h.passed = true, false
		case "pass":
			h.passed = true
		}
	}
	for _, name := range order {
		inner := slices.ContainsFunc(order, func(other string) bool { return strings.HasPrefix(other, name+"/") })
		switch h := tests[name]; {
		case inner:
		case h.passed:
			found = append(found, flakyTest{name, h.output.String()})
		default:
			failing = append(failing, name)
		}
	}
	return found, failing, nil
}

// readList returns the names in a list of flaky tests: the last word of each line that is not a
// comment. A missing list is empty.
func readList(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return parseList(string(b)), err
}

func parseList(text string) []string {
	var names []string
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		if words := strings.Fields(s.Text()); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			names = append(names, words[len(words)-1])
		}
	}
	return names
}

func addToList(file string, now time.Time, name string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.DateOnly), name)
	return errors.Join(err, f.Close())
}

// checkList checks the change in dir against the list's rule: if the list had names before the
// change, at least one of them is gone.
func checkList(ctx context.Context, dir string) error {
	now, err := readList(filepath.Join(dir, flakyFile))
	if err != nil {
		return err
	}
	before := listBefore(ctx, dir)
	kept := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !slices.Contains(now, name) })
	if len(before) > 0 && len(kept) == len(before) {
		return fmt.Errorf("%s is not shorter than before this change: mend one of its tests and delete its line:\n  %s", flakyFile, strings.Join(before, "\n  "))
	}
	return nil
}

// listBefore reads the list as it was where this change left the main branch, or in the
// previous commit if the change is on it. Without history it was empty.
func listBefore(ctx context.Context, dir string) []string {
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	head := git("rev-parse", "HEAD")
	for _, main := range []string{"origin/main", "main"} {
		if base := git("merge-base", "HEAD", main); base != "" && base != head {
			return parseList(git("show", base+":"+flakyFile))
		}
	}
	return parseList(git("show", "HEAD^:"+flakyFile))
}
