package memoryqueue

import (
	"testing"

	"github.com/tidemill/tidemill/state/queue/queuetest"
)

func TestContract(t *testing.T) {
	queuetest.Run(t, func(t *testing.T, capacity int) queuetest.Harness {
		return queuetest.Harness{Store: New(Options{Capacity: capacity})}
	})
}
