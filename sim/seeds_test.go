package sim

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

var (
	oneSeed = flag.String("seed", "", "replay this one seed and print its trace")
	seeds   = flag.Int("seeds", envInt("TIDEMILL_SIM_SEEDS", 60), "how many seeds to run")
	base    = flag.Uint64("base", 1, "the first of the seeds, the same each time; 0: from the clock, to find what nobody has seen")
)

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// scene is one world, of one seed.
type scene interface {
	base() *stage
	play() []string       // what the checker finds
	also() map[string]int // what else happened, by name
}

// result is the result of one run of a seed.
type result struct {
	faults []string
	sum    uint64
	steps  int
	trace  []string
	also   map[string]int // including the faults that fired
	took   time.Duration  // of fake time
}

// run plays one seed.
func run(t *testing.T, seed uint64, record bool, world func(seed uint64) scene) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world(seed)
		g := w.base().g
		g.record = record
		r.faults = w.play()
		r.sum, r.steps, r.trace, r.also = g.sum, g.steps, g.trace, w.also()
		for c, n := range g.count {
			r.also[string(c)] = n
		}
		r.took = time.Since(epoch)
	})
	return r
}

// least is how often each fault, and each other event that a world names, must have happened in
// 500 seeds. Otherwise the interesting paths were not taken.
const least = 100

// runSeeds runs many seeds; -seed=0x… replays one with its trace. names are the events that
// must happen in addition to the faults of the gate.
func runSeeds(t *testing.T, world func(seed uint64) scene, names ...string) {
	runSeedsN(t, *seeds, world, names...)
}

// runSeedsN is runSeeds of n seeds. A world keeps hardly more than one core busy: tests run side by side.
func runSeedsN(t *testing.T, n int, world func(seed uint64) scene, names ...string) {
	t.Parallel()
	if *oneSeed != "" {
		replay(t, world)
		return
	}
	first := *base
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	fmt.Printf("%s: %d seeds from -base=%d\n", t.Name(), n, first)
	draw := rand.New(rand.NewPCG(first, 0))
	total, steps, wrong, fake := map[string]int{}, 0, 0, time.Duration(0)
	start := time.Now()
	for range n {
		seed := draw.Uint64()
		r := run(t, seed, false, world)
		for name, times := range r.also {
			total[name] += times
		}
		steps, fake = steps+r.steps, fake+r.took
		if len(r.faults) == 0 {
			continue
		}
		t.Errorf("seed %#x, after %d steps; replay with: go test ./sim -run %s -seed=%#x -v", seed, r.steps, t.Name(), seed)
		for _, f := range r.faults[:min(len(r.faults), 10)] {
			t.Errorf("  %s", f)
		}
		if wrong++; wrong == 10 {
			break
		}
	}
	fmt.Printf("%s: %d steps in %v (%v of fake time); %v\n", t.Name(), steps, time.Since(start).Round(time.Millisecond), fake.Round(time.Second), total)
	if n < 500 || wrong > 0 {
		return
	}
	for _, c := range Classes {
		names = append(names, string(c))
	}
	for _, name := range names {
		if total[name] < least {
			t.Errorf("%q happened %d times in %d seeds, want at least %d", name, total[name], n, least)
		}
	}
}

func replay(t *testing.T, world func(seed uint64) scene) {
	seed, err := strconv.ParseUint(*oneSeed, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, seed, true, world)
	for _, line := range r.trace {
		t.Log(line)
	}
	for _, name := range slices.Sorted(maps.Keys(r.also)) {
		t.Logf("%s: %d", name, r.also[name])
	}
	for _, f := range r.faults {
		t.Error(f)
	}
}

// sameTrace checks that a seed replays exactly: without that a failing seed is useless.
func sameTrace(t *testing.T, world func(seed uint64) scene) {
	t.Parallel()
	for seed := range uint64(20) {
		a := run(t, seed, true, world)
		for range 2 {
			b := run(t, seed, true, world)
			if a.sum == b.sum {
				continue
			}
			for i := range min(len(a.trace), len(b.trace)) {
				if a.trace[i] != b.trace[i] {
					t.Errorf("seed %d: step %d differs:\n%s\n%s", seed, i, a.trace[i], b.trace[i])
					break
				}
			}
			t.Fatalf("seed %d: %d and %d steps", seed, len(a.trace), len(b.trace))
		}
	}
}

// planted is a world with a bug.
type planted struct {
	name  string
	world func(seed uint64) scene
}

// findBugs looks for each planted bug by itself: a checker that finds nothing proves nothing.
func findBugs(t *testing.T, most uint64, bugs []planted) {
	t.Parallel()
	for _, c := range bugs {
		t.Run(c.name, func(t *testing.T) {
			for seed := range most {
				if r := run(t, seed, false, c.world); len(r.faults) > 0 {
					t.Logf("found at seed %d: %s", seed, r.faults[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}
