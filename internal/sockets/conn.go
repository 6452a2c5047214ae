package sockets

import (
	"context"
	"net"
	"net/netip"
)

// Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	of            *Listener
	from          netip.Addr
	inAll, inFrom link
	lengths       lengths // with Options.HTTP

	// guarded by of.mu
	state State
	known bool // has shown a key
	over  bool // was accepted beyond Total
	gone  bool
}

// Close closes the connection and frees its slot.
func (c *Conn) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Mark sets what the connection is doing. One that has shown a key is Known instead of Idle or
// Sending. Nil is not a connection of ours.
func (c *Conn) Mark(s State) {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.known && (s == Idle || s == Sending) {
		s = Known
	}
	c.of.set(c, s)
}

// Vouch notes that the client has shown a valid key. Nil is not a connection of ours.
func (c *Conn) Vouch() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.known = true
}

// Over reports whether the connection uses the reserve: answer only what the reserve is for.
func (c *Conn) Over() bool {
	if c == nil {
		return false
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.all.open <= c.of.o.Total {
		c.over = false
	}
	return c.over
}

type key struct{}

// With puts a connection of a Listener into a context, for http.Server.ConnContext.
func With(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*Conn); ok {
		return context.WithValue(ctx, key{}, c)
	}
	return ctx
}

// Of is the connection in a context; nil: none.
func Of(ctx context.Context) *Conn {
	c, _ := ctx.Value(key{}).(*Conn)
	return c
}

// crowd counts connections, and lists those that may be closed by state, the longest in it
// first.
type crowd struct {
	open  int
	waits [states]queue
}

// queue is a list of connections that have the links themselves: it is written to several times
// in every request.
type queue struct {
	head, tail *link
	n          int
}

// link is the position of a connection in a queue.
type link struct {
	of         *Conn
	in         *queue
	prev, next *link
}

func (q *queue) first() *Conn {
	if q.head == nil {
		return nil
	}
	return q.head.of
}

func (q *queue) add(e *link) {
	q.n++
	e.in, e.prev, e.next = q, q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
}

func (e *link) remove() {
	e.in.n--
	if e.prev == nil {
		e.in.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		e.in.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
}
