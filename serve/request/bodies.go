package request

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Small is the size of a buffer that every request may have; larger ones are counted.
	Small   = 16 << 10
	classes = 7 // 16 KiB to 1 MiB are used again
)

// Limits bound what bodies take of this process.
type Limits struct {
	Memory int64         // bytes of all bodies together, but for those of at most Small
	Ratio  int           // how many times larger inflating may make a body; the first MiB is free
	Time   time.Duration // to send a body in. Beside it, ChunkTime is the limit for each 128 KiB.
}

// Bodies hands out memory for bodies and bounds how much of it is out at once. What every
// connection has is bounded by the number of connections. It may be used by many.
type Bodies struct {
	o         Limits
	out       atomic.Int64
	classes   [classes]sync.Pool // of *[]byte, each twice the size of the one before
	boxes     sync.Pool          // of *[]byte that are empty, for those
	inflaters *inflaters
}

// NewBodies makes Bodies.
func NewBodies(o Limits) *Bodies { return &Bodies{o: o, inflaters: newInflaters()} }

// Out is how many bytes of memory are out.
func (b *Bodies) Out() int64 { return b.out.Load() }

// class is the class of buffers with room for n bytes; classes and more: not kept.
func class(n int) int {
	if n <= Small {
		return 0
	}
	return bits.Len(uint((n - 1) / Small))
}

// Get returns an empty buffer with room for n bytes, or nil if too much is out.
func (b *Bodies) Get(n int) []byte {
	c := class(n)
	size := n
	if c < classes {
		size = Small << c
	}
	if c > 0 && b.out.Add(int64(size)) > b.o.Memory {
		b.out.Add(-int64(size))
		return nil
	}
	if c < classes {
		if p, ok := b.classes[c].Get().(*[]byte); ok {
			buf := (*p)[:0]
			*p = nil
			b.boxes.Put(p)
			return buf
		}
	}
	return make([]byte, 0, size)
}

// Reserve counts memory that somebody else holds, or says that there is no room for it.
func (b *Bodies) Reserve(n int64) bool {
	if b.out.Add(n) > b.o.Memory {
		b.out.Add(-n)
		return false
	}
	return true
}

// Release takes back what was reserved.
func (b *Bodies) Release(n int64) { b.out.Add(-n) }

// Put takes a buffer back that Get returned. Nil is fine.
func (b *Bodies) Put(buf []byte) {
	if buf == nil {
		return
	}
	c := class(cap(buf))
	if c > 0 {
		b.out.Add(-int64(cap(buf)))
	}
	if c < classes {
		p, ok := b.boxes.Get().(*[]byte)
		if !ok {
			p = new([]byte)
		}
		*p = buf
		b.classes[c].Put(p)
	}
}

// grow returns a buffer with the same content and twice the room, but no more than most
// bytes, and takes the old one back. Nil: too much is out, and buf is still the caller's.
func (b *Bodies) grow(buf []byte, most int) []byte {
	n := b.Get(max(min(2*cap(buf), most), cap(buf)+1))
	if n == nil {
		return nil
	}
	n = append(n, buf...)
	b.Put(buf)
	return n
}
