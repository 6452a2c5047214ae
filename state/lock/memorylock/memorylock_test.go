package memorylock_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/memorylock"
)

func TestConformance(t *testing.T) {
	locktest.Run(t, func(_ *testing.T, now func() time.Time) locktest.Harness {
		return locktest.Harness{Locks: memorylock.New(memorylock.Options{Now: now})}
	})
}
