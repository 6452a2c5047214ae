package rediswindow

import (
	"context"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/state/window"
)

// sweepMost is how many windows one sweep closes in a shard.
const sweepMost = 500

// Sweep implements window.Store.
func (s *Store) Sweep(ctx context.Context) (done window.Swept, err error) {
	if err := ctx.Err(); err != nil {
		return done, err
	}
	all := make([]window.Swept, len(s.tags))
	err = s.each(func(shard int) (err error) {
		all[shard], err = s.sweep(ctx, shard)
		return err
	})
	done.Next = -1
	for _, one := range all {
		done.Closed, done.Lost = done.Closed+one.Closed, done.Lost+one.Lost
		if one.Next >= 0 && (done.Next < 0 || one.Next < done.Next) {
			done.Next = one.Next
		}
	}
	return done, err
}

// sweep sweeps a shard.
func (s *Store) sweep(ctx context.Context, shard int) (window.Swept, error) {
	n, err := s.run(ctx, sweepScript, shard, millis(s.o.Window), strconv.Itoa(sweepMost), s.ttl).AsIntSlice()
	if err == nil && len(n) != 3 {
		err = reply("sweep")
	}
	if err != nil {
		return window.Swept{Next: -1}, failed(err, "sweep windows")
	}
	return window.Swept{Closed: int(n[0]), Lost: int(n[1]), Next: max(time.Duration(n[2])*time.Millisecond, -1)}, nil
}
