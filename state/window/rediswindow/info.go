package rediswindow

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/internal/entry"
)

// entry reads a window as scripts return it: its number, then the fields that FIELDS of
// common.lua names.
func (s *Store) entry(m rueidis.RedisMessage) (*entry.Entry, error) {
	v, err := m.AsStrSlice()
	if err != nil || len(v) != 19 {
		return nil, reply("show a window")
	}
	var bad error
	num := func(i int) int64 {
		if v[i] == "" {
			return 0
		}
		n, err := strconv.ParseInt(v[i], 10, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("read window %q: %w", v[0], err)
		}
		return n
	}
	at := func(i int) time.Time { return wire.Instant(num(i)) }
	e := &entry.Entry{Info: window.Info{Revision: uint64(num(0)), Batch: v[1], State: window.State(v[2]), Records: num(3), Bytes: num(4), Expect: num(5), Lost: num(6),
		Opened: at(7), Closed: at(8), Why: window.Why(v[9]), Due: at(11), Owner: v[12], Handed: int(num(13)), Tries: int(num(14)), Replays: int(num(15)),
		Failed: at(16), Cause: v[18]}, Epoch: uint32(num(10))}
	e.ID = window.ID(e.Batch, e.Revision)
	if v[17] != "" {
		if e.Kind, err = tidemill.ParseKind(v[17]); err != nil && bad == nil {
			bad = fmt.Errorf("read window %q: %w", e.ID, err)
		}
	}
	if e.State == window.Active {
		e.Due = e.Opened.Add(s.o.Window)
	}
	return e, bad
}
