package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tests are those of one package, compiled with the faults of another or its own.
type tests struct {
	binary, dir string
	args        []string
	quick       string        // a pattern for those that run first; empty: all at once
	usual       time.Duration // how long all take without a fault
}

// compile compiles the tests of a package with the faults of b.
func (b *built) compile(ctx context.Context, r *runner, pkg string) (*tests, error) {
	t := &tests{binary: filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "_")+".test"), dir: r.m.packages[pkg].Dir}
	if pkg == "sim" {
		t.args = []string{"-test.run", "^Test[A-Za-z]*Seeds$", "-seeds", fmt.Sprint(r.o.seeds)}
	}
	if out, err := r.goes(ctx, "test", "-c", "-vet=off", "-overlay", b.overlay, "-o", t.binary, "./"+pkg); err != nil {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("the tests of %s do not compile: %w\n%s", pkg, err, out))
	}
	const noFile = "-rapid.nofailfile" // else rapid writes the failing input into the tree
	if _, err := t.some(ctx, 0, time.Minute, "-test.list", "^$", noFile); err == nil {
		t.args = append(t.args, noFile)
	}
	return t, nil
}

// measure compiles the tests of a package with the faults of b, once, and runs them with none
// in force: they must pass. It notes how long they take.
func (r *runner) measure(ctx context.Context, b *built, pkg string) (*tests, error) {
	if t := b.tests[pkg]; t != nil {
		return t, nil
	}
	t, err := b.compile(ctx, r, pkg)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	out, err := t.some(ctx, 0, 10*time.Minute, "-test.v")
	if err != nil {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("the tests of %s fail without a fault: %w\n%s", pkg, err, out))
	}
	t.usual = time.Since(begin)
	if pkg != "sim" {
		t.quick = quick(out)
	}
	b.tests[pkg] = t
	return t, nil
}

var passed = regexp.MustCompile(`(?m)^--- PASS: (\w+) \((\d+\.\d+)s\)`)

// quick is a pattern for most of the tests, the quickest, which take a tenth of the total time.
// They find most faults.
func quick(out string) string {
	type one struct {
		name string
		took float64
	}
	var all []one
	total := 0.0
	for _, m := range passed.FindAllStringSubmatch(out, -1) {
		took, _ := strconv.ParseFloat(m[2], 64)
		all, total = append(all, one{m[1], took}), total+took
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(a.took, b.took) })
	var names []string
	took := 0.0
	for _, o := range all {
		if took += o.took; took > total/10 {
			break
		}
		names = append(names, o.name)
	}
	if len(names) == 0 || len(names) == len(all) {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// patience is how much longer than usual tests may take with a fault. A fault that makes them
// hang is found.
const patience = 10 * time.Second

// run runs the tests with the fault of this number, the quick ones first.
func (t *tests) run(ctx context.Context, number int) (string, error) {
	limit := 2*t.usual + patience
	if t.quick == "" {
		return t.some(ctx, number, limit)
	}
	out, err := t.some(ctx, number, limit, "-test.run", t.quick)
	if err != nil {
		return out, err
	}
	more, err := t.some(ctx, number, limit, "-test.skip", t.quick)
	return out + more, err
}

func (t *tests) some(ctx context.Context, number int, limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, append(append([]string{"-test.failfast", "-test.timeout", limit.String()}, t.args...), args...)...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", inForce, number))
	return said(cmd)
}
