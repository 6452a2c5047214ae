// Package sleep waits.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends: then it returns why that ended.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
