package sim

import "testing"

// deliveryWith makes worlds of the delivery system, with a bug planted in each (nil: none).
func deliveryWith(bug func(*DeliveryParts)) func(seed uint64) scene {
	return func(seed uint64) scene { return newDeliveryWorld(seed, bug) }
}

func TestDeliverySeeds(t *testing.T) {
	runSeeds(t, deliveryWith(nil), append(PartnerClasses, Again, Repeated, Duplicate, LongAgo, Hold, Replays, Edited, LeaseLost, Parked, ByHand)...)
}

func TestTheSameSeedGivesTheSameTraceOfDelivery(t *testing.T) { sameTrace(t, deliveryWith(nil)) }
