package rediswindow

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/internal/leases"
)

// receiveMax is how many windows one call hands out at most.
const receiveMax = 200

// source hands out closed windows.
type source struct {
	s *Store

	// Of Receive's goroutine alone.
	shards []shardState
	next   int // the shard to ask first

	out leases.Book
}

// shardState is a source's state of a shard.
type shardState struct {
	wake string    // the last wake-up before it was asked
	rest time.Time // until then nothing can be handed out, unless a wake-up comes
}

var (
	_ tidemill.Source     = (*source)(nil)
	_ tidemill.Keeper     = (*source)(nil)
	_ tidemill.Bookkeeper = (*source)(nil)
)

// Open implements window.Store.
func (s *Store) Open() tidemill.Source {
	return &source{s: s, shards: make([]shardState, len(s.tags))}
}

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Ordered: true, Keep: c.s.o.Lease / 3}
}

// now is our clock, which tests can move. It only decides when to ask again.
func (s *Store) now() time.Time { return time.Now().Add(s.o.ahead()) }

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := ctx.Err(); err != nil || len(into) == 0 {
		return 0, err
	}
	for first := true; ; first = false {
		now := c.s.now()
		for range c.shards {
			shard := c.next
			c.next = (c.next + 1) % len(c.shards)
			if !first && now.Before(c.shards[shard].rest) {
				continue
			}
			n, err := c.take(ctx, shard, into[:min(len(into), receiveMax)])
			if n > 0 || err != nil {
				return n, err
			}
		}
		if err := c.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// take asks a shard for windows. If its answer is lost, its windows come back when the lease
// ends.
func (c *source) take(ctx context.Context, shard int, into []*tidemill.Message) (n int, err error) {
	got, err := c.s.run(ctx, takeScript, shard, strconv.Itoa(len(into)), millis(c.s.o.Lease), c.s.o.Owner).ToArray()
	if err == nil && (len(got) < 2 || len(got)-2 > len(into)) {
		err = reply("receive windows")
	}
	if err != nil {
		return 0, failed(err, "receive windows")
	}
	ms, err1 := got[0].AsInt64()
	wake, err2 := got[1].ToString()
	if cmp.Or(err1, err2) != nil {
		return 0, reply("receive windows")
	}
	rest := min(redisconn.Longest, c.s.o.Lease/2)
	if ms >= 0 {
		rest = min(rest, time.Duration(ms)*time.Millisecond)
	}
	c.shards[shard] = shardState{wake, c.s.now().Add(rest)}
	for _, m := range got[2:] {
		e, err := c.s.entry(m)
		if err == nil {
			err = e.Fill(into[n])
		}
		if err != nil {
			return n, err
		}
		into[n].Mark.Shard = uint32(shard)
		c.out.Add(into[n].Mark, "")
		n++
	}
	return n, nil
}

// wait waits until something may have changed in a shard.
func (c *source) wait(ctx context.Context) error {
	wakes := make([]redisconn.Wake, len(c.shards))
	for i := range c.shards {
		wakes[i] = redisconn.Wake{Stream: c.s.tags[i] + "wake", Seen: c.shards[i].wake, Rest: c.shards[i].rest}
	}
	woken, err := redisconn.Await(ctx, c.s.client, c.s.now(), answer, wakes...)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failed(err, "wait for windows")
	case woken >= 0:
		c.shards[woken].rest = time.Time{}
	}
	return nil
}

// Keep implements tidemill.Keeper.
func (c *source) Keep(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	byShard := make([][]tidemill.Mark, len(c.s.tags))
	out, _ := c.out.Out()
	for _, m := range out {
		byShard[m.Shard] = append(byShard[m.Shard], m)
	}
	return c.s.each(func(shard int) error { return c.keep(ctx, shard, byShard[shard]) })
}

// keep renews the leases of a shard.
func (c *source) keep(ctx context.Context, shard int, marks []tidemill.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	args := []string{millis(c.s.o.Lease)}
	for _, m := range marks {
		args = append(args, lease(m)...)
	}
	kept, err := c.s.run(ctx, keepScript, shard, args...).ToString()
	if err == nil && len(kept) != len(marks) {
		err = reply("keep windows")
	}
	if err != nil {
		return failed(err, "keep %d windows", len(marks))
	}
	var lost []tidemill.Mark
	for i, m := range marks {
		if kept[i] == '0' {
			lost = append(lost, m)
		}
	}
	c.out.Forget(lost...)
	return nil
}

// lease is a mark in the form of scripts: number, epoch, replays.
func lease(m tidemill.Mark) []string {
	return []string{strconv.FormatUint(m.Lo, 10), strconv.FormatUint(uint64(m.Epoch), 10), strconv.FormatUint(m.Hi, 10)}
}

// Books implements tidemill.Bookkeeper: each shard's from one snapshot.
func (c *source) Books(ctx context.Context) (b tidemill.Books, err error) {
	if err := ctx.Err(); err != nil {
		return b, err
	}
	for shard := range c.s.tags {
		n, err := c.s.run(ctx, booksScript, shard).AsIntSlice()
		if err == nil && len(n) != 5 {
			err = reply("read books")
		}
		if err != nil {
			return b, failed(err, "read the books of windows")
		}
		b.Accepted += uint64(n[0])
		b.Settled.Add(tidemill.Count{Delivered: uint64(n[1]), Skipped: uint64(n[2]), Dead: uint64(n[3])})
		b.Pending += uint64(n[4])
	}
	return b, nil
}
