// Package sockets bounds the connections of a listener, in total and per address. Use it
// wherever strangers may connect, with any protocol.
//
//	l := sockets.Bound(raw, sockets.Options{Total: 4096})
//
// If a new connection has no room, one that waits for its client is closed for it, the longest
// in its state first: those that have sent nothing yet before those between two requests. A
// connection at work is never closed. So any number of silent connections keeps nobody out. A
// quarter of the room is for those that have sent nothing yet. Every connection begins as one
// of them: without that quarter, if others such as slow bodies had all the room, each new
// connection would be closed for the next before its header is read. The server sets by
// Conn.Mark what a connection is doing.
package sockets

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/internal/seldom"
)

// State is what a connection is doing. Lower states are closed first, except that Silent ones
// keep their quarter.
type State int

// The states.
const (
	Silent  State       = iota // has not sent yet what it wants: no whole header, no CONNECT
	Idle                       // between two requests, of a client without a key
	Sending                    // sends its request without a key; or its request is being answered
	Known                      // between two requests, of a client that has shown a key
	Busy                       // at work: never closed
	states  = int(Busy)        // that may be closed
)

// Names are the names in metrics of the states that may be closed.
var Names = [states]string{"silent", "idle", "sending", "known"}

// Options tune a Listener; the zero value is ready to use.
type Options struct {
	Total      int // open at once; 0 means 4096
	PerAddress int // of one address (of IPv6 a network of 64 bits); 0 means half of Total and at least 64, negative: any number
	Reserve    int // accepted beyond Total, and reported by Conn.Over; 0: none

	// Trusted are addresses without the limit PerAddress: proxies, which have many clients.
	Trusted []netip.Prefix

	HTTP bool // clients send HTTP: see Conn.Twofold

	Log *slog.Logger     // for closed and refused connections, at most a record a minute; nil discards
	Now func() time.Time // nil: time.Now
}

// fewest is the least default of Options.PerAddress.
const fewest = 64

// Stats are numbers for metrics.
type Stats struct {
	Open    int            // now
	Closed  [states]uint64 // to make room, by the state they were in
	Refused uint64         // because nothing could be closed for them
	Capped  uint64         // refused because their address had too many
}

// Listener is a net.Listener with bounded connections. Its connections are of type *Conn.
type Listener struct {
	net.Listener
	o   Options
	log *slog.Logger
	few *seldom.Counter // of what is logged

	mu    sync.Mutex // guards what follows; held for work in memory only
	all   crowd
	by    map[netip.Addr]*crowd
	stats Stats
}

// Bound bounds the connections of a listener, which it owns from now on.
func Bound(l net.Listener, o Options) *Listener {
	o.Total = cmp.Or(max(o.Total, 0), 4096)
	if o.PerAddress == 0 {
		o.PerAddress = max(o.Total/2, fewest)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Listener{Listener: l, o: o, by: map[netip.Addr]*crowd{},
		log: o.Log.With("address", l.Addr().String()), few: seldom.New(o.Now)}
}

// Stats reads the counters.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open = l.all.open
	return s
}

// Accept returns the next connection that has room, Silent.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if exhausted(err) && l.shed() { // of files
				continue
			}
			return nil, err
		}
		if c := l.admit(raw); c != nil {
			return c, nil
		}
		_ = raw.Close()
	}
}

// exhausted reports whether the process, or the machine, has no file left for a connection.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// shed closes the first that may be closed, and reports whether there was one.
func (l *Listener) shed() bool {
	l.mu.Lock()
	victim := l.evict(&l.all, l.o.Total)
	l.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Conn.Close()
	l.crowded("too many open files", "")
	return true
}

// admit counts a connection, and closes another one for it if needed. Nil: no room.
func (l *Listener) admit(raw net.Conn) *Conn {
	c := &Conn{Conn: raw, of: l, from: Network(raw.RemoteAddr()), state: Busy}
	c.inAll.of, c.inFrom.of = c, c
	victim, ok := l.enter(c)
	if victim != nil {
		_ = victim.Conn.Close()
	}
	if !ok || victim != nil {
		l.crowded("too many connections", c.from.String())
	}
	if !ok {
		return nil
	}
	return c
}

// crowded logs, once in a while, that there are too many connections; from is empty where no single
// address has them.
func (l *Listener) crowded(why, from string) {
	if n, due := l.few.Note(); due {
		// Logged when connections were closed to make room, or refused: the first at once, then at most
		// once a minute with the number since.
		// To do: see who connects (`tidemill_connections_closed_total`); raise `http.connections` or the
		// limit of open files if they are wanted.
		l.log.Warn("connections were closed or refused: there are too many", "count", n, "why", why, "sender", from)
	}
}

// enter is the part of admit in memory.
func (l *Listener) enter(c *Conn) (victim *Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.by[c.from]; a != nil && l.capped(c.from) && a.open >= l.o.PerAddress {
		if victim = l.evict(a, l.o.PerAddress); victim == nil {
			l.stats.Capped++
			return nil, false
		}
	}
	if victim == nil && l.all.open >= l.o.Total {
		if victim = l.evict(&l.all, l.o.Total); victim == nil && l.all.open >= l.o.Total+l.o.Reserve {
			l.stats.Refused++
			return nil, false
		}
	}
	a := l.by[c.from] // evict may have removed its last one
	if a == nil {
		a = new(crowd)
		l.by[c.from] = a
	}
	l.all.open++
	a.open++
	c.over = l.all.open > l.o.Total
	l.set(c, Silent)
	return victim, true
}

// capped reports whether PerAddress holds for an address.
func (l *Listener) capped(a netip.Addr) bool {
	if l.o.PerAddress < 0 || !a.IsValid() {
		return false
	}
	for _, p := range l.o.Trusted {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// newcomers is the part of the room for Silent ones: a quarter.
const newcomers = 4

// evict removes the first of a crowd, with room for so many, that may be closed; under mu.
func (l *Listener) evict(from *crowd, room int) *Conn {
	order := [...]State{Silent, Idle, Sending, Known}
	if from.waits[Silent].n <= room/newcomers {
		order = [...]State{Idle, Sending, Known, Silent}
	}
	for _, s := range order {
		if c := from.waits[s].first(); c != nil {
			l.stats.Closed[s]++
			l.leave(c)
			return c
		}
	}
	return nil
}

// leave removes a connection; under mu.
func (l *Listener) leave(c *Conn) {
	if c.gone {
		return
	}
	l.set(c, Busy)
	c.gone = true
	l.all.open--
	a := l.by[c.from]
	if a.open--; a.open == 0 {
		delete(l.by, c.from)
	}
}

// set changes the state of a connection; under mu.
func (l *Listener) set(c *Conn, s State) {
	if c.gone || c.state == s {
		return
	}
	if c.state != Busy {
		c.inAll.remove()
		c.inFrom.remove()
	}
	if c.state = s; s != Busy {
		l.all.waits[s].add(&c.inAll)
		l.by[c.from].waits[s].add(&c.inFrom)
	}
}

// Network is the origin of a connection, as it is counted: its address, of IPv6 the network of
// 64 bits. The zero address: unknown.
func Network(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return Group(tcp.AddrPort().Addr())
}

// Group is an address as it is counted.
func Group(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
