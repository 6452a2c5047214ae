// Package gather lets concurrent callers share calls. Use it where a call costs as much as its
// content: a script, a transaction, a round trip. No caller waits for others to come. While the
// maximum of calls runs, callers wait, and the first of them then calls for all.
package gather

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Line is where callers meet. Set its fields before the first Join.
type Line[T any] struct {
	Calls int         // running at once; 0 means 1
	Most  int         // of Size in one call, unless a single caller brings more; 0: no bound
	Size  func(T) int // of a caller's item; nil: each is 1

	// Call does the work for several callers, in the order in which they came, and puts each
	// answer where its caller finds it. Its error is that of all of them. ctx is the leading
	// caller's: Call must not give up when it ends, as it works for others too.
	Call func(ctx context.Context, all []T) error

	mu      sync.Mutex // guards what follows; not held during a call
	flying  int
	waiting []*place[T]

	places sync.Pool // of unused *place[T]
}

// place is a caller's position in the line.
type place[T any] struct {
	item T
	turn chan turn // room for one: it is told once
}

// turn tells a waiting caller to lead, or how its call ended.
type turn struct {
	lead bool
	err  error
}

// ErrPanic is the error of callers whose call panicked in another's goroutine.
var ErrPanic = errors.New("the call of another panicked")

// Join makes item part of a call, and returns when that has ended. If ctx ends while the caller
// waits, Join returns the error of ctx. Once the item is in a call, Join waits for the call.
func (l *Line[T]) Join(ctx context.Context, item T) error {
	l.mu.Lock()
	if l.flying < max(l.Calls, 1) {
		l.flying++
		l.mu.Unlock()
		return l.lead(ctx, item)
	}
	me, ok := l.places.Get().(*place[T])
	if !ok {
		me = &place[T]{turn: make(chan turn, 1)}
	}
	me.item = item
	l.waiting = append(l.waiting, me)
	l.mu.Unlock()
	t, err := l.wait(ctx, me)
	var none T
	me.item = none // it has left the line, or its call has ended
	l.places.Put(me)
	if err != nil {
		return err
	}
	if t.lead {
		return l.lead(ctx, item)
	}
	return t.err
}

// wait returns a caller's turn, or the error of ctx if it left the line.
func (l *Line[T]) wait(ctx context.Context, me *place[T]) (turn, error) {
	gone := ctx.Done()
	if gone == nil {
		return <-me.turn, nil
	}
	select {
	case t := <-me.turn:
		return t, nil
	case <-gone:
		if l.leave(me) {
			return turn{}, ctx.Err()
		}
		return <-me.turn, nil // too late
	}
}

// leave removes a caller from the line, if it is in it.
func (l *Line[T]) leave(me *place[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, me)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// lead calls for the caller and those that wait, and names the next leader.
func (l *Line[T]) lead(ctx context.Context, item T) (err error) {
	with := l.take(item)
	err = ErrPanic // unless the call returns
	defer func() {
		l.next()
		for _, p := range with {
			p.turn <- turn{err: err}
		}
	}()
	all := make([]T, 1, 1+len(with))
	all[0] = item
	for _, p := range with {
		all = append(all, p.item)
	}
	err = l.Call(ctx, all)
	return err
}

// take removes from the line those that fit into a call beside item, in their order.
func (l *Line[T]) take(item T) []*place[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, l.size(item)
	for ; n < len(l.waiting); n++ {
		if size += l.size(l.waiting[n].item); l.Most > 0 && size > l.Most {
			break
		}
	}
	with := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return with
}

func (l *Line[T]) size(item T) int {
	if l.Size == nil {
		return 1
	}
	return l.Size(item)
}

// next ends a leader's turn: the first in line leads.
func (l *Line[T]) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.flying--
		return
	}
	l.waiting[0].turn <- turn{lead: true}
	l.waiting = slices.Delete(l.waiting, 0, 1)
}
