// Package mqttsource takes in messages from an MQTT broker. Use it to process what devices
// or other systems publish.
//
//	c, err := mqttconn.Open(ctx, brokers, mqttconn.Options{ClientID: "ingest-1", Session: 24 * time.Hour})
//	src, err := mqttsource.New(ctx, c, mqttsource.Options{}, mqttconn.Subscription{Filter: "devices/+/events", QoS: 1})
//
// A message is acknowledged to the broker when its settlement ends it, never before. An
// unacknowledged message comes again when the connection breaks or the process ends, as
// long as the broker keeps the session: therefore the client needs its own ClientID, which
// stays the same, and a Session. QoS 0 and clean sessions are refused unless they are asked
// for.
//
// Data that MQTT cannot store is kept in memory and ends with the process: positions,
// failed tries, and the time of a delayed message. Its ID and its Mark are a number counted
// here: the same at every hand-out until the process ends, another one after. So nothing
// may identify a message by them for longer: not a ledger, nor a dead letter by its mark.
// For the same reason there are no durable books, and the source is not a Bookkeeper; Stats
// count what was received and settled since the start.
//
// Messages that are handed out, delayed or left count against the client's Inbox: when it
// is full the broker keeps the rest. A message that is Left comes again only after a break, and if
// the broker has lost the session by then, when the next message comes in.
//
// Acknowledgements leave in the order of settlement, not of arrival: else one delayed
// message would hold back all after it. Brokers look them up by packet id.
package mqttsource

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// Options tune a source; the zero value is ready to use.
type Options struct {
	// Lossy accepts subscriptions at QoS 0 and clients with a clean session: messages in
	// flight are lost when the connection or the process ends.
	Lossy   bool
	Headers bool             // user properties of MQTT 5 become Header
	Now     func() time.Time // nil means time.Now
}

// Stats are counters since the start.
type Stats struct {
	Received uint64         // messages that came in, each once
	Repeated uint64         // deliveries of messages that the source already had
	Settled  tidemill.Count // as they were settled
	Held     int            // handed out, delayed or left now
}

// Source is a tidemill.Source with Traits.Delays.
type Source struct {
	client *mqttconn.Client
	o      Options
	into   []mqttconn.Delivery // of one Receive
	topic  string              // the last one

	mu      sync.Mutex // guards what follows
	held    map[uint64]*entry
	packets map[uint16]*entry // of the session, not acknowledged for sure
	session uint32
	last    uint64
	due     dues
	acks    []mqttconn.Receipt
	free    []*entry
	sooner  chan struct{} // of one: something is due sooner than Receive knows
	stats   Stats
}

// entry is a message from its arrival until the broker can forget it.
type entry struct {
	delivery mqttconn.Delivery
	number   uint64
	topic    string
	at       time.Time // of arrival
	where    where
	when     time.Time // delayed until then
	place    int       // in due
	tries    int
	handed   int
}

type where uint8

const (
	out   where = iota // handed out
	off                // delayed
	left               // left
	ended              // settled, but the broker could not be told: it will send it again
)

// New subscribes and makes a source. Nothing else may receive from the client.
func New(ctx context.Context, c *mqttconn.Client, o Options, subs ...mqttconn.Subscription) (*Source, error) {
	if len(subs) == 0 {
		return nil, errors.New("mqtt source: name a topic filter to subscribe to")
	}
	if !o.Lossy {
		if c.Clean() {
			return nil, errors.New("mqtt source: with a clean session the broker forgets what was not acknowledged: set a Session, or Lossy where that is all right")
		}
		for _, s := range subs {
			if s.QoS == 0 {
				return nil, fmt.Errorf("mqtt source: the broker forgets what it sends at QoS 0: subscribe to %q at 1 or 2, or set Lossy where that is all right", s.Filter)
			}
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Source{client: c, o: o, held: map[uint64]*entry{}, packets: map[uint16]*entry{}, sooner: make(chan struct{}, 1)}
	if err := c.Subscribe(ctx, subs...); err != nil {
		return nil, fmt.Errorf("mqtt source: %w", err)
	}
	return s, nil
}

// Traits say that messages can be delayed.
func (s *Source) Traits() tidemill.Traits { return tidemill.Traits{Delays: true} }

// Stats reads the counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	for _, e := range s.held {
		if e.where != ended {
			st.Held++
		}
	}
	return st
}

// Receive hands out due retries and new messages. Payloads point into memory that belongs
// to the message until its settlement.
func (s *Source) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, wait := s.takeDue(into)
		if n > 0 {
			return n, nil
		}
		got, err := s.wait(ctx, wait, len(into))
		if err != nil {
			return 0, err
		}
		if n = s.takeNew(into, s.into[:got]); n > 0 {
			return n, nil
		}
	}
}

// wait waits for deliveries until something is due.
func (s *Source) wait(ctx context.Context, wait time.Duration, most int) (int, error) {
	for len(s.into) < most {
		s.into = append(s.into, mqttconn.Delivery{})
	}
	var due <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	return s.client.ReceiveOr(ctx, s.into[:most], s.sooner, due)
}

// takeDue hands out delayed messages that are due; wait is how long until the next is, or
// negative.
func (s *Source) takeDue(into []*tidemill.Message) (n int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	for ; n < len(into) && len(s.due) > 0 && !s.due[0].when.After(now); n++ {
		s.hand(heap.Pop(&s.due).(*entry), into[n])
	}
	if len(s.due) == 0 {
		return n, -1
	}
	return n, s.due[0].when.Sub(now)
}

