package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// GatherOptions tune Gather; the zero value is ready to use.
type GatherOptions struct {
	Calls   int           // sent at once of each sort; 0 means 2
	Entries int           // of one call at most, where callers do not bring more; 0 means 100
	Timeout time.Duration // of a call; 0 means 10s
}

// Gather makes one call of those that come while others are under way: for many callers
// with an entry each, such as requests with idempotency keys. A caller that comes alone
// waits for nobody. The answer is as if the calls had come one after the other, but for
// the same holder that begins the same key in two of them: the second is Running.
//
// A call goes on when its caller's context ends: others are in it. An error is that of all
// who are.
func Gather(l Ledger, o GatherOptions) (Ledger, error) {
	if l == nil || o.Calls < 0 || o.Entries < 0 || o.Timeout < 0 {
		return nil, fmt.Errorf("gather calls of a ledger: want a ledger and no negative options, not %+v", o)
	}
	if o.Calls == 0 {
		o.Calls = 2
	}
	if o.Entries == 0 {
		o.Entries = 100
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	return &gather{Ledger: l, o: o, lines: map[sort]*line{}}, nil
}

type gather struct {
	Ledger
	o GatherOptions

	mu    sync.Mutex // guards lines and what is in them, never held across a call
	lines map[sort]*line
}

// sort is what calls must have in common to become one.
type sort struct {
	end   bool
	begin Begin
}

// line is calls of one sort; there is one while there are calls.
type line struct {
	leaders int
	waiting []*joined
}

// joined is a caller's call. Its entries are copies: the caller may leave.
type joined struct {
	es   []*Entry
	lead bool      // it is to lead, and out of the line
	turn chan turn // cap 1: it is told once
}

// turn tells a call that waits how it ended, or to lead.
type turn struct {
	lead bool
	err  error
}

// Begin implements Ledger.
func (g *gather) Begin(ctx context.Context, es []*Entry, o Begin) error {
	if err := CheckBegin(es); err != nil {
		return err
	}
	return g.join(ctx, sort{begin: o}, es)
}

// End implements Ledger.
func (g *gather) End(ctx context.Context, es []*Entry) error {
	if err := CheckEnd(es); err != nil {
		return err
	}
	return g.join(ctx, sort{end: true}, es)
}

func (g *gather) join(ctx context.Context, s sort, es []*Entry) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	own := make([]Entry, len(es))
	me := &joined{es: make([]*Entry, len(es)), turn: make(chan turn, 1)}
	for i, e := range es {
		own[i] = *e
		me.es[i] = &own[i]
	}
	t := turn{lead: true}
	if !g.enter(s, me) {
		select {
		case t = <-me.turn:
		case <-ctx.Done():
			if g.leave(s, me) {
				g.next(s) // it was to lead
			}
			return ctx.Err()
		}
	}
	if t.lead {
		t.err = g.lead(ctx, s, me)
	}
	if t.err != nil {
		return t.err
	}
	for i, e := range es {
		*e = own[i]
	}
	return nil
}

// enter says whether the caller is to lead at once; otherwise it waits in line.
func (g *gather) enter(s sort, me *joined) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[s]
	if l == nil {
		l = &line{}
		g.lines[s] = l
	}
	if l.leaders < g.o.Calls {
		l.leaders++
		return true
	}
	l.waiting = append(l.waiting, me)
	return false
}

// leave takes a call that waits out of the line. It says whether the call is to lead, and
// so must name another.
func (g *gather) leave(s sort, me *joined) (leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lines[s]; l != nil { // else it has ended
		l.waiting = slices.DeleteFunc(l.waiting, func(j *joined) bool { return j == me })
	}
	return me.lead
}

var errPanic = errors.New("the call of another panicked")

// lead sends the caller's call and those in line, and names the next to lead.
func (g *gather) lead(ctx context.Context, s sort, me *joined) (err error) {
	with := g.take(s, len(me.es))
	err = errPanic // unless the call returns
	defer func() {
		g.next(s)
		for _, j := range with {
			j.turn <- turn{err: err}
		}
	}()
	es := slices.Clone(me.es)
	for _, j := range with {
		es = append(es, j.es...)
	}
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
	defer cancel()
	if s.end {
		err = g.Ledger.End(one, es)
	} else {
		err = g.Ledger.Begin(one, es, s.begin)
	}
	return err
}

// take takes from the line what fits into a call beside so many entries.
func (g *gather) take(s sort, entries int) []*joined {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, n := g.lines[s], 0
	for ; n < len(l.waiting); n++ {
		if entries += len(l.waiting[n].es); entries > g.o.Entries {
			break
		}
	}
	with := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return with
}

// next ends one who leads: the first in line is told to.
func (g *gather) next(s sort) {
	g.mu.Lock()
	l := g.lines[s]
	var first *joined
	if len(l.waiting) > 0 {
		first = l.waiting[0]
		first.lead = true
		l.waiting = slices.Delete(l.waiting, 0, 1)
	} else if l.leaders--; l.leaders == 0 {
		delete(g.lines, s)
	}
	g.mu.Unlock()
	if first != nil {
		first.turn <- turn{lead: true}
	}
}
