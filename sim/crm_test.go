package sim

import "testing"

// crmWith makes worlds of the CRM system, with a bug planted in each (nil: none).
func crmWith(bug func(*CRMParts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newCRMWorld(seed, bug) }
}

func TestCRMSeeds(t *testing.T) {
	runSeeds(t, crmWith(nil), Repeated, ByHand, Replays, Opened, Requested, AskedTwice, LeftBehind, Panicked, Exited, CutOff, Unanswered)
}

func TestTheSameSeedGivesTheSameTraceOfCRM(t *testing.T) { sameTrace(t, crmWith(nil)) }
