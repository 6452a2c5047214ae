// Package requests loads an HTTP server from connections that each send one request after the
// other. It writes and reads HTTP by hand, as its own CPU time is taken from the measured server.
package requests

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// ID stands in a request for its own id, which is another UUID each time.
var ID = uuid.Nil.String()

// Load is the connections.
type Load struct {
	clients []*client
}

type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	want    []byte
	ids     []int // where the request's own id is in it
	n       uint64
	base    uuid.UUID
}

// Post is a request with a JSON body. Its further headers end with \r\n each.
func Post(path, headers string, body []byte) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: shop\r\n%sContent-Type: application/json\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
}

// Open opens connections that send a request, which has to be answered with a status.
func Open(addr string, connections int, request []byte, status int) (*Load, error) {
	l := &Load{}
	for range connections {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			l.Close()
			return nil, err
		}
		c := &client{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), request: bytes.Clone(request), want: fmt.Appendf(nil, "HTTP/1.1 %d", status), base: uuid.New()}
		for at := 0; ; {
			i := bytes.Index(c.request[at:], []byte(ID))
			if i < 0 {
				break
			}
			c.ids = append(c.ids, at+i)
			at += i + len(ID)
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// Close closes the connections.
func (l *Load) Close() {
	for _, c := range l.clients {
		_ = c.conn.Close()
	}
}

// Run loads the server for a time and returns how long each request took.
func (l *Load) Run(d time.Duration) ([]time.Duration, error) {
	took := make([][]time.Duration, len(l.clients))
	errs := make([]error, len(l.clients))
	var wg sync.WaitGroup
	until := time.Now().Add(d)
	for i, c := range l.clients {
		wg.Go(func() { took[i], errs[i] = c.run(until) })
	}
	wg.Wait()
	var all []time.Duration
	for i := range took {
		if errs[i] != nil {
			return nil, errs[i]
		}
		all = append(all, took[i]...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing was answered within %v", d)
	}
	return all, nil
}

func (c *client) run(until time.Time) (took []time.Duration, err error) {
	took = make([]time.Duration, 0, 1<<14)
	for start := time.Now(); start.Before(until); {
		c.next()
		if _, err := c.conn.Write(c.request); err != nil {
			return nil, err
		}
		if err := c.answer(); err != nil {
			return nil, err
		}
		now := time.Now()
		took = append(took, now.Sub(start))
		start = now
	}
	return took, nil
}

// next writes another id into the request.
func (c *client) next() {
	c.n++
	id := c.base
	for i, n := 0, c.n; i < 6; i++ {
		id[15-i] = byte(n)
		n >>= 8
	}
	text := id.String()
	for _, at := range c.ids {
		copy(c.request[at:], text)
	}
}

var length = []byte("Content-Length: ")

// answer reads an answer, which has to have the status.
func (c *client) answer() error {
	size, first := 0, true
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first:
			if first = false; !bytes.HasPrefix(line, c.want) {
				return fmt.Errorf("answered %q", bytes.TrimSpace(line))
			}
		case bytes.HasPrefix(line, length):
			if size, err = strconv.Atoi(string(bytes.TrimSpace(line[len(length):]))); err != nil {
				return err
			}
		case len(line) <= 2:
			_, err = c.in.Discard(size)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
}
