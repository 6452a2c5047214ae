package sockets_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
)

// peer is a connection from an address, which notes that it was closed.
type peer struct {
	net.Conn
	from   string
	closed bool
}

func (p *peer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.from))
}
func (p *peer) Close() error { p.closed = true; return nil }

// line is a listener with waiting connections.
type line struct {
	next []*peer
	err  error // when next is used up
}

func (l *line) Accept() (net.Conn, error) {
	if len(l.next) == 0 {
		err := l.err
		l.err = net.ErrClosed
		return nil, err
	}
	p := l.next[0]
	l.next = l.next[1:]
	return p, nil
}
func (l *line) Close() error   { return nil }
func (l *line) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// come makes peers connect, and returns the accepted connections.
func come(t *testing.T, l *sockets.Listener, at *line, peers ...*peer) (taken []*sockets.Conn) {
	t.Helper()
	at.next, at.err = peers, net.ErrClosed
	for {
		c, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
			return taken
		}
		taken = append(taken, c.(*sockets.Conn))
	}
}

func from(addresses ...string) (peers []*peer) {
	for _, a := range addresses {
		peers = append(peers, &peer{from: a})
	}
	return peers
}

func TestWhoIsClosedForANewConnection(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{Total: 6, PerAddress: -1})
	peers := from("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1", "10.0.0.6:1")
	c := come(t, l, at, peers...)
	if len(c) != 6 {
		t.Fatalf("%d of 6 were taken", len(c))
	}
	c[0].Mark(sockets.Busy)
	c[1].Vouch()
	c[1].Mark(sockets.Busy)
	c[1].Mark(sockets.Idle) // Known: it has shown a key
	c[2].Mark(sockets.Sending)
	c[3].Mark(sockets.Idle)
	// c[4] and c[5] are silent
	for i, want := range []int{4, 3, 2, 1, 5} { // the longest silent, the idle, the sending, the known, the silent one of the last quarter
		came := come(t, l, at, from("10.0.1.1:1")...)
		if len(came) != 1 {
			t.Fatalf("new connection %d was refused", i)
		}
		came[0].Mark(sockets.Busy)
		for j, p := range peers {
			if shut := p.closed; shut != (j == want) {
				t.Errorf("for new connection %d: number %d closed is %v; want number %d to be", i, j, shut, want)
			}
		}
		peers[want].closed = false
	}
	if came := come(t, l, at, from("10.0.1.2:1")...); len(came) != 0 {
		t.Error("one more was taken than Total, where all are at work")
	}
	s := l.Stats()
	if s.Open != 6 || s.Closed != [4]uint64{2, 1, 1, 1} || s.Refused != 1 || s.Capped != 0 {
		t.Errorf("%+v", s)
	}
	for _, one := range c { // connections closed for others are also closed by their server
		_ = one.Close()
		one.Mark(sockets.Idle)
	}
	if n := l.Stats().Open; n != 5 {
		t.Errorf("%d are open, want 5", n)
	}
}

// A new connection has sent nothing yet. It is not closed for the next ones before its header
// can be read, even if all others drip, or are between two requests.
func TestANewConnectionHasTimeToSpeak(t *testing.T) {
	for _, o := range []sockets.Options{{Total: 40, PerAddress: -1}, {Total: 1000, PerAddress: 40}} {
		for _, state := range []sockets.State{sockets.Idle, sockets.Sending, sockets.Known} {
			at := &line{}
			l := sockets.Bound(at, o)
			for range 40 {
				for _, c := range come(t, l, at, from("10.0.0.1:1")...) {
					c.Mark(state)
				}
			}
			honest := from("10.0.0.1:2")
			came := come(t, l, at, honest...)
			for i := range 9 { // a quarter, itself included
				come(t, l, at, from("10.0.0.1:3")...)
				if len(came) != 1 || honest[0].closed {
					t.Fatalf("%+v, others %d: it is closed for new connection %d", o, state, i)
				}
			}
			for range 1000 { // a flood of silent ones takes no more than that
				come(t, l, at, from("10.0.0.1:4")...)
			}
			if s := l.Stats(); s.Open != 40 || s.Closed[state] != 11 {
				t.Errorf("%+v, others %d: %+v; want 11 of them closed", o, state, s)
			}
		}
	}
}

