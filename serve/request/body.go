package request

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
)

const (
	chunk = 128 << 10 // bytes that must arrive
	// ChunkTime is how long 128 KiB of a body may take: a client that is slower is not
	// waited for.
	ChunkTime = 10 * time.Second
	// LargeTime is how long 128 KiB may take once a body has Large bytes, which take memory
	// that others want: 64 KiB a second.
	LargeTime = 2 * time.Second
	Large     = 1 << 20
)

// Body is the body of one request. It belongs to one goroutine; Close gives its memory back.
type Body struct {
	Bytes []byte // as read, or inflated
	Sent  int    // bytes as sent

	of       *Bodies
	r        *http.Request
	buf      []byte     // to be given back; Bytes lie in it
	from     netip.Addr // where it comes from, once located
	located  bool
	known    bool  // it has shown a key
	charged  int64 // bytes that are out for it
	reserved int64 // of them, by Reserve
}

// Open begins the body of a request, of a stranger until Vouch.
func (x *Body) Open(of *Bodies, r *http.Request) { *x = Body{of: of, r: r} }

// Close gives all memory back.
func (x *Body) Close() {
	x.Use(nil)
	if x.reserved > 0 {
		x.of.refund(x, x.reserved)
		x.reserved = 0
	}
}

// Read takes the request's body as it is sent, at most limit bytes.
func (x *Body) Read(w http.ResponseWriter, limit int) *Problem {
	r := x.r
	if r.ContentLength > int64(limit) {
		return TooLarge("the body has %d bytes; at most %d are allowed", r.ContentLength, limit)
	}
	first := Small
	if n := r.ContentLength; n >= 0 {
		first = int(min(n+1, Small)) // a length is only said: memory comes with the bytes
	}
	buf := x.Get(first)
	var p *Problem
	line := sockets.Of(r.Context())
	if !x.known {
		line.Mark(sockets.Sending)
	}
	buf, p = x.fill(w, buf, limit)
	line.Mark(sockets.Busy)
	if p != nil {
		x.Put(buf)
		return p
	}
	x.Use(buf)
	x.Sent = len(buf)
	return nil
}

// fill reads the body to its end into buf.
func (x *Body) fill(w http.ResponseWriter, buf []byte, limit int) ([]byte, *Problem) {
	c := newClock(w, x.of.o.Time)
	for {
		if len(buf) == cap(buf) {
			larger := x.grow(buf, limit+1)
			if larger == nil {
				return buf, NoRoom()
			}
			buf = larger
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return buf, TooLarge("the body has more than %d bytes", limit)
		case err == io.EOF:
			return buf, nil // here the server forgets the deadline
		case err != nil:
			return buf, c.ended(err)
		}
		c.read(n)
	}
}

// clock holds who sends a body to its time.
type clock struct {
	control *http.ResponseController
	within  time.Duration
	end     time.Time
	left    int // bytes until the next chunk has its time
	chunks  int // that have begun
}

func newClock(w http.ResponseWriter, within time.Duration) *clock {
	c := &clock{control: http.NewResponseController(w), within: within, end: time.Now().Add(within)}
	c.chunk()
	return c
}

// most is how long a chunk may take.
func (c *clock) most() time.Duration {
	if c.chunks*chunk >= Large {
		return LargeTime
	}
	return ChunkTime
}

// chunk begins the time of the next one.
func (c *clock) chunk() {
	t := time.Now().Add(c.most())
	c.chunks++
	if t.After(c.end) {
		t = c.end
	}
	c.left = chunk
	_ = c.control.SetReadDeadline(t) // not every server has deadlines
}

// read counts bytes that have come.
func (c *clock) read(n int) {
	if c.left -= n; c.left <= 0 {
		c.chunk()
	}
}

// ended says why a body ended before its end.
func (c *clock) ended(err error) *Problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &Problem{Status: http.StatusRequestTimeout, Reason: "timeout", Text: "the body came too slowly: " + ChunkTime.String() + " for 128 KiB (" + LargeTime.String() + " beyond 1 MiB) and " + c.within.String() + " for all of it are the limits"}
	}
	return BadRequest("the body ended early")
}

// Use makes buf, which Bodies gave, the body in the place of the one before.
func (x *Body) Use(buf []byte) {
	x.Put(x.buf)
	x.buf, x.Bytes = buf, buf
}
