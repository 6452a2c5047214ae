package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/systems/bridge"
)

// bridgeResult is what one run of a seed came to.
type bridgeResult struct {
	result
	far  map[string]int
	dead int
}

// runBridge plays one seed.
func runBridge(t *testing.T, seed uint64, record bool, bug func(*bridge.Parts)) (r bridgeResult) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newBridgeWorld(seed, bug)
		w.g.record = record
		r.faults = w.play()
		r.sum, r.steps, r.trace, r.count, r.far = w.g.sum, w.g.steps, w.g.trace, w.g.count, w.broker.count
		r.took = time.Since(epoch)
		r.dead = int(w.books().Settled.Dead)
	})
	return r
}

// TestBridgeSeeds runs many seeds of the bridge; -seed=0x… replays one with its trace.
func TestBridgeSeeds(t *testing.T) {
	if *oneSeed != "" {
		seed, err := strconv.ParseUint(*oneSeed, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := runBridge(t, seed, true, nil)
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
	fmt.Printf("sim of the bridge: %d seeds from -base=%d\n", *seeds, first)
	draw := rand.New(rand.NewPCG(first, 0))
	total, far, steps, dead, wrong, fake := map[Class]int{}, map[string]int{}, 0, 0, 0, time.Duration(0)
	start := time.Now()
	for range *seeds {
		seed := draw.Uint64()
		r := runBridge(t, seed, false, nil)
		for c, n := range r.count {
			total[c] += n
		}
		for c, n := range r.far {
			far[c] += n
		}
		steps, dead, fake = steps+r.steps, dead+r.dead, fake+r.took
		if len(r.faults) > 0 {
			t.Errorf("seed %#x, after %d steps; replay with: go test ./sim -run TestBridgeSeeds -seed=%#x -v", seed, r.steps, seed)
			for _, f := range r.faults[:min(len(r.faults), 10)] {
				t.Errorf("  %s", f)
			}
			if wrong++; wrong == 10 {
				break
			}
		}
	}
	fmt.Printf("sim of the bridge: %d steps in %v (%v of fake time); dead %d; faults fired: %v; %v\n",
		steps, time.Since(start).Round(time.Millisecond), fake.Round(time.Second), dead, total, far)
	// Not vacuous: over many seeds each class fires, and entries die.
	if *seeds >= 500 {
		for _, c := range Classes {
			if total[c] < 100 {
				t.Errorf("fault %q fired %d times in %d seeds, want at least 100", c, total[c], *seeds)
			}
		}
		for _, c := range FarClasses {
			if far[c] < 100 {
				t.Errorf("%q happened %d times in %d seeds, want at least 100", c, far[c], *seeds)
			}
		}
		if dead < 100 {
			t.Errorf("%d entries died in %d seeds", dead, *seeds)
		}
	}
}

// TestTheSameSeedGivesTheSameTraceOfTheBridge is what makes a failing seed worth anything.
func TestTheSameSeedGivesTheSameTraceOfTheBridge(t *testing.T) {
	for seed := range uint64(20) {
		a := runBridge(t, seed, true, nil)
		for range 2 {
			b := runBridge(t, seed, true, nil)
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
