package partnertest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Exchange is one request and the means to answer it.
type Exchange struct {
	Server *Server
	W      http.ResponseWriter
	R      *http.Request
	Body   []byte
}

// Work makes the partner answer as usual.
func (e *Exchange) Work() {
	e.R.Body = io.NopCloser(bytes.NewReader(e.Body))
	e.Server.own(e.W, e.R)
}

// A Step answers one request in place of the partner, or before it.
type Step func(*Exchange)

// Pass makes the partner answer.
func Pass() Step { return (*Exchange).Work }

// Status answers with a status and a body.
func Status(status int, body string) Step {
	return func(e *Exchange) {
		e.W.Header().Set("Content-Type", "application/json")
		e.W.WriteHeader(status)
		_, _ = io.WriteString(e.W, body)
	}
}

// RetryAfter answers with a status and a Retry-After header, any text.
func RetryAfter(status int, value string) Step {
	return func(e *Exchange) {
		e.W.Header().Set("Retry-After", value)
		e.W.WriteHeader(status)
	}
}

// Redirect redirects to the same place, for ever.
func Redirect() Step {
	return func(e *Exchange) {
		e.W.Header().Set("Location", "https://"+e.R.Host+e.R.URL.Path)
		e.W.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// Hold answers nothing until Release or until the client has gone.
func Hold() Step {
	return func(e *Exchange) {
		select {
		case <-e.Server.held:
		case <-e.R.Context().Done():
		}
	}
}

// ResetBeforeAnswer resets the connection once the request is read: nothing was done.
func ResetBeforeAnswer() Step { return func(e *Exchange) { e.reset(nil) } }

// LoseAnswer does what is asked and then resets the connection.
func LoseAnswer() Step {
	return func(e *Exchange) {
		w := e.W
		e.W = &forgotten{header: http.Header{}}
		e.Work()
		e.W = w
		e.reset(nil)
	}
}

// ResetInHeader resets the connection within the answer's header.
func ResetInHeader() Step {
	return func(e *Exchange) { e.reset([]byte("HTTP/1.1 200 OK\r\nContent-Ty")) }
}

// ResetInBody resets the connection within the answer's body.
func ResetInBody() Step {
	return func(e *Exchange) {
		e.reset([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"status\":"))
	}
}

// Garbage answers something that is not HTTP.
func Garbage() Step {
	return func(e *Exchange) {
		e.raw(func(c net.Conn) { _, _ = c.Write([]byte("\x16\x03\x01 SSH-2.0-garbage\n\n\n")) })
	}
}

// Endless answers 200 with a body in chunks that never ends.
func Endless() Step {
	return func(e *Exchange) {
		e.raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			chunk := []byte("8000\r\n" + strings.Repeat("\x00", 0x8000) + "\r\n")
			for {
				if _, err := c.Write(chunk); err != nil {
					return
				}
			}
		})
	}
}

// Huge answers with a status and a body of ten gigabytes.
func Huge(status int) Step {
	return func(e *Exchange) {
		e.raw(func(c net.Conn) {
			const size = 10 << 30
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n", status, int64(size))
			zeros := make([]byte, 64<<10)
			for n := 0; n < size; n += len(zeros) {
				if _, err := c.Write(zeros); err != nil {
					return
				}
			}
		})
	}
}

// bomb is 16 MB of zeros, packed: one member of a gzip text, which may have many.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 64<<10)
	for range (16 << 20) / len(zeros) {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	return b.Bytes()
})

// GzipBomb answers 200 with a gigabyte of zeros, packed.
func GzipBomb() Step {
	packed := bomb() // which takes a while, and no request waits for it
	return func(e *Exchange) {
		e.W.Header().Set("Content-Encoding", "gzip")
		e.W.Header().Set("Content-Type", "application/json")
		for range 64 {
			if _, err := e.W.Write(packed); err != nil {
				return
			}
		}
	}
}

// Zipped answers 200 with a packed body.
func Zipped(body string) Step {
	return func(e *Exchange) {
		e.W.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(e.W)
		_, _ = io.WriteString(z, body)
		_ = z.Close()
	}
}

// BigHeader answers 200 with a header of a megabyte.
func BigHeader() Step {
	return func(e *Exchange) {
		e.raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Big: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		})
	}
}

// Informing answers 200 after very many 1xx answers.
func Informing() Step {
	return func(e *Exchange) {
		e.raw(func(c net.Conn) {
			for range 100_000 {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
	}
}

// PartlyTaken makes the partner accept only some of a request's messages.
func PartlyTaken(p Partial) Step {
	return func(e *Exchange) {
		e.Server.mu.Lock()
		e.Server.partial = p
		e.Server.mu.Unlock()
		e.Work()
		e.Server.mu.Lock()
		e.Server.partial = Partial{}
		e.Server.mu.Unlock()
	}
}

// raw takes the connection over from HTTP and closes it at the end.
func (e *Exchange) raw(do func(net.Conn)) {
	h, ok := e.W.(http.Hijacker)
	if !ok {
		e.W.WriteHeader(http.StatusInternalServerError)
		return
	}
	c, _, err := h.Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	do(c)
}

// reset writes something and resets the connection.
func (e *Exchange) reset(first []byte) {
	e.raw(func(c net.Conn) {
		if len(first) > 0 {
			_, _ = c.Write(first)
		}
		under := c
		if t, ok := c.(interface{ NetConn() net.Conn }); ok {
			under = t.NetConn()
		}
		if t, ok := under.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
			_ = t.Close()
		}
	})
}

// forgotten is an answer that is never sent.
type forgotten struct{ header http.Header }

func (f *forgotten) Header() http.Header         { return f.header }
func (f *forgotten) Write(b []byte) (int, error) { return len(b), nil }
func (f *forgotten) WriteHeader(int)             {}
