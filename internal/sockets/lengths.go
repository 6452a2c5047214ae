package sockets

import (
	"bytes"
	"net/http"
	"sync/atomic"
)

// lengths counts the lines of a client that say how long a body is: an HTTP server hides that a
// request has both kinds. Lines of bodies are counted too.
type lengths struct {
	line          []byte // the beginning of the current line, as much as is needed
	skip          bool   // enough of the current line has come
	length, coded atomic.Int64
}

var (
	contentLength    = []byte("content-length")
	transferEncoding = []byte("transfer-encoding")
)

// note looks at the bytes just read; from one goroutine at a time.
func (l *lengths) note(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if !l.skip {
			l.begun(part)
		}
		if end < 0 {
			return
		}
		l.line, l.skip, p = l.line[:0], false, p[end+1:]
	}
}

// begun looks at the beginning of a line.
func (l *lengths) begun(part []byte) {
	l.line = append(l.line, part[:min(len(part), len(transferEncoding)+1-len(l.line))]...)
	name, _, whole := bytes.Cut(l.line, []byte(":"))
	switch {
	case !whole:
		l.skip = len(l.line) > len(transferEncoding)
		return
	case bytes.EqualFold(name, contentLength):
		l.length.Add(1)
	case bytes.EqualFold(name, transferEncoding):
		l.coded.Add(1)
	}
	l.skip = true
}

// Twofold reports whether a request may have come with both a Content-Length and a
// Transfer-Encoding, where the server used one. Call it once for each request of a connection,
// in their order. Nil is not a connection of ours.
func (c *Conn) Twofold(r *http.Request) bool {
	if c == nil {
		return false
	}
	coded := len(r.TransferEncoding) > 0
	if coded {
		c.lengths.coded.Add(-1)
	} else if len(r.Header["Content-Length"]) > 0 {
		c.lengths.length.Add(-1)
	}
	if coded {
		return c.lengths.length.Load() > 0
	}
	return c.lengths.coded.Load() > 0
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.of.o.HTTP {
		c.lengths.note(p[:n])
	}
	return n, err
}
