// Package ring is a bounded queue that many goroutines put into and take from without a
// lock. Use it where a channel is too slow and blocking is arranged elsewhere: it never
// blocks, it says that it is full or empty.
//
// It is Vyukov's ring: every cell carries a turn, which says whose it is. On top of that
// it has batch operations, which claim many cells with one atomic operation, and it is
// strictly first in, first out: a TryGet that finds nothing was, at some instant of the
// call, looking at an empty ring, and likewise for a TryPut that finds no room. (The plain
// algorithm reports "empty" while a slower producer stands in front of a faster one.) The
// price is that such a call waits for the few instructions of the other goroutine.
//
// Memory is touched only where the ring has been: a large and little used ring is cheap.
package ring

import (
	"runtime"
	"sync/atomic"
)

// lineBytes keeps the two cursors on cache lines of their own, two lines apart because
// processors fetch lines in pairs. Cells are not padded: neighbours share a line, which
// costs a little when producers and consumers chase each other through an almost empty
// ring, and makes batches and large rings several times cheaper.
const lineBytes = 128

// A Ring holds up to Cap values. Use New.
type Ring[T any] struct {
	_     [lineBytes]byte
	head  atomic.Uint64 // next position to take
	_     [lineBytes - 8]byte
	tail  atomic.Uint64 // next position to put
	_     [lineBytes - 8]byte
	mask  uint64
	shift uint
	cells []cell[T]
}

// A cell at position p of lap n = p/cap is free to be put into at turn 2n and holds a
// value at turn 2n+1; taking it makes it 2n+2, free for the next lap. The zero value is
// right for lap 0.
type cell[T any] struct {
	turn  atomic.Uint64
	value T
}

// New makes a ring with room for at least n values: n is rounded up to a power of two,
// and to 1.
func New[T any](n int) *Ring[T] {
	r := &Ring[T]{}
	for 1<<r.shift < n {
		r.shift++
	}
	r.cells = make([]cell[T], 1<<r.shift)
	r.mask = uint64(len(r.cells) - 1)
	return r
}

// Cap is how many values fit.
func (r *Ring[T]) Cap() int { return len(r.cells) }

// Len is how many values the ring held at some instant of the call.
func (r *Ring[T]) Len() int {
	for {
		h := r.head.Load()
		t := r.tail.Load()
		if r.head.Load() == h {
			return int(t - h)
		}
	}
}

// TryPut puts a value last, or says that the ring is full.
func (r *Ring[T]) TryPut(v T) bool {
	for {
		t := r.tail.Load()
		c, free := &r.cells[t&r.mask], t>>r.shift*2
		switch turn := c.turn.Load(); {
		case turn == free:
			if r.tail.CompareAndSwap(t, t+1) {
				c.value = v
				c.turn.Store(free + 1)
				return true
			}
		case turn < free: // not taken out yet
			if r.full(t) {
				return false
			}
			runtime.Gosched()
		}
	}
}

// TryGet takes the first value, or says that the ring is empty.
func (r *Ring[T]) TryGet() (v T, ok bool) {
	for {
		h := r.head.Load()
		c, ready := &r.cells[h&r.mask], h>>r.shift*2+1
		switch turn := c.turn.Load(); {
		case turn == ready:
			if r.head.CompareAndSwap(h, h+1) {
				var zero T
				v, c.value = c.value, zero
				c.turn.Store(ready + 1)
				return v, true
			}
		case turn < ready: // not put in yet
			if r.tail.Load() == h {
				return v, false
			}
			runtime.Gosched()
		}
	}
}

// TryPutN puts as many of vs as there is room for, from the front and next to each other,
// and returns how many: at least one unless the ring is full or vs is empty. It may stop
// early where a consumer is just making room; put the rest again.
func (r *Ring[T]) TryPutN(vs []T) int {
	for len(vs) > 0 {
		t := r.tail.Load()
		n := 0
		for n < len(vs) && n < len(r.cells) && r.turn(t+uint64(n)) == (t+uint64(n))>>r.shift*2 {
			n++
		}
		switch {
		case n == 0:
			if r.full(t) {
				return 0
			}
			if r.turn(t) < t>>r.shift*2 {
				runtime.Gosched()
			}
		case r.tail.CompareAndSwap(t, t+uint64(n)):
			for i, v := range vs[:n] {
				p := t + uint64(i)
				c := &r.cells[p&r.mask]
				c.value = v
				c.turn.Store(p>>r.shift*2 + 1)
			}
			return n
		}
	}
	return 0
}

// TryGetN takes the first values into vs, as many as there are and fit, and returns how
// many: at least one unless the ring is empty or vs is. It may stop early where a producer
// is just putting one in.
func (r *Ring[T]) TryGetN(vs []T) int {
	var zero T
	for len(vs) > 0 {
		h := r.head.Load()
		n := 0
		for n < len(vs) && n < len(r.cells) && r.turn(h+uint64(n)) == (h+uint64(n))>>r.shift*2+1 {
			n++
		}
		switch {
		case n == 0:
			if r.tail.Load() == h {
				return 0
			}
			if r.turn(h) < h>>r.shift*2+1 {
				runtime.Gosched()
			}
		case r.head.CompareAndSwap(h, h+uint64(n)):
			for i := range vs[:n] {
				p := h + uint64(i)
				c := &r.cells[p&r.mask]
				vs[i], c.value = c.value, zero
				c.turn.Store(p>>r.shift*2 + 2)
			}
			return n
		}
	}
	return 0
}

func (r *Ring[T]) turn(p uint64) uint64 { return r.cells[p&r.mask].turn.Load() }

// full says whether the ring was full at this instant, the tail having been seen at t.
func (r *Ring[T]) full(t uint64) bool { return int64(t-r.head.Load()) >= int64(len(r.cells)) }
