//go:build !linux

package process

import "time"

// Self is 0: benchmarks run on Linux.
func Self() time.Duration { return 0 }
