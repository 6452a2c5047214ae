package redissource

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	// answer is the default of Options.Answer.
	answer = 10 * time.Second
	// grace is how long an answer in flight is awaited after the context ended: its entries
	// would have to be found again.
	grace = time.Second
	// busyFrom is how many entries make a stream busy: after a read of that many the next
	// one does not wait.
	busyFrom = 16
	// packBytes is about how much one packed answer brings.
	packBytes = 256 << 10
	// packEntry is the largest average size at which entries of one field come packed: packing
	// takes Redis a microsecond each, and 2 to 4 ns a byte, because Lua hashes every string as
	// a whole, twice. Beyond this, and for entries of many fields, it is not worth it.
	packEntry = 512
)

// readNew reads new entries and waits for the first.
func (r *reader) readNew(ctx context.Context, most int, wait time.Duration) error {
	s := r.s
	if until, ok := ctx.Deadline(); ok { // the server ends the wait, and the connection lives on
		wait = min(wait, time.Until(until)-time.Millisecond)
	}
	// An answer has to come, even where the server freezes while we wait.
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0)+s.o.Answer)
	defer cancel()
	b := s.client.B().Xreadgroup().Group(s.o.Group, s.name()).Count(int64(most))
	var cmd rueidis.Completed
	if wait >= time.Millisecond {
		cmd = b.Block(wait.Milliseconds()).Streams().Key(s.keys.stream).Id(">").Build()
	} else {
		cmd = b.Streams().Key(s.keys.stream).Id(">").Build()
	}
	at := time.Now()
	got := s.client.DoMulti(ctx, cmd,
		s.client.B().Evalsha().Sha1(lookSha).Numkeys(2).Key(s.keys.gate, s.keys.due).Build())
	if err := r.batch.parseRead(got[0]); err != nil {
		return s.fail(err, "read")
	}
	if wait > 0 && len(r.batch.entries) > 0 {
		at = time.Now() // they came while we waited
	}
	r.at, r.busy = at, r.packs(most)
	if e, ok := rueidis.IsRedisErr(got[1].Error()); ok && e.IsNoScript() {
		return r.look(ctx)
	}
	return r.noted(got[1])
}

// readPacked reads new entries of a busy stream without waiting. The answer is a few
// strings; an ordinary one is half a dozen values for each entry, which all need their own
// memory.
func (r *reader) readPacked(ctx context.Context, most int) error {
	s := r.s
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Answer)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	r.at = time.Now()
	reply, err := read.Exec(asking, s.client, []string{s.keys.stream, s.keys.gate, s.keys.due},
		[]string{s.o.Group, s.name(), strconv.Itoa(most), strconv.Itoa(packBytes)}).ToArray()
	if err != nil {
		return s.fail(err, "read")
	}
	if len(reply) < 3 {
		return s.fail(errReply, "read")
	}
	for i := range reply[3:] {
		packed, err := reply[3+i].ToString()
		if err == nil {
			err = r.batch.parsePacked(packed)
		}
		if err != nil {
			return s.fail(err, "read")
		}
	}
	r.busy = r.packs(most)
	return r.notice(reply[:3])
}

// packs says whether to pack the next entries, judged by those that were read just now.
func (r *reader) packs(most int) bool {
	n, size := len(r.batch.entries), 0
	for i := range r.batch.fields {
		size += len(r.batch.fields[i].Name) + len(r.batch.fields[i].Value)
	}
	return n >= min(most, busyFrom) && size <= n*packEntry && len(r.batch.fields) == n
}

// look asks for the gate and what comes due.
func (r *reader) look(ctx context.Context) error {
	return r.noted(look.Exec(ctx, r.s.client, []string{r.s.keys.gate, r.s.keys.due}, nil))
}

func (r *reader) noted(res rueidis.RedisResult) error {
	reply, err := res.ToArray()
	if err != nil {
		return r.s.fail(err, "look at the gate of")
	}
	return r.notice(reply)
}

// notice notes the gate and what comes due.
func (r *reader) notice(reply []rueidis.RedisMessage) error {
	var v [3]int64
	if len(reply) != len(v) {
		return r.s.fail(errReply, "look at the gate of")
	}
	for i := range v {
		var err error
		if v[i], err = reply[i].AsInt64(); err != nil {
			return r.s.fail(err, "look at the gate of")
		}
	}
	now := time.Now()
	r.shut, r.probes, r.due = time.Time{}, int(v[1]), time.Time{}
	if v[0] >= 0 {
		r.shut = now.Add(time.Duration(v[0]) * time.Millisecond)
	}
	if v[2] >= 0 {
		r.due = now.Add(time.Duration(v[2]) * time.Millisecond)
	}
	return nil
}
