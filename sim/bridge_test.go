package sim

import (
	"testing"

	"github.com/tidemill/tidemill/systems/bridge"
)

// bridgeWith makes worlds of the bridge, with a bug planted in each (nil: none).
func bridgeWith(bug func(*bridge.Parts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newBridgeWorld(seed, bug) }
}

func TestBridgeSeeds(t *testing.T) { runSeeds(t, bridgeWith(nil), append(FarClasses, "dead")...) }

func TestTheSameSeedGivesTheSameTraceOfTheBridge(t *testing.T) { sameTrace(t, bridgeWith(nil)) }