// takeNew hands out deliveries of messages that the source does not have yet.
func (s *Source) takeNew(into []*tidemill.Message, got []mqttconn.Delivery) int {
	s.mu.Lock()
	n := 0
	for i := range got {
		if e := s.enter(&got[i]); e != nil {
			s.hand(e, into[n])
			n++
		}
	}
	acks := s.acks
	s.acks = nil
	s.mu.Unlock()
	s.client.Ack(acks...)
	return n
}

// enter makes an entry of a delivery, or returns nil where the source has its message and
// must not hand it out. A broker that sends an unacknowledged message again in one session
// uses the same packet id.
func (s *Source) enter(d *mqttconn.Delivery) *entry {
	r := d.Receipt
	if r.Session != s.session { // messages of an earlier session do not come again
		s.session = r.Session
		s.forget()
	}
	if e := s.packets[r.ID()]; e != nil {
		if d.Dup && bytes.Equal(e.delivery.Topic, d.Topic) && bytes.Equal(e.delivery.Payload, d.Payload) {
			s.stats.Repeated++
			e.delivery.Receipt = r
			switch e.where {
			case ended:
				s.acks = append(s.acks, r)
				s.drop(e)
			case left:
				return e
			}
			return nil
		}
		if e.where == ended { // the broker uses the id for another message
			s.drop(e)
		}
	}
	s.last++
	s.stats.Received++
	e := s.fresh()
	e.delivery, *d = *d, e.delivery
	if s.topic != string(e.delivery.Topic) {
		s.topic = string(e.delivery.Topic)
	}
	e.number, e.topic, e.at, e.where, e.tries, e.handed = s.last, s.topic, s.o.Now(), out, 0, 0
	s.held[e.number] = e
	if e.delivery.QoS > 0 {
		s.packets[r.ID()] = e
	}
	return e
}

// forget drops entries that only wait for a session that is gone. What was left would come again in
// it, and is due now.
func (s *Source) forget() {
	clear(s.packets)
	now := s.o.Now()
	for _, e := range s.held {
		switch e.where {
		case ended:
			s.drop(e)
		case left:
			e.where, e.when = off, now
			heap.Push(&s.due, e)
		}
	}
}

func (s *Source) fresh() *entry {
	if n := len(s.free); n > 0 {
		e := s.free[n-1]
		s.free = s.free[:n-1]
		return e
	}
	return new(entry)
}

// drop ends an entry and keeps its memory.
func (s *Source) drop(e *entry) {
	delete(s.held, e.number)
	if s.packets[e.delivery.Receipt.ID()] == e {
		delete(s.packets, e.delivery.Receipt.ID())
	}
	if len(s.free) < keepEntries {
		s.free = append(s.free, e)
	}
}

// keepEntries is how many entries' memory is kept for the next messages.
const keepEntries = 1000

// hand fills a message.
func (s *Source) hand(e *entry, m *tidemill.Message) {
	e.where = out
	e.handed++
	d := &e.delivery
	*m = tidemill.Message{ID: strconv.FormatUint(e.number, 10), To: e.topic, Payload: d.Payload, Header: m.Header[:0], Key: m.Key[:0],
		Time: e.at, Tries: e.tries, Handed: e.handed, Mark: tidemill.Mark{Epoch: uint32(e.handed), Lo: e.number}}
	if s.o.Headers {
		m.Header = d.User(m.Header)
	}
}

// Settle acknowledges ended messages to the broker. Without a connection it only notes
// them: the broker sends the messages again, and gets the acks then.
func (s *Source) Settle(_ context.Context, ends []tidemill.Settlement) error {
	now := s.o.Now()
	s.mu.Lock()
	var acks []mqttconn.Receipt
	var settled []*entry
	var numbers []uint64
	for i := range ends {
		end := &ends[i]
		e := s.find(end)
		if e == nil {
			end.Outcome = tidemill.Stale
			continue
		}
		end.Outcome = tidemill.Applied
		if e.where == off {
			heap.Remove(&s.due, e.place)
		}
		switch end.End {
		case tidemill.Done:
			s.stats.Settled.Add(end.Row())
			e.where = ended
			acks = append(acks, e.delivery.Receipt)
			settled, numbers = append(settled, e), append(numbers, e.number)
		case tidemill.Again:
			e.where, e.when = off, now.Add(end.After)
			if end.CountTry {
				e.tries++
			}
			heap.Push(&s.due, e)
		default:
			e.where = left
		}
	}
	wake := len(s.due) > 0
	s.mu.Unlock()
	good := s.client.AckEach(acks, nil)
	s.mu.Lock()
	for i, e := range settled {
		if s.held[numbers[i]] == e && (good[i] || s.packets[e.delivery.Receipt.ID()] != e) {
			s.drop(e)
		}
	}
	s.mu.Unlock()
	if wake {
		select {
		case s.sooner <- struct{}{}:
		default:
		}
	}
	return nil
}

// find returns the entry of a settlement: by its mark, or by its ID alone.
func (s *Source) find(end *tidemill.Settlement) *entry {
	number := end.Mark.Lo
	if end.Mark == (tidemill.Mark{}) {
		number, _ = strconv.ParseUint(end.ID, 10, 64) // what is no number is none that a message has
	}
	e := s.held[number]
	switch {
	case e == nil || e.where == ended:
		return nil
	case end.Mark == (tidemill.Mark{}):
		return e
	case e.where != out && e.where != left || end.Mark.Epoch != uint32(e.handed):
		return nil
	}
	return e
}
