package ingest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	chunk     = 128 << 10        // bytes that must arrive
	chunkTime = 10 * time.Second // within this: a client that is slower is not waited for
)

// read takes the request's body as it is sent, at most limit bytes.
func (x *exchange) read(limit int) *problem {
	if x.r.ContentLength > int64(limit) {
		return tooLarge("the body has %d bytes; at most %d are allowed", x.r.ContentLength, limit)
	}
	first := smallBuffer
	if n := x.r.ContentLength; n >= 0 {
		first = int(min(n+1, smallBuffer)) // a length is only said: memory comes with the bytes
	}
	buf := x.h.buffers.get(first)
	var p *problem
	if buf, p = x.fill(buf, limit); p != nil {
		x.h.buffers.put(buf)
		return p
	}
	x.use(buf)
	x.sent = len(buf)
	return nil
}

// fill reads the body to its end into buf.
func (x *exchange) fill(buf []byte, limit int) ([]byte, *problem) {
	control := http.NewResponseController(x.w)
	end := time.Now().Add(x.h.o.Limits.Body)
	deadline := func() { // not every server has deadlines
		t := time.Now().Add(chunkTime)
		if t.After(end) {
			t = end
		}
		_ = control.SetReadDeadline(t)
	}
	deadline()
	next := chunk
	for {
		if len(buf) == cap(buf) {
			larger := x.h.buffers.grow(buf, limit+1)
			if larger == nil {
				return buf, busy("memory", "too many large requests at once, please retry")
			}
			buf = larger
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return buf, tooLarge("the body has more than %d bytes", limit)
		case err == io.EOF:
			return buf, nil // here the server forgets the deadline
		case errors.Is(err, os.ErrDeadlineExceeded):
			return buf, &problem{status: http.StatusRequestTimeout, reason: "timeout",
				text: "the body came too slowly: " + chunkTime.String() + " for 128 KiB and " + x.h.o.Limits.Body.String() + " for all of it are the limits"}
		case err != nil:
			return buf, badRequest("the body ended early")
		case len(buf) >= next:
			next = len(buf) + chunk
			deadline()
		}
	}
}

// use makes buf the body, in the place of the one before.
func (x *exchange) use(buf []byte) {
	x.h.buffers.put(x.buf)
	x.buf, x.body = buf, buf
}
