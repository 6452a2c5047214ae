package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// What lives is small and bounded, what is thrown away is much: collecting a quarter as
	// often gives a tenth of the CPU back to events.
	lazily = 400
	// leastMemory is how far the heap may grow by collecting lazily: with what is not heap,
	// the process stays below 300 MB (measured, docs/performance.md).
	leastMemory = 240 << 20
)

// boundMemory collects garbage lazily for as long as there is room, until ctx ends. Beyond
// the room it is collected more often, and where more than half of the room lives, because
// the configuration holds much in flight, there is more room. GOGC and GOMEMLIMIT in the
// environment are obeyed instead.
func boundMemory(ctx context.Context, getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(lazily)
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(leastMemory)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			metrics.Read(live)
			debug.SetMemoryLimit(roomFor(live[0].Value.Uint64()))
		}
	}
}

// roomFor is the limit of memory for so many living bytes.
func roomFor(live uint64) int64 {
	return int64(min(max(2*live, leastMemory), math.MaxInt64))
}
