package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A verdict is what the tests said of one fault.
type verdict int

const (
	survived verdict = iota
	byUnit           // found by the tests of its own package
	byImporters
	bySimulation
	notBuilt // it does not compile: not a fault
	verdicts
)

var verdictNames = [verdicts]string{"SURVIVED", "found", "found by importers", "found by simulation", "does not compile"}

func (v verdict) String() string { return verdictNames[v] }

// runner runs tests with one fault at a time.
type runner struct {
	m       *module
	o       options
	dir     string // of what is compiled
	tallies [verdicts]int
	left    []fault // survivors
}

func newRunner(m *module, o options) (*runner, error) {
	dir, err := os.MkdirTemp("", "mutate")
	return &runner{m: m, o: o, dir: dir}, err
}

func (r *runner) close() { _ = os.RemoveAll(r.dir) }

// all runs the tests for each fault, package by package, and prints what they noticed.
func (r *runner) all(ctx context.Context, faults []fault) error {
	slices.SortStableFunc(faults, func(a, b fault) int { return strings.Compare(a.pkg, b.pkg) })
	done := 0
	for rest := faults; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(f fault) bool { return f.pkg != rest[0].pkg })
		if n < 0 {
			n = len(rest)
		}
		var of []result
		err := r.each(ctx, rest[:n], func(f fault, v verdict, said string, took time.Duration) {
			done++
			of = append(of, result{f, v})
			fmt.Printf("%4d/%d %s %-19s %5.1fs  %s\n", done, len(faults), f.id(), v, took.Seconds(), f)
			if r.o.id != "" {
				fmt.Println(said)
			}
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil {
			of = of[:len(of)/together*together] // only the found ones of the last group are known
			fmt.Println("\ninterrupted: what follows is of the groups that were tried to their end, which are a sample too")
		}
		for _, x := range of {
			r.tallies[x.verdict]++
			if x.verdict == survived {
				r.left = append(r.left, x.fault)
			}
		}
		if err != nil {
			break
		}
		rest = rest[n:]
	}
	return r.report()
}

// A result is what became of a fault.
type result struct {
	fault   fault
	verdict verdict
}

// each runs the tests for the faults of one package and reports what became of each.
func (r *runner) each(ctx context.Context, faults []fault, tell func(f fault, v verdict, said string, took time.Duration)) error {
	b, err := newBuilt(ctx, r, faults[0].pkg, faults)
	if err != nil {
		return err
	}
	defer b.close()
	for group := range slices.Chunk(faults, together) {
		if err := r.group(ctx, b, group, tell); err != nil {
			return err
		}
	}
	return nil
}

// together is how many faults go through one package's tests before the remaining ones go
// through the next one's.
const together = 20

// group runs the tests for some of the faults, step by step for the remaining ones.
func (r *runner) group(ctx context.Context, b *built, faults []fault, tell func(f fault, v verdict, said string, took time.Duration)) error {
	var left []fault
	for _, f := range faults {
		if b.number[f.key()] == 0 {
			tell(f, notBuilt, b.why, 0)
		} else {
			left = append(left, f)
		}
	}
	said := make(map[string]string, len(left))
	for _, step := range r.steps(b.pkg) {
		if len(left) == 0 {
			break
		}
		tests, err := r.measure(ctx, b, step.pkg)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		found := map[string]bool{}
		var broken error
		r.share(len(left), func(i int) {
			f := left[i]
			begin := time.Now()
			out, err := tests.run(ctx, b.number[f.key()])
			mu.Lock()
			defer mu.Unlock()
			said[f.key()] += out
			if err != nil && !failed(err) {
				broken = err
			} else if err != nil && ctx.Err() == nil {
				found[f.key()] = true
				tell(f, step.verdict, said[f.key()], time.Since(begin))
			}
		})
		if err := cmp.Or(ctx.Err(), broken); err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(f fault) bool { return found[f.key()] })
	}
	for _, f := range left {
		tell(f, survived, said[f.key()], 0)
	}
	return nil
}

// share calls do for 0 to n-1, as many at once as there are jobs.
func (r *runner) share(n int, do func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range max(1, r.o.jobs) {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// A step runs the tests of one package.
type step struct {
	pkg     string
	verdict verdict // if they notice
}

// steps are the tests of the package itself, then those of its importers, then simulation. The
// contract of a role's backends tests its rules, and the backend in memory runs it at once: its
// tests are the role's own.
func (r *runner) steps(pkg string) (l []step) {
	own := []string{pkg, path.Join(pkg, "memory"+path.Base(pkg))}
	for _, p := range own {
		if r.m.hasTests(p) {
			l = append(l, step{p, byUnit})
		}
	}
	if !r.o.own {
		for _, p := range r.m.importers(pkg) {
			if !slices.Contains(own, p) {
				l = append(l, step{p, byImporters})
			}
		}
	}
	if r.o.seeds > 0 {
		l = append(l, step{"sim", bySimulation})
	}
	return l
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

// goes runs the Go command.
func (r *runner) goes(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.m.root
	return said(cmd)
}

// said runs a command, and returns what it printed.
func said(cmd *exec.Cmd) (string, error) {
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil && !failed(err) {
		return out.String(), fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return out.String(), err
}

// failed reports whether a command ran and exited with an error.
func failed(err error) bool {
	_, exited := errors.AsType[*exec.ExitError](err)
	return exited || errors.Is(err, exec.ErrWaitDelay)
}
