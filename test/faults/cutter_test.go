//go:build servers

package faults

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a link that loses answers: when a request contains one of some words, it reaches
// the server, and the connection is reset after k bytes of the server's answer.
type cutter struct {
	addr  string
	fired atomic.Int64

	to    string
	mu    sync.Mutex
	words []string
	every int // of matching requests, each so-many-th is cut
	bytes int // of the answer that get through
	seen  int
}

func newCutter(t testing.TB, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), to: to}
	var open sync.WaitGroup
	t.Cleanup(func() { l.Close(); open.Wait() })
	var (
		mu    sync.Mutex
		conns = map[net.Conn]bool{}
	)
	keep := func(n net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns[n] = true
	}
	t.Cleanup(func() { // before the one above
		mu.Lock()
		defer mu.Unlock()
		for n := range conns {
			n.Close()
		}
	})
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			keep(client)
			keep(server)
			open.Go(func() {
				c.carry(client, server)
				mu.Lock()
				defer mu.Unlock()
				delete(conns, client)
				delete(conns, server)
			})
		}
	})
	return c
}

// lose cuts the answer to every so-many-th request that contains one of the words after k
// bytes; no words: nothing is cut any more.
func (c *cutter) lose(every, k int, words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.words, c.every, c.bytes, c.seen = words, every, k, 0
}

// matches says after how many bytes to cut the answer to the bytes being sent; -1: not at all.
func (c *cutter) matches(sent []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, word := range c.words {
		if bytes.Contains(sent, []byte(word)) {
			if c.seen++; c.seen%c.every == 0 {
				return c.bytes
			}
			return -1
		}
	}
	return -1
}

// carry copies both ways until one side ends or the connection is cut.
func (c *cutter) carry(client, server net.Conn) {
	var left atomic.Int64 // bytes of the answer until the cut; negative: no cut
	left.Store(-1)
	var both sync.WaitGroup
	both.Go(func() {
		defer server.(*net.TCPConn).CloseWrite()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if k := c.matches(buffer[:n]); k >= 0 {
				left.CompareAndSwap(-1, int64(k))
			}
			if n > 0 {
				if _, err := server.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if k := left.Load(); n > 0 && k >= 0 {
			if int64(n) >= k { // the rest of it is lost
				_, _ = client.Write(buffer[:k])
				c.fired.Add(1)
				_ = client.(*net.TCPConn).SetLinger(0) // a reset, not an end
				break
			}
			left.Store(k - int64(n))
		}
		if n > 0 {
			if _, err := client.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			if err != io.EOF {
				_ = client.(*net.TCPConn).SetLinger(0)
			}
			break
		}
	}
	client.Close()
	server.Close()
	both.Wait()
}
