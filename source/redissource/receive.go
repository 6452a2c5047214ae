package redissource

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// reader is the state of Receive, which has one goroutine.
type reader struct {
	s       *Source
	ready   []entry   // read and not handed out yet, in order of ids where they came together
	own     cursor    // where the search for entries that are ours and that we do not know of goes on
	idle    cursor    // where the search for entries that nobody renews goes on
	scanned time.Time // when that began

	shut   time.Time // the gate is closed until then; zero: it is open
	probes int       // that it lets out after that
	gate   int       // what Source.gate was when we looked
	due    time.Time // when the next entry that was put off comes due; zero: none is
}

// cursor is where a search through pending entries goes on.
type cursor struct {
	on   bool
	from string
}

// entry is one that was read.
type entry struct {
	place
	id     string
	fields []rueidis.RedisMessage // name, value, …
	count  int                    // of hand-outs, this one included
	tries  int
}

// pageOf is how many pending entries are looked through at once.
const pageOf = 1000

// Receive implements tidemill.Source: first what is ours already and what others left
// behind, in order, then what comes due, then what is new.
func (s *Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := s.receive(ctx, into)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			return 0, err
		}
	}
}

// receive makes one step: it hands out, or reads, or waits.
func (s *Source) receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	if err := s.join(ctx); err != nil {
		return 0, err
	}
	r := &s.reader
	s.mu.Lock()
	if s.missed {
		s.missed = false
		r.own = cursor{on: true, from: "-"}
	}
	gate := s.gate
	s.mu.Unlock()
	if gate != r.gate { // it may have been closed: see before anything is read
		if err := r.look(ctx, look.Exec(ctx, s.client, []string{s.keys.gate, s.keys.due}, nil)); err != nil {
			return 0, err
		}
		r.gate = gate
	}
	if !r.idle.on && time.Since(r.scanned) >= s.o.Lease/2 {
		r.scanned, r.idle = time.Now(), cursor{on: true, from: "-"}
	}
	if now := time.Now(); r.shut.After(now) {
		return 0, r.rest(ctx, min(r.shut.Sub(now), s.o.Block))
	}
	most := len(into)
	if !r.shut.IsZero() {
		most = min(most, max(1, r.probes))
	}
	r.fresh()
	if len(r.ready) == 0 {
		if err := r.read(ctx, most); err != nil {
			s.mu.Lock()
			s.missed = true
			s.mu.Unlock()
			return 0, err
		}
	}
	if len(r.ready) == 0 && !r.shut.IsZero() && !r.own.on && !r.idle.on {
		return 0, r.rest(ctx, s.o.Block)
	}
	return r.hand(ctx, into)
}

// read finds something to hand out, or waits for it.
func (r *reader) read(ctx context.Context, most int) error {
	s := r.s
	switch {
	case r.own.on:
		return r.search(ctx, &r.own, 0, most)
	case r.idle.on:
		return r.search(ctx, &r.idle, s.o.Lease, most)
	case !r.due.IsZero() && !r.due.After(time.Now()):
		return r.take(ctx, 0, "", most, nil)
	}
	wait := s.o.Block
	if !r.due.IsZero() {
		wait = min(wait, time.Until(r.due))
	}
	if !r.shut.IsZero() { // probes are taken one by one: nobody waits at the server for them
		wait = 0
	}
	return r.next(ctx, most, min(wait, s.o.Lease/2-time.Since(r.scanned)))
}

// next reads new entries and waits for the first.
func (r *reader) next(ctx context.Context, most int, wait time.Duration) error {
	s := r.s
	if until, ok := ctx.Deadline(); ok { // the server ends the wait, and the connection lives on
		wait = min(wait, time.Until(until)-time.Millisecond)
	}
	// An answer has to come, even where the server freezes while we wait.
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0)+answer)
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
	entries, err := parseRead(got[0])
	if err != nil {
		return s.fail(err, "read")
	}
	if wait > 0 && len(entries) > 0 {
		at = time.Now() // they came while we waited
	}
	r.keep(entries, at)
	return r.look(ctx, got[1])
}

// answer bounds how long an answer to a read may take, beyond what the read waits.
const answer = 10 * time.Second

// look takes note of the gate and of what comes due.
func (r *reader) look(ctx context.Context, res rueidis.RedisResult) error {
	if e, ok := rueidis.IsRedisErr(res.Error()); ok && e.IsNoScript() {
		res = look.Exec(ctx, r.s.client, []string{r.s.keys.gate, r.s.keys.due}, nil)
	}
	v, err := res.AsIntSlice()
	if err != nil {
		return r.s.fail(err, "look at the gate of")
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

// keep holds entries until they are handed out.
func (r *reader) keep(entries []entry, at time.Time) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for i := range entries {
		r.s.held[entries[i].place] = hold{entries[i].count, at}
	}
	r.ready = append(r.ready, entries...)
}

// fresh drops what was read and may be another's by now: this process may have slept. It
// is found again when it is idle.
func (r *reader) fresh() {
	if len(r.ready) == 0 {
		return
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	kept := r.ready[:0]
	for _, e := range r.ready {
		switch h := r.s.held[e.place]; {
		case h.count != e.count: // it was found to be another's
		case time.Since(h.at) < r.s.o.Lease*2/3:
			kept = append(kept, e)
		default:
			delete(r.s.held, e.place)
			r.s.missed = true
		}
	}
	clear(r.ready[len(kept):])
	r.ready = kept
}

// hand hands out what is ready, as far as the gate lets it.
func (r *reader) hand(ctx context.Context, into []*tidemill.Message) (int, error) {
	n := min(len(into), len(r.ready))
	if n == 0 {
		return 0, nil
	}
	if !r.shut.IsZero() {
		var err error
		if n, err = r.permitted(ctx, n); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, r.rest(ctx, r.s.o.Block)
		}
	}
	s := r.s
	s.mu.Lock()
	turns := s.turns
	for i := range r.ready[:n] {
		e := &r.ready[i]
		delete(s.held, e.place)
		s.outs[e.place] = out{count: e.count}
	}
	s.mu.Unlock()
	for i, m := range into[:n] {
		e := &r.ready[i]
		e.message(m, s.o.Stream)
		m.Mark.Epoch = epoch(turns, e.count)
	}
	clear(r.ready[:n])
	if r.ready = r.ready[n:]; len(r.ready) == 0 {
		r.ready = nil
	}
	return n, nil
}

// epoch tells hand-outs of one entry apart.
func epoch(turns uint32, count int) uint32 {
	return turns<<turnBits | uint32(min(count, 1<<turnBits-1))
}

// turnBits are left to the count of an entry's hand-outs; the bits above say which making of the
// group it counts in.
const turnBits = 20

// rest waits while the gate is closed and sees whether it still is.
func (r *reader) rest(ctx context.Context, wait time.Duration) error {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.look(ctx, look.Exec(ctx, r.s.client, []string{r.s.keys.gate, r.s.keys.due}, nil))
}

// name is the consumer's.
func (s *Source) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer
}
