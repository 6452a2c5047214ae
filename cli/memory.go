package cli

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
)

const (
	// What lives is small and bounded, what is thrown away is much: collecting a quarter as
	// often gives a tenth of the CPU back to events.
	lazily = 400
	// How far the heap may grow by collecting lazily (measured, docs/performance.md): on
	// servers the process stays below 300 MB with what is not heap, and is no slower; the
	// embedded database, where everything is done in this process, is faster with more.
	roomOnServers = 240 << 20
	roomEmbedded  = 400 << 20
)

// roomOf is the room of these systems.
func roomOf(table system.Table, cfg *config.Loaded, systems []string) int64 {
	if cfg.ClickHouse.URL != "" {
		return roomOnServers
	}
	if s := table.Of(systems); len(s) == 1 && s[0].Room != nil {
		return s[0].Room(cfg)
	}
	return roomEmbedded
}

// boundMemory collects garbage lazily for as long as there is room, until ctx ends. Beyond
// the room it is collected more often, and where more than four sevenths of it live because
// the configuration holds much in flight, there is more. GOGC and GOMEMLIMIT in the
// environment are obeyed instead.
func boundMemory(ctx context.Context, getenv func(string) string, least int64) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(lazily)
	}
	if getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(least)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			metrics.Read(live)
			debug.SetMemoryLimit(roomFor(live[0].Value.Uint64(), least))
		}
	}
}

// roomFor is the limit of memory for so many living bytes.
func roomFor(live uint64, least int64) int64 {
	return int64(min(max(live+3*(live/4), uint64(least)), math.MaxInt64))
}
