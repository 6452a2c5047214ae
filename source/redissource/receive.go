package redissource

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
)

// reader is the state of Receive, which has one goroutine.
type reader struct {
	s     *Source
	batch batch     // what was read last
	next  int       // how much of it was handed out
	at    time.Time // when its leases began
	held  bool      // the rest of it is in Source.held
	busy  bool      // the last read found more than a few small entries: the next one need not wait
	size  int       // how many entries the next read asks for at most, where Options.Batch says so

	own     cursor    // where the search for our own, unknown entries goes on
	idle    cursor    // where the search for entries without renewal goes on
	scanned time.Time // when that began
	looked  int       // entries that its batch has searched already
	pause   time.Time // it does not go on before

	shut   time.Time // the gate is closed until then; zero: it is open
	probes int       // that it lets out after that
	gate   int       // what Source.gate was when we looked
	due    time.Time // when the next delayed entry comes due; zero: none is delayed
}

// cursor is where a search through pending entries goes on.
type cursor struct {
	on   bool
	from string
}

// ready are the entries that were read and not handed out yet, in order of ids where they
// came together.
func (r *reader) ready() []entry { return r.batch.entries[r.next:] }

// Receive implements tidemill.Source: first come our own entries and those that others left
// behind, in order, then those due, then new ones. Small messages of one call may share
// memory, at most a quarter of a megabyte.
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
	if gate != r.gate { // it may have been closed: check before anything is read
		if err := r.look(ctx); err != nil {
			return 0, err
		}
		r.gate = gate
	}
	if time.Since(r.scanned) >= s.o.ClaimEvery {
		r.claim()
	}
	if now := time.Now(); r.shut.After(now) {
		return 0, r.rest(ctx, min(r.shut.Sub(now), s.o.Block))
	}
	most := r.ask(len(into))
	if !r.shut.IsZero() {
		most = min(most, max(1, r.probes))
	}
	r.fresh()
	if len(r.ready()) == 0 {
		if err := r.read(ctx, most); err != nil {
			s.mu.Lock()
			s.missed = true
			s.mu.Unlock()
			r.gate = 0 // its state in the read is lost too: check before anything is handed out
			return 0, err
		}
		r.resize(most)
	}
	if len(r.ready()) == 0 && !r.shut.IsZero() && !r.own.on && !r.claiming() {
		return 0, r.rest(ctx, s.o.Block)
	}
	return r.hand(ctx, into)
}

// deep is how many entries a read asks for at most while many wait: beyond that, reads gain no more.
const deep = 1000

// ask is how many entries to read where so many are wanted.
func (r *reader) ask(wanted int) int {
	if r.s.o.Batch == 0 {
		return wanted
	}
	r.size = max(r.size, r.s.o.Batch)
	return min(wanted, r.size)
}

// resize doubles what the next read asks for if this one found all that it asked for, and lets reads
// begin anew if it found less than they begin with. Between them a read may have ended with its
// memory.
func (r *reader) resize(asked int) {
	switch found := len(r.ready()); {
	case found < min(asked, r.s.o.Batch):
		r.size = r.s.o.Batch
	case found == r.size && r.s.o.Grows:
		r.size = max(r.size, min(2*r.size, deep))
	}
}

// read finds something to hand out, or waits for it.
func (r *reader) read(ctx context.Context, most int) error {
	r.batch.reset()
	r.next, r.held = 0, false
	switch {
	case r.own.on:
		return r.search(ctx, &r.own, 0, most)
	case r.claiming():
		return r.search(ctx, &r.idle, r.s.o.Lease, most)
	case !r.due.IsZero() && !r.due.After(time.Now()):
		return r.take(ctx, 0, "", most, nil)
	case r.busy && r.shut.IsZero():
		return r.readPacked(ctx, most)
	}
	wait := min(r.s.o.Block, time.Until(r.scanned.Add(r.s.o.ClaimEvery)))
	if !r.due.IsZero() {
		wait = min(wait, time.Until(r.due))
	}
	if r.idle.on {
		wait = min(wait, time.Until(r.pause))
	}
	if !r.shut.IsZero() { // probes are taken one by one: no read waits at the server for them
		wait = 0
	}
	return r.readNew(ctx, most, wait)
}

// fresh drops entries that were read and may belong to another source by now: this process
// may have slept. They are found again when they are idle.
func (r *reader) fresh() {
	ready := r.ready()
	if len(ready) == 0 {
		return
	}
	r.hold()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	kept := ready[:0]
	for _, e := range ready {
		switch h := r.s.held[e.place]; {
		case h.count != e.count: // it belongs to another
		case time.Since(h.at) < r.s.o.Lease*2/3:
			kept = append(kept, e)
		default:
			delete(r.s.held, e.place)
			r.s.missed = true
		}
	}
	clear(ready[len(kept):])
	r.batch.entries = r.batch.entries[:r.next+len(kept)]
}

// hold tells Keep of entries that are not handed out yet.
func (r *reader) hold() {
	if r.held {
		return
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, e := range r.ready() {
		r.s.held[e.place] = hold{e.count, r.at}
	}
	r.held = true
}

// hand hands out what is ready, as far as the gate allows.
func (r *reader) hand(ctx context.Context, into []*tidemill.Message) (int, error) {
	ready := r.ready()
	n, gated := min(len(into), len(ready)), !r.shut.IsZero()
	if n == 0 {
		return 0, nil
	}
	if n < len(ready) || gated {
		r.hold()
	}
	if gated {
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
	for i := range ready[:n] {
		e := &ready[i]
		s.outs[e.place] = out{count: e.count, probe: gated}
		if r.held {
			delete(s.held, e.place)
		}
		if e.count > 1 {
			s.left.drop(e.place)
		}
	}
	s.mu.Unlock()
	for i, m := range into[:n] {
		e := &ready[i]
		e.message(m, s.o.Stream)
		m.Mark.Epoch = epoch(turns, e.count)
	}
	if r.next += n; r.next == len(r.batch.entries) {
		r.batch.reset()
		r.next = 0
	}
	return n, nil
}

// epoch tells hand-outs of one entry apart.
func epoch(turns uint32, count int) uint32 {
	return turns<<turnBits | uint32(min(count, 1<<turnBits-1))
}

// turnBits are left to the count of an entry's hand-outs; the bits above count how often the
// group was made.
const turnBits = 20

// rest waits while the gate is closed and checks whether it still is.
func (r *reader) rest(ctx context.Context, wait time.Duration) error {
	if err := sleep.For(ctx, wait); err != nil {
		return err
	}
	return r.look(ctx)
}

// name is the consumer's.
func (s *Source) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer
}
