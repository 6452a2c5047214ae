package sim

import "testing"

// analyticsWith makes worlds of the analytics system, with a bug planted in each (nil: none).
func analyticsWith(bug func(*Parts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newWorld(seed, bug) }
}

func TestSeeds(t *testing.T) {
	runSeeds(t, analyticsWith(nil), "replay", "stale settlement", "claim in order")
}

func TestTheSameSeedGivesTheSameTrace(t *testing.T) { sameTrace(t, analyticsWith(nil)) }
