package memoryqueue

import (
	"testing"

	"github.com/tidemill/tidemill/state/queue/queuetest"
)

func TestContract(t *testing.T) {
	queuetest.Run(t, fresh)
}

func TestOrderedSource(t *testing.T) {
	queuetest.RunOrdered(t, fresh)
}

func fresh(_ *testing.T, capacity int) queuetest.Harness {
	return queuetest.Harness{Store: New(Options{Capacity: capacity}), Whole: true}
}