func TestAnAddressHasItsShare(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{Total: 10, PerAddress: 5, Trusted: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	crowd := from("10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.1:4", "10.0.0.1:5")
	for _, c := range come(t, l, at, crowd...) {
		c.Mark(sockets.Busy)
	}
	if got := come(t, l, at, from("10.0.0.1:6")...); len(got) != 0 {
		t.Error("a sixth of one address is taken; want 5 at most")
	}
	if got := come(t, l, at, from("10.0.0.2:1")...); len(got) != 1 {
		t.Error("another address is kept out")
	}
	if got := come(t, l, at, from("10.9.0.1:1", "10.9.0.1:2", "10.9.0.1:3", "10.9.0.1:4", "10.9.0.1:5", "10.9.0.1:6")...); len(got) != 6 {
		t.Errorf("%d of 6 of a proxy are taken", len(got))
	}
	if s := l.Stats(); s.Capped != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAnAddressAtItsCapLosesItsOwn(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{Total: 10, PerAddress: 2})
	peers := from("10.0.0.7:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1")
	if got := come(t, l, at, peers...); len(got) != 4 {
		t.Fatalf("%d of 4 were taken", len(got))
	}
	for i, want := range []bool{false, true, false, false} { // a network of 64 bits is one address
		if peers[i].closed != want {
			t.Errorf("%s: closed is %v", peers[i].from, peers[i].closed)
		}
	}
}

func TestTheReserveIsToldFromTheRest(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{Total: 2, Reserve: 1, PerAddress: -1})
	c := come(t, l, at, from("10.0.0.1:1", "10.0.0.2:1")...)
	for _, c := range c {
		c.Mark(sockets.Busy)
	}
	over := come(t, l, at, from("10.0.0.3:1")...)
	if len(over) != 1 || !over[0].Over() || c[0].Over() {
		t.Fatalf("over Total: %d taken", len(over))
	}
	if next := come(t, l, at, from("10.0.0.4:1")...); len(next) != 1 || !next[0].Over() {
		t.Error("a silent one keeps the reserve")
	} else {
		_ = c[0].Close()
		if next[0].Over() {
			t.Error("it is over, though there is room now")
		}
	}
}

func TestWithoutFilesSilentOnesAreClosed(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{})
	silent := from("10.0.0.1:1")
	if got := come(t, l, at, silent...); len(got) != 1 {
		t.Fatal("it was not taken")
	}
	at.err = &net.OpError{Op: "accept", Err: syscall.EMFILE}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || !silent[0].closed {
		t.Errorf("Accept = %v, closed is %v; want the silent one closed, and the next try", err, silent[0].closed)
	}
	at.err = &net.OpError{Op: "accept", Err: syscall.EMFILE}
	if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Accept = %v; there was nothing to close", err)
	}
}

func TestAFloodIsLoggedOnce(t *testing.T) {
	at, log := &line{}, new(bytes.Buffer)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := sockets.Bound(at, sockets.Options{Total: 1, Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return now }})
	come(t, l, at, from("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1")...)
	now = now.Add(time.Minute)
	come(t, l, at, from("10.0.0.5:1")...)
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `count=1 why="too many connections" sender=10.0.0.2`) || !strings.Contains(got, `count=3 why="too many connections" sender=10.0.0.5`) {
		t.Errorf("the log:\n%s", got)
	}
}

// In any order of events, the open connections are those that were accepted and neither closed
// nor evicted.
func TestItCountsRight(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	at := &line{}
	l := sockets.Bound(at, sockets.Options{Total: 20, Reserve: 3, PerAddress: 8})
	addresses := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "[2001:db8::1]:1"}
	type one struct {
		peer *peer
		conn *sockets.Conn
	}
	var all []one
	for step := range 20_000 {
		switch p := from(addresses[random.IntN(len(addresses))])[0]; {
		case random.IntN(3) == 0:
			if c := come(t, l, at, p); len(c) == 1 {
				all = append(all, one{p, c[0]})
			}
		case len(all) == 0:
		case random.IntN(6) == 0:
			_ = all[random.IntN(len(all))].conn.Close()
		case random.IntN(6) == 0:
			all[random.IntN(len(all))].conn.Vouch()
		default:
			all[random.IntN(len(all))].conn.Mark(sockets.State(random.IntN(5)))
		}
		open, by := 0, map[string]int{}
		kept := all[:0]
		for _, o := range all {
			if !o.peer.closed {
				open++
				by[o.peer.from]++
				kept = append(kept, o)
			} else if random.IntN(2) == 0 {
				kept = append(kept, o) // its server continues with it
			}
		}
		all = kept
		if n := l.Stats().Open; n != open || n > 23 {
			t.Fatalf("step %d: %d are open, it says %d", step, open, n)
		}
		for a, n := range by {
			if n > 8 {
				t.Fatalf("step %d: %d of %s", step, n, a)
			}
		}
	}
}

func TestAContextCarriesAConnection(t *testing.T) {
	at := &line{}
	l := sockets.Bound(at, sockets.Options{})
	c := come(t, l, at, from("10.0.0.1:1")...)
	if len(c) != 1 || sockets.Of(sockets.With(t.Context(), c[0])) != c[0] {
		t.Error("it is not found again")
	}
	none := sockets.Of(sockets.With(context.Background(), &net.TCPConn{}))
	none.Mark(sockets.Idle)
	none.Vouch()
	if none != nil || none.Over() {
		t.Error("another connection is taken for one of ours")
	}
}
