//go:build !linux

package giveway

import "time"

// Idle is for how long the machine's cores have been idle, which is known on Linux only.
func Idle() (time.Duration, bool) { return 0, false }
