package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/gather"
)

// GatherOptions tune Gather; the zero value is ready to use.
type GatherOptions struct {
	Calls   int           // calls sent at once of each sort; 0 means 2
	Entries int           // of one call at most, where callers do not bring more; 0 means 100
	Timeout time.Duration // of a call; 0 means 10s
}

// Gather combines calls that come while others are under way into one. Use it for many
// callers with an entry each, such as requests with idempotency keys. A single caller never
// waits. The answer is the same as if the calls had come one after the other, with one
// exception: when the same holder begins the same key in two of them, the second is Running.
//
// A call goes on when its caller's context ends: it serves other callers too. An error is
// returned to all of them. Begins share calls where their options are the same. Use few
// different options: Gather keeps something for each.
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
	g := &gathered{Ledger: l, o: o, begins: map[Begin]*line{}}
	g.ends = g.line(l.End)
	return g, nil
}

// GatherStore is Gather for a whole store: Find, Range and Expire pass through directly.
func GatherStore(s Store, o GatherOptions) (Store, error) {
	g, err := Gather(s, o)
	if err != nil {
		return nil, err
	}
	return struct {
		Ledger
		Log
		Expirer
	}{g, s, s}, nil
}

// line combines calls of one sort.
type line = gather.Line[[]*Entry]

type gathered struct {
	Ledger
	o    GatherOptions
	ends *line

	mu     sync.Mutex // guards begins
	begins map[Begin]*line
}

func (g *gathered) line(do func(context.Context, []*Entry) error) *line {
	return &line{Calls: g.o.Calls, Most: g.o.Entries, Size: func(es []*Entry) int { return len(es) },
		Call: func(ctx context.Context, all [][]*Entry) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
			defer cancel()
			return do(ctx, slices.Concat(all...))
		}}
}

// beginning is the line for Begins with the same options.
func (g *gathered) beginning(o Begin) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.begins[o]
	if l == nil {
		l = g.line(func(ctx context.Context, es []*Entry) error { return g.Ledger.Begin(ctx, es, o) })
		g.begins[o] = l
	}
	return l
}

// Begin implements Ledger.
func (g *gathered) Begin(ctx context.Context, es []*Entry, o Begin) error {
	if err := CheckBegin(es); err != nil {
		return err
	}
	return join(ctx, g.beginning(o), es)
}

// End implements Ledger.
func (g *gathered) End(ctx context.Context, es []*Entry) error {
	if err := CheckEnd(es); err != nil {
		return err
	}
	return join(ctx, g.ends, es)
}

// join adds copies of entries to a call: after an error the entries are unchanged.
func join(ctx context.Context, l *line, es []*Entry) error {
	if err := ctx.Err(); err != nil || len(es) == 0 {
		return err
	}
	own, mine := make([]Entry, len(es)), make([]*Entry, len(es))
	for i, e := range es {
		own[i] = *e
		mine[i] = &own[i]
	}
	if err := l.Join(ctx, mine); err != nil {
		return err
	}
	for i, e := range es {
		*e = own[i]
	}
	return nil
}
