package redisdeadletter

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemill/tidemill"
)

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	c.mu.Lock()
	open := maps.Clone(c.out)
	c.mu.Unlock()
	for range tries {
		if len(open) == 0 {
			return ctx.Err()
		}
		if err := c.keep(ctx, open); err != nil {
			return fmt.Errorf("keep %d replays of %q: %w", len(open), c.pipeline, err)
		}
	}
	return nil // others change them all the time: their leases go on for a while
}

// keep renews leases once, and leaves in open those that changed in between.
func (c *source) keep(ctx context.Context, open map[int64]tidemill.Mark) error {
	letters, err := c.s.letters(ctx, slices.Sorted(maps.Keys(open)), false)
	if err != nil {
		return err
	}
	until := c.s.o.Now().Add(c.s.o.Lease)
	var batch commit
	var lost []tidemill.Mark
	for _, seq := range slices.Sorted(maps.Keys(open)) {
		if r, ok := letters[seq]; ok && r.Holds(open[seq]) {
			r.Until = until
			batch.changes = append(batch.changes, change{kind: "set", r: r.Record, old: r.old})
			continue
		}
		lost = append(lost, open[seq])
		delete(open, seq)
	}
	c.forget(lost)
	if len(batch.changes) == 0 {
		return nil
	}
	made, err := batch.run(ctx, c.s)
	if err != nil {
		return err
	}
	for i, ok := range made {
		if ok {
			delete(open, batch.changes[i].r.Seq)
		}
	}
	return nil
}

// forget stops keeping these hand-outs. A dead letter that was handed out anew meanwhile is
// kept: its mark is another.
func (c *source) forget(marks []tidemill.Mark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range marks {
		if c.out[int64(m.Lo)] == m {
			delete(c.out, int64(m.Lo))
		}
	}
}
