package mqttconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
)

// A Client is a connection that is made again whenever it breaks. It is safe for concurrent
// use, except Receive: one call at a time.
type Client struct {
	o       Options
	brokers []Broker

	batches sync.Pool // of *batch
	stop    context.CancelFunc
	ended   chan struct{} // closed when run has ended
	arrive  chan struct{} // of one: the inbox has something
	room    chan struct{} // of one: the inbox has room again

	mu      sync.Mutex    // guards everything below; held for work in memory only
	link    *link         // nil: no connection
	why     error         // why there is none
	given   bool          // none for longer than Patience
	closing bool          // nothing more is accepted
	changed chan struct{} // closed and replaced when link, given or closing change
	epoch   uint32        // counts connections
	session uint32        // counts sessions
	stats   Stats

	out      []byte // encoded, to be written
	zero     []sent // messages at QoS 0 in it
	writing  []sent // those of the running write
	queue    []*batch
	waiting  int      // messages of queue that were not sent
	slots    []slot   // by packet id; 0 is not used
	free     []uint16 // packet ids
	inFlight int      // slots in use
	seq      uint64
	topic    string // the last one that was found valid
	ready    *batch // ended, to be told when mu is free

	subs     []Subscription // kept for the next connection
	requests requests
	inbox    inbox
}

// Stats are counters since the start, and the current state.
type Stats struct {
	Connected  bool
	Connects   uint64 // connections made
	Sent       uint64 // messages written, repetitions included
	Repeated   uint64 // messages sent again in a session that survived
	Acked      uint64 // messages that the broker acknowledged, at QoS 0 written
	Refused    uint64 // messages that it refused, or would have refused
	Lost       uint64 // messages in flight when a connection broke, not sent again
	InFlight   int    // messages at QoS 1 and 2 now
	Queued     int    // messages that wait to be sent
	Writes     uint64 // to the socket
	Reads      uint64 // from the socket
	Quickacks  uint64 // how often TCP was told to acknowledge at once
	Received   uint64 // messages that came in
	Inbox      int    // received messages that wait for Receive
	Unexpected uint64 // acknowledgements of nothing
}

// Start makes a client that connects to the first broker that answers, and keeps trying until
// Close. It does not wait: see Wait.
func Start(brokers []string, o Options) (*Client, error) {
	c, err := prepare(brokers, o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(ctx)
	return c, nil
}

// prepare makes a client that does nothing yet.
func prepare(brokers []string, o Options) (*Client, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	c := &Client{
		o: o, ended: make(chan struct{}), arrive: make(chan struct{}, 1), room: make(chan struct{}, 1),
		changed: make(chan struct{}),
		slots:   make([]slot, o.Window+1), requests: requests{open: map[uint16]*request{}, lastID: maxWindow}, inbox: newInbox(o.Inbox),
		batches: sync.Pool{New: func() any { return &batch{done: make(chan struct{}, 1)} }},
	}
	if len(brokers) == 0 {
		return nil, errors.New("mqtt: no broker: name one, as in tcp://localhost:1883")
	}
	for _, raw := range brokers {
		b, err := ParseBroker(raw)
		if err != nil {
			return nil, err
		}
		c.brokers = append(c.brokers, b)
	}
	for id := o.Window; id > 0; id-- {
		c.free = append(c.free, uint16(id))
	}
	return c, nil
}

// Open is Start and Wait: it returns a connected client, or why it cannot connect. It tries
// until ctx ends, but returns a broker's refusal (wrong password, wrong client id) at once.
func Open(ctx context.Context, brokers []string, o Options) (*Client, error) {
	c, err := Start(brokers, o)
	if err != nil {
		return nil, err
	}
	if err := c.Wait(ctx); err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// OpenSeveral opens n clients whose ids end in -1 to -n, if an id is set and n is above 1.
func OpenSeveral(ctx context.Context, n int, brokers []string, o Options) ([]*Client, error) {
	clients := make([]*Client, 0, n)
	for i := range n {
		one := o
		if n > 1 && o.ClientID != "" {
			one.ClientID += "-" + strconv.Itoa(i+1)
		}
		c, err := Open(ctx, brokers, one)
		if err != nil {
			for _, c := range clients {
				c.abort()
			}
			return nil, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// Wait waits until the client is connected. It returns early, with the reason, when ctx ends,
// when the broker refuses us, or when the client is closed.
func (c *Client) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		up, closing, why, changed := c.link != nil, c.closing, c.why, c.changed
		c.mu.Unlock()
		switch {
		case closing:
			return errClosed
		case up:
			return nil
		case why != nil && tidemill.KindOf(why) == tidemill.Credentials:
			return away(why)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if why == nil {
				return fmt.Errorf("connect to the MQTT broker: %w", context.Cause(ctx))
			}
			return tidemill.Fail(tidemill.KindOf(why), "connect to the MQTT broker: %w (%w)", why, context.Cause(ctx))
		}
	}
}

// Up reports whether the client is connected, and if not, why.
func (c *Client) Up() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		return true, nil
	}
	return false, away(c.why)
}

// Clean reports whether every connection begins with a clean session.
func (c *Client) Clean() bool { return c.o.Session == 0 }

// Stats reads the counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Connected, s.InFlight, s.Queued, s.Inbox = c.link != nil, c.inFlight, c.waiting, c.inbox.count
	return s
}

