package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A verdict is what the tests said of one fault.
type verdict int

const (
	survived verdict = iota
	byUnit           // found by the tests of its own package
	byImporters
	bySimulation
	notBuilt // it does not compile: no fault
	verdicts
)

var verdictNames = [verdicts]string{"SURVIVED", "found", "found by importers", "found by simulation", "does not compile"}

func (v verdict) String() string { return verdictNames[v] }

// runner runs tests with one fault at a time.
type runner struct {
	m       *module
	o       options
	dir     string                   // of overlays
	usual   map[string]time.Duration // how long the tests of a package take without a fault
	tallies [verdicts]int
	left    []fault // survivors
}

func newRunner(m *module, o options) (*runner, error) {
	dir, err := os.MkdirTemp("", "mutate")
	return &runner{m: m, o: o, dir: dir, usual: map[string]time.Duration{}}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.dir) }

// all runs the tests for each fault, and prints what they noticed.
func (r *runner) all(ctx context.Context, faults []fault) error {
	for i, f := range faults {
		begin := time.Now()
		v, said, err := r.try(ctx, f)
		if err != nil {
			return err
		}
		r.tallies[v]++
		if v == survived {
			r.left = append(r.left, f)
		}
		fmt.Printf("%4d/%d %s %-19s %5.1fs  %s\n", i+1, len(faults), f.id(), v, time.Since(begin).Seconds(), f)
		if r.o.id != "" {
			fmt.Println(said)
		}
	}
	return r.report()
}

func (r *runner) report() error {
	found := r.tallies[byUnit] + r.tallies[byImporters] + r.tallies[bySimulation]
	total := found + r.tallies[survived]
	fmt.Printf("\n%d faults: %d found by their package's tests, %d by those of packages that import it, %d by simulation; %d survived (%d more did not compile)\n",
		total, r.tallies[byUnit], r.tallies[byImporters], r.tallies[bySimulation], r.tallies[survived], r.tallies[notBuilt])
	for _, f := range r.left {
		fmt.Println("survived:", f.id(), f)
	}
	if total == 0 {
		return nil
	}
	share := 100 * float64(found) / float64(total)
	fmt.Printf("share found: %.1f%%\n", share)
	if share < r.o.want {
		return fmt.Errorf("%.1f%% were found, want %.1f%% at least", share, r.o.want)
	}
	return nil
}

// try runs, with the fault, the tests of its package, then those of its importers, then
// simulation, until one notices.
func (r *runner) try(ctx context.Context, f fault) (verdict, string, error) {
	overlay, err := r.overlay(f)
	if err != nil {
		return 0, "", err
	}
	if out, err := r.command(ctx, "build", "-overlay", overlay, "./"+f.pkg); err != nil {
		return notBuilt, out, ctx.Err()
	}
	steps := []struct {
		verdict  verdict
		packages []string
	}{{byUnit, nil}, {byImporters, r.m.importers(f.pkg)}, {bySimulation, nil}}
	if r.m.hasTests(f.pkg) {
		steps[0].packages = []string{f.pkg}
	}
	if r.o.seeds > 0 {
		steps[2].packages = []string{"sim"}
	}
	var said strings.Builder
	for _, s := range steps {
		for _, pkg := range s.packages {
			if err := r.measure(ctx, pkg); err != nil {
				return 0, "", err
			}
			out, err := r.test(ctx, pkg, overlay)
			said.WriteString(out)
			if ctx.Err() != nil {
				return 0, "", ctx.Err()
			}
			if err != nil {
				return s.verdict, said.String(), nil
			}
		}
	}
	return survived, said.String(), nil
}

// overlay writes the changed file beside the tree.
func (r *runner) overlay(f fault) (string, error) {
	original := filepath.Join(r.m.root, filepath.FromSlash(f.file))
	src, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(r.dir, "changed.go")
	text := append(append(append([]byte(nil), src[:f.start]...), f.text...), src[f.end:]...)
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(r.dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o600)
}

// measure runs the tests of a package once without a fault: they must pass, and say how
// long they take.
func (r *runner) measure(ctx context.Context, pkg string) error {
	if r.usual[pkg] > 0 {
		return nil
	}
	if out, err := r.command(ctx, "test", "-run", "^$", "./"+pkg); err != nil {
		return fmt.Errorf("the tests of %s do not compile without a fault: %w\n%s", pkg, err, out)
	}
	begin := time.Now()
	if out, err := r.test(ctx, pkg, ""); err != nil {
		return fmt.Errorf("the tests of %s fail without a fault: %w\n%s", pkg, err, out)
	}
	r.usual[pkg] = max(time.Since(begin), 1)
	return nil
}

// patience is how much longer than usual tests may take with a fault. One that makes them
// hang is found.
const patience = 20 * time.Second

func (r *runner) test(ctx context.Context, pkg, overlay string) (string, error) {
	limit := 10 * time.Minute
	if usual := r.usual[pkg]; usual > 0 {
		limit = 3*usual/2 + patience
	}
	args := []string{"test", "-count=1", "-vet=off", "-failfast", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	args = append(args, "./"+pkg)
	if pkg == "sim" {
		args = append(args, "-run", "^Test[A-Za-z]*Seeds$", "-seeds", fmt.Sprint(r.o.seeds))
	}
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Minute) // compiling takes a time of its own
	defer cancel()
	return r.command(ctx, args...)
}

func (r *runner) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.m.root
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	if _, failed := errors.AsType[*exec.ExitError](err); !failed && !errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out.String(), err
}
