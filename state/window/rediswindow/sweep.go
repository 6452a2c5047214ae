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
	done.Next = -1
	for shard := range s.tags {
		n, err := s.run(ctx, sweepScript, shard, millis(s.o.Window), strconv.Itoa(sweepMost), s.ttl).AsIntSlice()
		if err == nil && len(n) != 3 {
			err = reply("sweep")
		}
		if err != nil {
			return done, failed(err, "sweep windows")
		}
		done.Closed, done.Lost = done.Closed+int(n[0]), done.Lost+int(n[1])
		if next := time.Duration(n[2]) * time.Millisecond; n[2] >= 0 && (done.Next < 0 || next < done.Next) {
			done.Next = next
		}
	}
	return done, nil
}
