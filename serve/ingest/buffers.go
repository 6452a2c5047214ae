package ingest

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	smallBuffer = 16 << 10 // every request may have one; larger ones are counted
	classes     = 7        // 16 KiB to 1 MiB are used again
)

// buffers hands out memory for bodies and bounds how much of it is out at once. What
// every connection has is bounded by the number of connections.
type buffers struct {
	limit   int64
	out     atomic.Int64
	classes [classes]sync.Pool // of *[]byte, each twice the size of the one before
}

// class is the class of buffers with room for n bytes; classes and more: not kept.
func class(n int) int {
	if n <= smallBuffer {
		return 0
	}
	return bits.Len(uint((n - 1) / smallBuffer))
}

// get returns an empty buffer with room for n bytes, or nil if too much is out.
func (b *buffers) get(n int) []byte {
	c := class(n)
	size := n
	if c < classes {
		size = smallBuffer << c
	}
	if c > 0 && b.out.Add(int64(size)) > b.limit {
		b.out.Add(-int64(size))
		return nil
	}
	if c < classes {
		if p, ok := b.classes[c].Get().(*[]byte); ok {
			return (*p)[:0]
		}
	}
	return make([]byte, 0, size)
}

// reserve counts memory that somebody else holds, or says that there is no room for it.
func (b *buffers) reserve(n int64) bool {
	if b.out.Add(n) > b.limit {
		b.out.Add(-n)
		return false
	}
	return true
}

// release takes back what was reserved.
func (b *buffers) release(n int64) { b.out.Add(-n) }

// put takes a buffer back that get returned. Nil is fine.
func (b *buffers) put(buf []byte) {
	if buf == nil {
		return
	}
	c := class(cap(buf))
	if c > 0 {
		b.out.Add(-int64(cap(buf)))
	}
	if c < classes {
		b.classes[c].Put(&buf)
	}
}

// grow returns a buffer with the same content and twice the room, but no more than most
// bytes, and takes the old one back. Nil: too much is out, and buf is still the caller's.
func (b *buffers) grow(buf []byte, most int) []byte {
	n := b.get(max(min(2*cap(buf), most), cap(buf)+1))
	if n == nil {
		return nil
	}
	n = append(n, buf...)
	b.put(buf)
	return n
}
