package tabledeadletter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/internal/leases"
	"github.com/tidemill/tidemill/state/table"
)

// receiveMax is how many dead letters one Receive hands out: others wait while messages are read.
const receiveMax = 128

// source hands out the replaying dead letters of one pipeline.
type source[Raw any] struct {
	s        *Store[Raw]
	pipeline string
	out      leases.Book
}

var (
	_ tidemill.Source     = (*source[int])(nil)
	_ tidemill.Keeper     = (*source[int])(nil)
	_ tidemill.Bookkeeper = (*source[int])(nil)
	_ tidemill.Counter    = (*source[int])(nil)
)

// Open implements deadletter.Store.
func (s *Store[Raw]) Open(pipeline string) tidemill.Source {
	return &source[Raw]{s: s, pipeline: pipeline}
}

// PipelineOfLetters is for deadletter.PipelineOf.
func (c *source[Raw]) PipelineOfLetters() string { return c.pipeline }

// Traits implements tidemill.Source.
func (c *source[Raw]) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Keep: c.s.o.Lease / 3}
}

// Receive implements tidemill.Source.
func (c *source[Raw]) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if len(into) == 0 {
		return 0, ctx.Err()
	}
	return c.s.bell.Receive(ctx, func() (int, time.Duration, error) {
		leased, wait, err := c.take(ctx, min(len(into), receiveMax))
		if err != nil {
			return 0, 0, fmt.Errorf("receive replays of %q: %w", c.pipeline, err)
		}
		for i, r := range leased {
			r.Fill(into[i])
			c.out.Add(r.Position(), r.key)
		}
		return len(leased), min(wait, c.s.o.Look), nil
	})
}

// take leases due dead letters, or says how long to wait at most.
func (c *source[Raw]) take(ctx context.Context, most int) (leased []*Record, wait time.Duration, err error) {
	err = c.s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		leased, wait = nil, math.MaxInt64
		now := c.s.o.Now()
		page, err := tx.Page(table.Query[Record]{By: "state", Most: most, Where: append(among(c.pipeline, replaying),
			table.Cond{Field: "due", Op: "<=", Value: now}, table.Cond{Field: "until", Op: "<=", Value: now})})
		if err != nil {
			return err
		}
		if err := whole(tx, page...); err != nil {
			return err
		}
		var broken []*Record
		groups := newGrouping()
		for _, r := range page {
			if r.Damaged != "" {
				r.Break(now)
				broken = append(broken, r.seal())
				groups.leave(r)
				groups.join(r)
				continue
			}
			r.Lease(now, c.s.o.Lease)
			leased = append(leased, r.seal())
		}
		if err := regroup(tx, groups, c.pipeline, broken); err != nil {
			return err
		}
		if len(leased) > 0 {
			return tx.Put(leased, lease...)
		}
		at, any, err := next(tx, c.pipeline)
		if any {
			wait = at.Sub(now)
		}
		return err
	})
	return leased, wait, err
}

// regroup writes dead letters that were found damaged, which died of that.
func regroup(tx table.Tx[Record], groups *grouping, pipeline string, broken []*Record) error {
	if len(broken) == 0 {
		return nil
	}
	_, of, err := read(tx, []string{pipeline}, nil, "key")
	if err != nil {
		return err
	}
	if err := groups.write(tx, of); err != nil {
		return err
	}
	if err := tx.Put(broken, death...); err != nil {
		return err
	}
	return tx.Put(of.rows(), counts...)
}

// Keep implements tidemill.Keeper.
func (c *source[Raw]) Keep(ctx context.Context) error {
	marks, keys := c.out.Out()
	if len(marks) == 0 {
		return ctx.Err()
	}
	var lost []tidemill.Mark
	err := c.s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		lost = nil
		found, err := tx.Get(keys, "state", "seq", "asked", "handed", "epoch", "until")
		if err != nil {
			return err
		}
		until := c.s.o.Now().Add(c.s.o.Lease)
		var kept []*Record
		for i, m := range marks {
			r := found[keys[i]]
			if r == nil || !r.fill().Holds(m) {
				lost = append(lost, m)
				continue
			}
			r.Until = until
			kept = append(kept, r.seal())
		}
		return tx.Put(kept, "until")
	})
	if err != nil {
		return fmt.Errorf("keep %d replays of %q: %w", len(marks), c.pipeline, err)
	}
	c.out.Forget(lost...)
	return nil
}

// Books implements tidemill.Bookkeeper. Pending is counted in the store.
func (c *source[Raw]) Books(ctx context.Context) (tidemill.Books, error) {
	return c.books(c.count(ctx))
}

// Counters implements tidemill.Counter. It reads one record.
func (c *source[Raw]) Counters(ctx context.Context) (tidemill.Books, error) {
	var b books
	err := c.s.t.View(ctx, c.reading(&b))
	return c.books(b, 0, err)
}

func (c *source[Raw]) books(b books, pending int, err error) (tidemill.Books, error) {
	if err != nil {
		return tidemill.Books{}, fmt.Errorf("read the books of dead letters of %q: %w", c.pipeline, err)
	}
	return tidemill.Books{Accepted: b.put, Settled: tidemill.Count{Delivered: b.replayed, Skipped: b.skipped}, Pending: uint64(pending), Lost: b.lost}, nil
}

// reading reads the books of the pipeline.
func (c *source[Raw]) reading(b *books) func(table.Reader[Record]) error {
	return func(tx table.Reader[Record]) error {
		_, of, err := read(tx, []string{c.pipeline}, nil, "key")
		if err == nil {
			*b = *of[c.pipeline]
		}
		return err
	}
}

// count counts by the index. Where the books have changed meanwhile, it reads the dead letters at
// one moment with them.
func (c *source[Raw]) count(ctx context.Context) (b books, pending int, err error) {
	there := []table.Cond{{Field: "pipeline", Op: "=", Value: c.pipeline}, {Field: "state", Op: "<", Value: account}}
	read := c.reading(&b)
	if err = c.s.t.View(ctx, read); err != nil {
		return b, 0, err
	}
	before := b
	pending, err = c.s.t.Count(ctx, math.MaxInt32, there...)
	if err != nil {
		return b, 0, err
	}
	if err = c.s.t.View(ctx, read); err != nil || b == before {
		return b, pending, err
	}
	err = c.s.t.View(ctx, func(tx table.Reader[Record]) error {
		pending = 0
		if err := read(tx); err != nil {
			return err
		}
		return table.Each(tx, table.Query[Record]{By: "state", Most: pageMax, Only: place, Where: there}, func(*Record) bool { pending++; return true })
	})
	return b, pending, err
}
