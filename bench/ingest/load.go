package ingest

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

// load is connections that each send one request after the other. It writes and reads HTTP by
// hand, as its own CPU time is taken from the measured server.
type load struct {
	clients []*client
}

type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	ids     [][]byte // the position of the request's own id in it
	n       uint64
	base    uuid.UUID
}

// Members of a page view and of a purchase.
const (
	viewMembers     = `"eventType":"page_view","context":{"page":{"url":"https://shop.example/collections/shoes?utm_source=newsletter","title":"Shoes"}}`
	purchaseMembers = `"eventType":"purchase","orderId":"ID","value":149.9,"currency":"EUR","items":[{"id":"sku-1","quantity":1,"price":149.9}]`
)

func newLoad(addr string, o options, ids bool) (*load, error) {
	members := viewMembers
	if o.purchases {
		members = purchaseMembers
	}
	own := `"eventId":"ID"`
	if !ids {
		own = `"deviceId":"5f2a9f0e-6a51-4c7e-9a5e-0d3c8f1b7a64"`
	}
	id := []byte(uuid.Nil.String())
	body := bytes.ReplaceAll([]byte(`{`+members+`,`+own+`,"timestamp":"2026-11-21T19:00:00.123Z","siteId":"shop","sessionId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",`+
		`"userId":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`), []byte("ID"), id)
	request := fmt.Appendf(nil, "POST /v1/events HTTP/1.1\r\nHost: shop\r\nX-API-Key: %s\r\nX-Idempotency-Key: %s\r\nContent-Type: application/json\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", key, id, len(body), body)
	l := &load{}
	for range o.connections {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			l.close()
			return nil, err
		}
		c := &client{conn: conn, in: bufio.NewReaderSize(conn, 4<<10), request: bytes.Clone(request), base: uuid.New()}
		for at := 0; ; {
			i := bytes.Index(c.request[at:], id)
			if i < 0 {
				break
			}
			c.ids = append(c.ids, c.request[at+i:at+i+len(id)])
			at += i + len(id)
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.clients {
		_ = c.conn.Close()
	}
}

// run loads the server for a time and returns how long each request took.
func (l *load) run(d time.Duration) ([]time.Duration, error) {
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
		copy(at, text)
	}
}

var (
	accepted = []byte("HTTP/1.1 202")
	length   = []byte("Content-Length: ")
)

// answer reads an answer, which has to be a 202.
func (c *client) answer() error {
	size, first := 0, true
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case first:
			if first = false; !bytes.HasPrefix(line, accepted) {
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
