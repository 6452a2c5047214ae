package request

import (
	"math/bits"
	"net/netip"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
)

const (
	// Small is the size of a buffer that every request may have; larger ones are counted.
	Small   = 16 << 10
	classes = 7 // 16 KiB to 1 MiB are used again
)

// Limits bound what bodies take of this process.
type Limits struct {
	Memory  int64          // bytes of all bodies together, but for those of at most Small
	Ratio   int            // how many times larger inflating may make a body; the first MiB is free
	Time    time.Duration  // to send a body in. Beside it, ChunkTime is the limit for each 128 KiB.
	Trusted []netip.Prefix // proxies whose X-Forwarded-For is believed
}

// What of the memory may be out, so that nobody keeps others out with bodies that never end.
// An address that has one request may have as much as that needs, of what its sort may have.
const (
	ofStrangers = 2 // a half of it: for all requests that have shown no key
	ofStranger  = 4 // a quarter: for those of one address
	ofKnown     = 2 // a half: for requests with a key, of one address
)

// Bodies hands out memory for bodies and bounds how much of it is out at once: in all, for
// requests that have shown no key, and for those of one address. What every connection has
// is bounded by the number of connections. It may be used by many.
type Bodies struct {
	o         Limits
	classes   [classes]sync.Pool // of *[]byte, each twice the size of the one before
	boxes     sync.Pool          // of *[]byte that are empty, for those
	inflaters *inflaters

	mu   sync.Mutex // guards what follows; held for work in memory only
	out  account    // of all
	from map[netip.Addr]*account
}

// account is how many bytes of memory are out.
type account struct{ strangers, known int64 }

func (a *account) all() int64 { return a.strangers + a.known }

// of is the part of an account that is known, or is not.
func (a *account) of(known bool) *int64 {
	if known {
		return &a.known
	}
	return &a.strangers
}

// NewBodies makes Bodies.
func NewBodies(o Limits) *Bodies {
	return &Bodies{o: o, inflaters: newInflaters(), from: map[netip.Addr]*account{}}
}

// Out is how many bytes of memory are out.
func (b *Bodies) Out() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.all()
}

// class is the class of buffers with room for n bytes; classes and more: not kept.
func class(n int) int {
	if n <= Small {
		return 0
	}
	return bits.Len(uint((n - 1) / Small))
}

// charge counts memory for a body, or says that there is no room for it.
func (b *Bodies) charge(x *Body, n int64) bool {
	x.locate()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out.all()+n > b.o.Memory || !x.known && b.out.strangers+n > b.o.Memory/ofStrangers {
		return false
	}
	a := b.from[x.from]
	if a == nil {
		a = new(account)
	}
	share := b.o.Memory / ofStranger
	if x.known {
		share = b.o.Memory / ofKnown
	}
	used := a.of(x.known)
	if *used+n > share && *used > x.charged {
		return false
	}
	b.from[x.from] = a
	*used += n
	*b.out.of(x.known) += n
	x.charged += n
	return true
}

// refund takes back what was charged.
func (b *Bodies) refund(x *Body, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.from[x.from]
	*a.of(x.known) -= n
	*b.out.of(x.known) -= n
	if x.charged -= n; *a == (account{}) {
		delete(b.from, x.from)
	}
}

// Vouch notes that the request has shown a key that is known: what it has and takes is
// counted as such from now on.
func (x *Body) Vouch() {
	if x.known {
		return
	}
	sockets.Of(x.r.Context()).Vouch()
	b := x.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.known = true; x.charged == 0 {
		return
	}
	for _, a := range [...]*account{&b.out, b.from[x.from]} {
		a.strangers -= x.charged
		a.known += x.charged
	}
}

// locate finds where the request comes from, as it is counted.
func (x *Body) locate() {
	if !x.located {
		x.from, x.located = sockets.Group(Address(x.r, x.of.o.Trusted)), true
	}
}

// Get returns an empty buffer with room for n bytes, or nil if too much is out.
func (x *Body) Get(n int) []byte {
	c := class(n)
	size := n
	if c < classes {
		size = Small << c
	}
	if c > 0 && !x.of.charge(x, int64(size)) {
		return nil
	}
	if c < classes {
		if p, ok := x.of.classes[c].Get().(*[]byte); ok {
			buf := (*p)[:0]
			*p = nil
			x.of.boxes.Put(p)
			return buf
		}
	}
	return make([]byte, 0, size)
}

// Reserve counts memory that somebody else holds until Close, or says that there is no room
// for it.
func (x *Body) Reserve(n int64) bool {
	if !x.of.charge(x, n) {
		return false
	}
	x.reserved += n
	return true
}

// Put takes a buffer back that Get returned. Nil is fine.
func (x *Body) Put(buf []byte) {
	if buf == nil {
		return
	}
	c := class(cap(buf))
	if c > 0 {
		x.of.refund(x, int64(cap(buf)))
	}
	if c < classes {
		p, ok := x.of.boxes.Get().(*[]byte)
		if !ok {
			p = new([]byte)
		}
		*p = buf
		x.of.classes[c].Put(p)
	}
}

// grow returns a buffer with the same content and twice the room, but no more than most
// bytes, and takes the old one back. Nil: too much is out, and buf is still the caller's.
func (x *Body) grow(buf []byte, most int) []byte {
	n := x.Get(max(min(2*cap(buf), most), cap(buf)+1))
	if n == nil {
		return nil
	}
	n = append(n, buf...)
	x.Put(buf)
	return n
}
