package memorylock_test

import (
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tidemill/tidemill/state/lock/locktest"
	"github.com/tidemill/tidemill/state/lock/memorylock"
)

func TestConformance(t *testing.T) {
	locktest.Run(t, func(_ *testing.T, now func() time.Time) locktest.Harness {
		return locktest.Harness{Locks: memorylock.New(memorylock.Options{Now: now})}
	})
}

func TestNobodyHasALockWithoutRandomness(t *testing.T) {
	l := memorylock.New(memorylock.Options{Rand: iotest.ErrReader(io.ErrUnexpectedEOF)})
	if h, ok, err := l.Acquire(t.Context(), "a", time.Minute); err == nil || ok {
		t.Errorf("Acquire = %+v, %v, %v; want an error", h, ok, err)
	}
}

func TestLocksThatAreNotTunedWork(t *testing.T) {
	l := memorylock.New(memorylock.Options{})
	if _, ok, err := l.Acquire(t.Context(), "a", time.Minute); err != nil || !ok {
		t.Errorf("Acquire = %v, %v; want the lock", ok, err)
	}
}
