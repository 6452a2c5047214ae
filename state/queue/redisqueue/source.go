package redisqueue

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// source hands out the jobs of one queue.
type source struct {
	store   *Store
	queue   string
	lease   time.Duration
	ordered bool
	token   string

	// Of Receive's goroutine alone.
	shards []shardState
	next   int  // the shard to ask first
	set    bool // order is known to be strict

	// Of Settle's goroutine alone.
	call uint64    // number of the last
	lost *lostCall // the one whose answer did not come; nil: all came

	mu     sync.Mutex       // guards what follows
	outs   map[place]handed // handed out by us and not settled
	epochs map[grant]int    // how many jobs each has
	broken map[grant]bool   // those with an unreadable job, which comes back when their lease ends
}

// place is a position in a shard.
type place struct {
	shard uint32
	pos   uint64
}

// handed is a job that is handed out: its hand-out, and the last call that settled it.
type handed struct {
	epoch uint32
	call  uint64
}

// grant is one hand-out of a shard.
type grant struct{ shard, epoch uint32 }

// shardState is a source's state of a shard.
type shardState struct {
	question uint64    // number of the last request for a hand-out
	lost     bool      // its answer was
	no       int64     // of the queue
	wake     string    // the last wake-up before it was asked
	rest     time.Time // until then nothing can be handed out, unless a wake-up comes
}

var (
	_ tidemill.Keeper  = (*source)(nil)
	_ tidemill.Gater   = (*source)(nil)
	_ tidemill.Counter = (*source)(nil)
)

// Open implements queue.Store.
func (s *Store) Open(name string, o queue.Options) tidemill.Source {
	if o.Lease <= 0 {
		o.Lease = queue.Lease
	}
	s.mu.Lock()
	s.opened++
	n := s.opened
	s.mu.Unlock()
	return &source{store: s, queue: name, lease: o.Lease, ordered: o.Ordered, token: s.token + strconv.Itoa(n),
		shards: make([]shardState, len(s.tags)), next: n % len(s.tags), outs: map[place]handed{}, epochs: map[grant]int{}, broken: map[grant]bool{}}
}

// Traits implements tidemill.Source.
func (c *source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Forwards: true, Ordered: c.ordered, Keep: c.lease / 3}
}

// leaseJobs is how many jobs one call leases at most.
const leaseJobs = 1024

