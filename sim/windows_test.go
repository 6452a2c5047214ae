package sim

import "testing"

// windowsWith makes worlds of the windows system, with a bug planted in each (nil: none).
func windowsWith(bug func(*WindowsParts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newWindowsWorld(seed, bug) }
}

func TestWindowsSeeds(t *testing.T) {
	runSeeds(t, windowsWith(nil), Late, Overwrites, ByTheCount, ClosedNow, TakenOver, TooLate, Burnt, ParkedOnes, BackAgain,
		SentTwice, PartFailed, RefusedOne, DiedAlone, NotIndexed, PutOff, TopicFull, NoResult, PausedOnes, ByHand, Replays)
}

func TestTheSameSeedGivesTheSameTraceOfWindows(t *testing.T) { sameTrace(t, windowsWith(nil)) }
