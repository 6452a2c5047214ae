// Package sockets bounds the connections of a listener, in all and of each address. Use it
// wherever strangers may connect, whatever they speak then.
//
//	l := sockets.Bound(raw, sockets.Options{Total: 4096})
//
// Where there is no room for a new connection, one that waits for its client is closed for
// it, the longest in its state first: those that have said nothing yet before those between
// two requests. Who works is never closed. So silent sockets keep nobody out, however many
// there are. A quarter of the room is for those that have said nothing yet: every connection
// begins as one of them, and where others, such as dripping bodies, have all the room, each new
// one would be closed for the next before its header is read. The server tells by Conn.Mark what
// a connection is doing.
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

// State is what a connection is doing. Those of a lower one are closed first, but for
// Silent ones where they have no more than their quarter.
type State int

// The states.
const (
	Silent  State       = iota // has not said yet what it wants: no whole header, no CONNECT
	Idle                       // between two requests, of a client that has shown no key
	Sending                    // sends what its request has, without a key; or its request is answered
	Known                      // between two requests, of a client that has shown a key
	Busy                       // at work: never closed
	states  = int(Busy)        // that may be closed
)

// Names are the states that may be closed as metrics call them.
var Names = [states]string{"silent", "idle", "sending", "known"}

// Options tune a Listener; the zero value is ready to use.
type Options struct {
	Total      int // open at once; 0 means 4096
	PerAddress int // of one address (of IPv6 a network of 64 bits); 0 means half of Total and 64 at least, negative: as many as there are
	Reserve    int // more than Total that are taken, and told by Conn.Over; 0: none

	// Trusted are addresses for which PerAddress does not hold: proxies, behind which many are.
	Trusted []netip.Prefix

	HTTP bool // what clients send is HTTP: see Conn.Twofold

	Log *slog.Logger     // told of what is closed and refused, a record a minute at most; nil discards
	Now func() time.Time // nil: time.Now
}

// fewest connections of one address are taken where Options.PerAddress says nothing.
const fewest = 64

// Stats are numbers for metrics.
type Stats struct {
	Open    int            // now
	Closed  [states]uint64 // to make room, by the state they were in
	Refused uint64         // because nothing could be closed for them
	Capped  uint64         // refused because their address had too many
}

// Listener is a net.Listener whose connections are bounded. Every net.Conn of it is a *Conn.
type Listener struct {
	net.Listener
	o   Options
	log *seldom.Log

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
		log: seldom.New(o.Log.With("listen", l.Addr().String()), o.Now, "connections were closed or refused: there are too many")}
}

// Stats reads the counters.
func (l *Listener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open = l.all.open
	return s
}

// Accept returns the next connection that there is room for, Silent.
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

// exhausted says whether the process, or the machine, has no file left for a connection.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// shed closes the first that may be, and says whether there was one.
func (l *Listener) shed() bool {
	l.mu.Lock()
	victim := l.evict(&l.all, l.o.Total)
	l.mu.Unlock()
	if victim == nil {
		return false
	}
	_ = victim.Conn.Close()
	l.log.Note("why", "too many open files")
	return true
}

// admit counts a connection, and closes another one for it where that is needed. Nil: there
// is no room.
func (l *Listener) admit(raw net.Conn) *Conn {
	c := &Conn{Conn: raw, of: l, from: Network(raw.RemoteAddr()), state: Busy}
	c.inAll.of, c.inFrom.of = c, c
	victim, ok := l.enter(c)
	if victim != nil {
		_ = victim.Conn.Close()
	}
	if !ok || victim != nil {
		l.log.Note("last_from", c.from.String())
	}
	if !ok {
		return nil
	}
	return c
}

// enter is admit as far as it is in memory.
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
	a := l.by[c.from] // evict may have taken the last of it away
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

// capped says whether PerAddress holds for an address.
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

// newcomers is the part of the room, a quarter, that is for Silent ones.
const newcomers = 4

// evict takes out the first of a crowd, with room for so many, that may be closed; under mu.
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

// leave takes a connection out; under mu.
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

// Network is where a connection comes from, as it is counted: its address, of IPv6 the
// network of 64 bits. The zero address: not known.
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
