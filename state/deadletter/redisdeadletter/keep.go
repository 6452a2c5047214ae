package redisdeadletter

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
)

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	open, _ := c.out.Out()
	for range tries {
		if len(open) == 0 {
			return ctx.Err()
		}
		var err error
		if open, err = c.keep(ctx, open); err != nil {
			return fmt.Errorf("keep replays of %q: %w", c.pipeline, err)
		}
	}
	return nil // others change them all the time: their leases go on for a while
}

// keep renews leases once, and returns those of dead letters that changed in between.
func (c *source) keep(ctx context.Context, open []tidemill.Mark) (again []tidemill.Mark, err error) {
	seqs := make([]int64, len(open))
	for i, m := range open {
		seqs[i] = int64(m.Lo)
	}
	letters, err := c.s.letters(ctx, seqs, false)
	if err != nil {
		return nil, err
	}
	until := c.s.o.Now().Add(c.s.o.Lease)
	var batch commit
	var held, lost []tidemill.Mark
	for _, m := range open {
		if r, ok := letters[int64(m.Lo)]; ok && r.Holds(m) {
			r.Until = until
			batch.changes = append(batch.changes, change{kind: "set", r: r.Record, old: r.old})
			held = append(held, m)
		} else {
			lost = append(lost, m)
		}
	}
	c.out.Forget(lost...)
	if len(held) == 0 {
		return nil, nil
	}
	made, err := batch.run(ctx, c.s)
	for i, ok := range made {
		if !ok {
			again = append(again, held[i])
		}
	}
	return again, err
}