// Receive implements tidemill.Source.
func (c *source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := ctx.Err(); err != nil || len(into) == 0 {
		return 0, err
	}
	if err := c.order(ctx); err != nil {
		return 0, err
	}
	_, hurry := ctx.Deadline() // a caller with little time does not wait for a wake-up
	for asked := false; ; {
		now := c.store.now()
		for range c.shards {
			shard := c.next
			c.next = (c.next + 1) % len(c.shards)
			if now.Before(c.shards[shard].rest) && (asked || !hurry) {
				continue
			}
			n, err := c.take(ctx, shard, into[:min(len(into), leaseJobs)])
			if n > 0 || err != nil {
				return n, err
			}
		}
		asked = true
		if err := c.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// order makes the order of the queue strict, if that was asked for.
func (c *source) order(ctx context.Context) error {
	if !c.ordered || c.set {
		return nil
	}
	if _, err := c.store.Set(ctx, c.queue, func(s *queue.Settings) { s.Ordered = true }); err != nil {
		return err
	}
	c.set = true
	return nil
}

// take asks a shard for jobs.
func (c *source) take(ctx context.Context, shard int, into []*tidemill.Message) (int, error) {
	at := &c.shards[shard]
	repeat := "0"
	if at.lost {
		repeat = "1"
	} else {
		at.question++
	}
	at.lost = true
	ordered := "0"
	if c.ordered {
		ordered = "1"
	}
	got, err := c.store.run(ctx, leaseScript, shard, c.queue, strconv.Itoa(len(into)), millis(c.lease), c.token,
		strconv.FormatUint(at.question, 10), repeat, ordered).ToArray()
	if err != nil {
		return 0, failed(err, "ask queue %q for jobs", c.queue)
	}
	at.lost = false
	if len(got) == 1 { // another source did
		c.set = false
		return 0, rules.NotOrdered(c.queue)
	}
	if len(got) != 8 {
		return 0, reply("ask for jobs")
	}
	no, err1 := got[0].AsInt64()
	epoch, err2 := got[1].AsInt64()
	ms, err3 := got[2].AsInt64()
	wake, err4 := got[3].ToString()
	if cmp.Or(err1, err2, err3, err4) != nil {
		return 0, reply("ask for jobs")
	}
	at.no, at.wake, at.rest = no, wake, time.Time{}
	if ms > -2 {
		rest := min(redisconn.Longest, c.lease/2)
		if ms >= 0 {
			rest = min(rest, time.Duration(ms)*time.Millisecond)
		}
		at.rest = c.store.now().Add(rest)
	}
	if epoch == 0 {
		return 0, nil
	}
	n, err := c.fill(ctx, shard, no, uint32(epoch), got[4:], into)
	at.lost = n == 0 && !errors.Is(err, errRecord) // the request is repeated
	return n, err
}

// fill makes messages of a hand-out: positions, records, changes since they came, and the
// dictionaries that they are packed with. It leaves out a job whose record is damaged: that comes
// back when its lease ends.
func (c *source) fill(ctx context.Context, shard int, no int64, epoch uint32, got []rueidis.RedisMessage, into []*tidemill.Message) (n int, damaged error) {
	if len(got) != 4 {
		return 0, reply("ask for jobs")
	}
	places, err1 := got[0].ToString()
	recs, err2 := got[1].AsStrSlice()
	known, err3 := got[2].ToArray()
	sum, err4 := got[3].ToString()
	if cmp.Or(err1, err2, err3, err4) != nil || len(known)%3 != 0 || len(recs) > len(into) {
		return 0, reply("ask for jobs")
	}
	d, err := c.store.unpacker(ctx, shard, c.queue, sum, recs...)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, rec := range recs {
		m := into[n]
		text, rest, _ := strings.Cut(places, " ")
		pos, err := strconv.ParseUint(text, 10, 64)
		if places = rest; err != nil {
			return n, reply("ask for jobs")
		}
		var l late
		var fails []queue.Failure
		if len(known) > 0 {
			if of, err := known[0].AsInt64(); err == nil && of == int64(i+1) {
				text, _ := known[1].ToString()
				said, _ := known[2].ToString()
				l, fails, known = readLate(text), readFailures(said), known[3:]
			}
		}
		if _, err := readRecord(rec, m, d); err != nil {
			damaged = tidemill.Fail(tidemill.Internal, "job at position %d of queue %q: %w", pos, c.queue, err)
			c.broken[grant{uint32(shard), epoch}] = true
			continue
		}
		m.To, m.At, m.Tries, m.Handed = c.queue, time.Time{}, l.tries, l.handed+1
		m.Header = rules.AppendFailures(m.Header, fails)
		m.Mark = tidemill.Mark{Shard: uint32(no), Epoch: epoch, Hi: uint64(shard), Lo: pos}
		at := place{uint32(shard), pos}
		if old, ok := c.outs[at]; ok {
			c.gone(at, old.epoch)
		}
		c.outs[at] = handed{epoch: epoch}
		c.epochs[grant{at.shard, epoch}]++
		n++
	}
	if n > 0 {
		return n, nil
	}
	delete(c.broken, grant{uint32(shard), epoch}) // its lease is not kept
	return 0, damaged
}

// gone drops a hand-out.
func (c *source) gone(at place, epoch uint32) {
	delete(c.outs, at)
	g := grant{at.shard, epoch}
	if c.epochs[g]--; c.epochs[g] <= 0 {
		delete(c.epochs, g)
		delete(c.broken, g)
	}
}

// wait waits until something may have changed in a shard.
func (c *source) wait(ctx context.Context) error {
	wakes := make([]redisconn.Wake, len(c.shards))
	for i := range c.shards {
		at := &c.shards[i]
		wakes[i] = redisconn.Wake{Stream: c.store.tags[i] + strconv.FormatInt(at.no, 10) + ":wake", Seen: at.wake, Rest: at.rest}
	}
	woken, err := redisconn.Await(ctx, c.store.client, c.store.now(), answer, wakes...)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return failed(err, "wait for jobs of queue %q", c.queue)
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
	c.mu.Lock()
	all := make([][]uint32, len(c.shards))
	for g := range c.epochs {
		all[g.shard] = append(all[g.shard], g.epoch)
	}
	c.mu.Unlock()
	for shard, epochs := range all {
		if len(epochs) == 0 {
			continue
		}
		args := []string{c.queue, millis(c.lease)}
		for _, e := range epochs {
			args = append(args, strconv.FormatUint(uint64(e), 10))
		}
		left, err := c.store.atOnce(ctx, keepScript, shard, args...).ToString()
		if err != nil {
			return failed(err, "keep jobs of queue %q", c.queue)
		}
		if len(left) != len(epochs) {
			return reply("keep jobs")
		}
		if strings.Contains(left, "0") {
			c.ended(uint32(shard), epochs, left)
		}
	}
	return nil
}

// ended drops hand-outs without jobs: they were settled by ID, or lost.
func (c *source) ended(shard uint32, epochs []uint32, left string) {
	gone := map[uint32]bool{}
	for i, e := range epochs {
		gone[e] = left[i] == '0'
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, h := range c.outs {
		if at.shard == shard && gone[h.epoch] {
			c.gone(at, h.epoch)
		}
	}
}

// Gate implements tidemill.Gater. With several shards, each lets out its part of the
// probes, and at least one: a single shard may have all jobs.
func (c *source) Gate(ctx context.Context, until time.Time, probes int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := int64(-1)
	if !until.IsZero() {
		wait = max(0, (until.Sub(c.store.now()).Microseconds()+999)/1000)
	}
	n := len(c.shards)
	for shard := range n {
		part := probes / n
		if shard < probes%n {
			part++
		}
		if probes > 0 {
			part = max(part, 1)
		}
		if err := c.store.atOnce(ctx, gateScript, shard, c.queue, strconv.FormatInt(wait, 10), strconv.Itoa(part)).Error(); err != nil {
			return failed(err, "gate queue %q", c.queue)
		}
	}
	return nil
}

// Books implements tidemill.Bookkeeper: each shard's from one snapshot.
func (c *source) Books(ctx context.Context) (tidemill.Books, error) { return c.books(ctx, "0") }

// Counters implements tidemill.Counter. It counts no jobs.
func (c *source) Counters(ctx context.Context) (tidemill.Books, error) { return c.books(ctx, "1") }

func (c *source) books(ctx context.Context, counters string) (b tidemill.Books, err error) {
	if err := ctx.Err(); err != nil {
		return b, err
	}
	for shard := range c.shards {
		n, err := c.store.run(ctx, booksScript, shard, c.queue, counters).AsIntSlice()
		if err == nil && len(n) != 5 {
			err = reply("read books")
		}
		if err != nil {
			return b, failed(err, "read the books of queue %q", c.queue)
		}
		b.Accepted += uint64(n[0])
		b.Settled.Add(tidemill.Count{Delivered: uint64(n[1]), Skipped: uint64(n[2]), Dead: uint64(n[3])})
		b.Pending += uint64(n[4])
	}
	return b, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