// Close accepts nothing more, waits until everything accepted is acknowledged or ctx ends,
// disconnects from the broker and ends the connection. Unacknowledged messages are reported to
// their callers. A session that outlives its connection stays at the broker.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	if first {
		c.notify()
	}
	c.mu.Unlock()
	select {
	case c.arrive <- struct{}{}: // Receive ends
	default:
	}
	err := c.drained(ctx)
	c.abort()
	return err
}

// drained waits until nothing is in flight.
func (c *Client) drained(ctx context.Context) error {
	for {
		c.mu.Lock()
		idle := c.inFlight == 0 && c.waiting == 0 && len(c.out)+len(c.zero)+len(c.writing) == 0 || c.link == nil
		left, changed := c.inFlight+c.waiting, c.changed
		c.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("close the MQTT client with %d messages not acknowledged: %w", left, context.Cause(ctx))
		}
	}
}

// abort ends the connection and waits for the client's goroutines.
func (c *Client) abort() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.stop()
	<-c.ended
}

// notify wakes all waiters; under mu.
func (c *Client) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// run connects, serves the connection until it breaks, and begins again.
func (c *Client) run(ctx context.Context) {
	defer close(c.ended)
	defer c.end()
	patience := time.AfterFunc(c.o.Patience, c.giveUp)
	defer patience.Stop()
	for tries := 0; ; tries++ {
		l, err := c.connect(ctx, c.brokers[tries%len(c.brokers)])
		if err == nil {
			patience.Stop()
			since := time.Now()
			c.up(l)
			// Logged each time a client has connected to the broker; `session` says whether the broker
			// kept its session.
			c.o.Log.Info("connected to the MQTT broker", "broker", l.broker.Addr, "version", l.version, "session", l.present, "receive_maximum", l.quota)
			err = c.serve(ctx, l)
			if time.Since(since) > steady {
				tries = -1
			}
			patience.Reset(c.o.Patience)
		}
		if ctx.Err() != nil {
			return
		}
		c.down(err)
		delay := c.delay(tries)
		// Logged when a connection to the broker ended, or could not be made; the next of the brokers
		// is tried.
		// To do: see whether the broker is up, and whether address, TLS, user and password are right.
		c.o.Log.Warn("no connection to the MQTT broker", "error", err, "again_in", delay.Round(time.Millisecond))
		if sleep.For(ctx, delay) != nil {
			return
		}
	}
}

// steady is how long a connection has to last for the next one to be tried at once: the reason
// of a shorter one may come again.
const steady = 10 * time.Second

// delay before the next try: it doubles from firstDelay to MaxDelay, and half of it is random.
func (c *Client) delay(tries int) time.Duration {
	d := float64(firstDelay) * math.Pow(2, float64(min(max(tries, 0), 30)))
	d = min(d, float64(c.o.MaxDelay))
	return time.Duration(d * (0.5 + c.o.Rand()/2))
}

// up starts using a connection.
func (c *Client) up(l *link) {
	c.mu.Lock()
	c.link, c.why, c.given = l, nil, false
	c.epoch++
	l.epoch = c.epoch
	c.stats.Connects++
	c.out, c.zero = c.out[:0], c.zero[:0]
	if !l.present {
		c.session++
		clear(c.inbox.releasing)
	} else { // if the session is gone the inbox is all that is left
		c.inbox.dropRepeated()
	}
	c.resubscribe(l)
	c.resume(l)
	c.pump()
	c.notify()
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
	l.signal()
}

// down reports the messages of the broken connection.
func (c *Client) down(why error) {
	c.mu.Lock()
	c.why = why
	if c.link != nil {
		c.link = nil
		c.endZero(tidemill.Fail(tidemill.Unknown, "the connection broke while it was written: %w", why))
		c.suspend(why)
		c.requests.fail()
	}
	c.out = c.out[:0]
	if tidemill.KindOf(why) == tidemill.Credentials {
		c.refuseQueue(why)
	}
	c.notify()
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
}

// giveUp ends the waiting for a connection: from now on messages are refused at once.
func (c *Client) giveUp() {
	c.mu.Lock()
	if c.link == nil && !c.closing {
		c.given = true
		c.refuseQueue(c.why)
		c.abandonFlights(c.why)
		c.notify()
	}
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
}

// end reports everything that is left when the client ends.
func (c *Client) end() {
	c.mu.Lock()
	c.closing, c.link, c.why = true, nil, errClosed
	c.endZero(tidemill.Fail(tidemill.Unknown, "it was not written for sure: %w", error(errClosed)))
	c.refuseQueue(errClosed)
	c.abandonFlights(errClosed)
	c.requests.fail()
	c.notify()
	ready := c.takeReady()
	c.mu.Unlock()
	tell(ready)
}

// refuseQueue fails every message that was not sent; under mu.
func (c *Client) refuseQueue(why error) {
	for _, b := range slices.Clone(c.queue) {
		c.failRest(b, away(why))
	}
}
