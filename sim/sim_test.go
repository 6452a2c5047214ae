package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var (
	oneSeed = flag.String("seed", "", "replay this one seed and print its trace")
	seeds   = flag.Int("seeds", envInt("TIDEMILL_SIM_SEEDS", 60), "how many seeds to run")
	base    = flag.Uint64("base", 0, "the first of the seeds; 0: from the clock, printed")
)

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// result is what one run of a seed came to.
type result struct {
	faults  []string
	sum     uint64
	steps   int
	trace   []string
	count   map[Class]int
	stale   int64
	replays int
	took    time.Duration // of fake time
}

// run plays one seed.
func run(t *testing.T, seed uint64, record bool, bug func(*Parts)) (r result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, bug)
		w.g.record = record
		r.faults = w.play()
		r.sum, r.steps, r.trace, r.count, r.stale = w.g.sum, w.g.steps, w.g.trace, w.g.count, w.stale.Load()
		r.took = time.Since(epoch)
		for l, err := range w.letters.List(t.Context(), deadletter.Filter{}) {
			if err == nil {
				r.replays += l.Replays
			}
		}
		b, err := w.letters.Open("analytics").(tidemill.Bookkeeper).Books(t.Context())
		if err == nil {
			r.replays += int(b.Settled.Delivered)
		}
	})
	return r
}

// TestSeeds runs many seeds; -seed=0x… replays one with its trace.
func TestSeeds(t *testing.T) {
	if *oneSeed != "" {
		seed, err := strconv.ParseUint(*oneSeed, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, seed, true, nil)
		for _, line := range r.trace {
			t.Log(line)
		}
		for _, f := range r.faults {
			t.Error(f)
		}
		return
	}
	first := *base
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	fmt.Printf("sim: %d seeds from -base=%d\n", *seeds, first)
	draw := rand.New(rand.NewPCG(first, 0))
	total, steps, stale, replays, fake := map[Class]int{}, 0, int64(0), 0, time.Duration(0)
	start := time.Now()
	for range *seeds {
		seed := draw.Uint64()
		r := run(t, seed, false, nil)
		for c, n := range r.count {
			total[c] += n
		}
		steps, stale, replays, fake = steps+r.steps, stale+r.stale, replays+r.replays, fake+r.took
		if len(r.faults) > 0 {
			t.Errorf("seed %#x, after %d steps; replay with: go test ./sim -run TestSeeds -seed=%#x -v", seed, r.steps, seed)
			for _, f := range r.faults[:min(len(r.faults), 10)] {
				t.Errorf("  %s", f)
			}
			if t.Failed() && len(r.faults) > 0 && steps > 5_000_000 {
				break
			}
		}
	}
	fmt.Printf("sim: %d steps in %v (%v of fake time); replayed letters %d, stale settlements %d; faults fired: %v\n",
		steps, time.Since(start).Round(time.Millisecond), fake.Round(time.Second), replays, stale, total)
	// Not vacuous: over many seeds each class fires, and the rare paths are taken.
	if *seeds >= 500 {
		for _, c := range Classes {
			if total[c] < 100 {
				t.Errorf("fault %q fired %d times in %d seeds, want at least 100", c, total[c], *seeds)
			}
		}
		if stale == 0 || replays == 0 {
			t.Errorf("%d stale settlements and %d replays in %d seeds: the interesting paths were not taken", stale, replays, *seeds)
		}
	}
}

// TestTheSameSeedGivesTheSameTrace is what makes a failing seed worth anything.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	for seed := range uint64(20) {
		a := run(t, seed, true, nil)
		for range 2 {
			b := run(t, seed, true, nil)
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
