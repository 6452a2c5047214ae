package mqttconn

import (
	"sync"
	"time"
)

// A broker with TCP_NODELAY sends each acknowledgement by itself. Being woken for each costs
// more than all else: for us, and for the broker too, whose processor does the waking. So if
// many are awaited, the kernel wakes the reader for an eighth of the window together. With a
// thousand in flight, on Mosquitto: 2 µs a message of our processor, instead of 6 when reading
// what came in a millisecond, and 10 of the broker's instead of 12.5. With few in flight the
// reader does not wait.
const (
	many   = 128                  // messages in flight
	most   = 512                  // most acknowledgements that are awaited together
	least  = 4                    // bytes of one
	gather = 4 * time.Millisecond // longest wait: a thousand in flight at 60,000 a second take 16 ms
	doze   = time.Millisecond     // the wait if the kernel cannot count for us
)

// gatherer has the kernel wake the reader of a connection when enough has come.
type gatherer struct {
	l     *link
	ready func(fd uintptr) bool // look, made once

	want  int  // bytes that the next read waits for; these three belong to the reader's goroutine
	asked bool // look was called for it
	dozes bool // the kernel cannot count for us

	mu    sync.Mutex // guards all below; taken inside no other
	timer *time.Timer
	above bool // waking the reader needs more than one byte; then the timer is on
}

func newGatherer(l *link) *gatherer {
	g := &gatherer{l: l}
	g.ready = g.look
	return g
}

// await is called before each read, with the number of messages in flight. If they are many, it
// waits until enough has come, or some time has passed; it may return without anything to read.
func (g *gatherer) await(inFlight int) {
	switch {
	case g.l.raw == nil:
	case inFlight < many:
		g.enough()
	case g.dozes:
		time.Sleep(doze)
	default:
		_, bulk := g.l.limit(1)
		g.want = least * max(1, min(inFlight/2, bulk, most))
		if !g.l.plain { // bytes to be read may have left the socket already
			g.arm()
			return
		}
		g.asked = false
		_ = g.l.raw.Read(g.ready) // the next read has the same error
	}
}

// look reports whether something can be read. It is called before the first wait, too, and then
// reports what has come already, if that is enough.
func (g *gatherer) look(uintptr) bool {
	if g.asked {
		return true
	}
	g.asked = true
	g.arm()
	return g.dozes
}

// arm has the kernel wake the reader at want bytes, while the timer runs.
func (g *gatherer) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dozes = !wakeAt(g.l.raw, g.want); g.dozes {
		return
	}
	g.above = true
	if g.timer == nil {
		g.timer = time.AfterFunc(gather, g.late)
	} else {
		g.timer.Reset(gather)
	}
}

// late ends a wait that was too long. A broker without TCP_NODELAY may hold back the rest
// until TCP has acknowledged what came: see nudge.
func (g *gatherer) late() {
	quickack(g.l.raw)
	g.enough()
}

// enough ends the wait: any byte wakes the reader.
func (g *gatherer) enough() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.above {
		g.above = false
		g.timer.Stop()
		wakeAt(g.l.raw, 1)
	}
}
