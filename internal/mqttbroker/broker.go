// Package mqttbroker is an MQTT broker inside the process, for running a bridge or a test
// without installing one. It speaks MQTT 5 and 3.1.1.
//
//	b, err := mqttbroker.Start(mqttbroker.Options{Addr: "127.0.0.1:1883"})
//	defer b.Close()
//
// Sessions, retained messages and messages that wait for a subscriber are in memory only: they
// end with the process. A message that must outlive it stays at its source until the subscriber
// acknowledges it, or goes to a broker that keeps it.
//
// It acknowledges only messages that it can hold. If a subscriber has no room, the publisher is
// held back, and then refused (see Options.Patience). Messages that waited for an absent
// subscriber come all at once, perhaps in another order. Messages at QoS 0 that flood a
// subscriber that does not read replace others.
package mqttbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sockets"
)

// Options tune a broker; the zero value is ready to use.
type Options struct {
	Addr  string                     // host:port; empty means 127.0.0.1:1883; port 0 chooses a free one
	Users map[string]tidemill.Secret // passwords by user; none: any client may do everything, so only loopback addresses are allowed

	// Admin is the user who may read $SYS, the broker's own topics; empty: nobody.
	Admin string

	Clients    int           // most connections, including those before login; 0 means 1000. Beyond that, those before login are closed first.
	PerAddress int           // of one address; 0 means half of Clients and at least 64, negative: any number
	Connect    time.Duration // for a client to send its CONNECT, of at most 32 KiB; 0 means 10s

	InFlight int           // most unacknowledged messages of one publisher; 0 means 1024, at most 65,535
	Queue    int           // most messages that wait for one subscriber; 0 means 8192, at most 60,000
	Packet   int           // largest packet in bytes; 0 means 16 MiB
	Waiting  int64         // most bytes of messages at QoS 1 and 2 that wait for all subscribers, absent ones included; 0 means 256 MiB
	Sessions int           // most sessions kept for clients that come again; 0 means 1000. More are refused.
	Retained int           // most messages; 0 means 10,000. More are refused; at QoS 0 they are passed on and not retained.
	Session  time.Duration // how long the session of an absent client is kept; 0 means 24h

	// RetainedSize is how many bytes the retained messages may have; 0 means 64 MiB.
	RetainedSize int64

	Patience time.Duration // how long a publisher is held back for a subscriber without room, before it is refused; 0 means 5s

	Log *slog.Logger // nil discards
}

func (o *Options) fill() error {
	o.Addr = cmp.Or(o.Addr, "127.0.0.1:1883")
	for _, n := range []struct {
		field           *int
		otherwise, most int
		name            string
	}{
		{&o.Clients, 1000, 1 << 20, "Clients"}, {&o.InFlight, 1024, 65_535, "InFlight"},
		{&o.Sessions, 1000, 1 << 20, "Sessions"}, {&o.Retained, 10_000, 1 << 24, "Retained"},
		{&o.Queue, 8192, 60_000, "Queue"}, {&o.Packet, 16 << 20, 256<<20 - 1, "Packet"},
	} {
		if *n.field = cmp.Or(*n.field, n.otherwise); *n.field < 1 || *n.field > n.most {
			return fmt.Errorf("mqtt broker: %s is %d: want 1 to %d", n.name, *n.field, n.most)
		}
	}
	o.Waiting, o.RetainedSize = cmp.Or(o.Waiting, 256<<20), cmp.Or(o.RetainedSize, 64<<20)
	o.Connect = cmp.Or(o.Connect, 10*time.Second)
	if o.Waiting < 0 || o.RetainedSize < 0 || o.Connect < 0 {
		return errors.New("mqtt broker: Waiting, RetainedSize and Connect must not be negative")
	}
	if _, ok := o.Users[o.Admin]; o.Admin != "" && !ok {
		return errors.New("mqtt broker: Admin must be one of Users")
	}
	o.Session = cmp.Or(o.Session, 24*time.Hour)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	if o.Session < time.Second || o.Patience < 0 {
		return errors.New("mqtt broker: Session must be a second at least, Patience not negative")
	}
	for user, password := range o.Users {
		if user == "" || password.IsZero() {
			return errors.New("mqtt broker: every user needs a name and a password")
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// A Broker runs until Close.
type Broker struct {
	server   *mqtt.Server
	addr     string
	gate     *gate
	endpoint *listener
	close    sync.Once
	err      error
}

// Start listens and serves. Without users it refuses an address that others can reach.
func Start(o Options) (*Broker, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	o.Users = maps.Clone(o.Users)
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("mqtt broker: %w", err)
	}
	if a, ok := listener.Addr().(*net.TCPAddr); len(o.Users) == 0 && !(ok && a.IP.IsLoopback()) {
		_ = listener.Close()
		return nil, fmt.Errorf("mqtt broker: %s can be reached from other machines: set users and passwords, or listen on 127.0.0.1", o.Addr)
	}
	server := mqtt.New(&mqtt.Options{Capabilities: capabilities(o), Logger: slog.New(&quiet{log: o.Log}),
		ClientNetReadBufferSize: 16 << 10, ClientNetWriteBufferSize: 16 << 10, SysTopicResendInterval: 60})
	b := &Broker{server: server, addr: listener.Addr().String(), gate: newGate(server, o), endpoint: newEndpoint(server, listener, o)}
	if err := errors.Join(server.AddHook(b.gate, nil), server.AddListener(b.endpoint), server.Serve()); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("mqtt broker: %w", err)
	}
	return b, nil
}

func capabilities(o Options) *mqtt.Capabilities {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumClients = int64(o.Clients)
	c.ReceiveMaximum = uint16(o.InFlight)
	c.MaximumInflight = uint16(o.Queue + slack)
	c.MaximumClientWritesPending = int32(o.Queue + slack)
	c.MaximumPacketSize = uint32(o.Packet)
	c.MaximumSessionExpiryInterval = uint32(o.Session / time.Second)
	c.MaximumMessageExpiryInterval = int64(o.Session / time.Second)
	c.TopicAliasMaximum = 0
	return c
}

// slack is room for messages at QoS 0, which are not held back, and for those of publishers
// that found room at the same moment.
const slack = 1024

// Addr is where it listens, host:port.
func (b *Broker) Addr() string { return b.addr }

// URL is Addr in the form for clients.
func (b *Broker) URL() string { return "tcp://" + b.addr }

// Close accepts no more connections, disconnects clients and ends their connections.
func (b *Broker) Close() error {
	b.close.Do(func() {
		b.gate.end()
		b.err = b.server.Close()
	})
	return b.err
}

// Sockets are the numbers of its connections.
func (b *Broker) Sockets() sockets.Stats { return b.endpoint.Stats() }

// Stats are numbers for metrics.
type Stats struct {
	Clients       int64 // connected
	Subscriptions int64
	Retained      int64
	InFlight      int64 // messages at QoS 1 and 2 that wait for their acknowledgement, also of absent subscribers
	Received      int64 // messages published, since the start
	Sent          int64 // messages sent to subscribers
	Dropped       int64 // messages that a subscriber did not get: at QoS 0 it was too slow, above it had no free packet id
	Held          int64 // how often a publisher was held back
	Refused       int64 // messages refused because a subscriber, or all together, had no room

	Sessions     int64 // of clients, connected or not
	Waiting      int64 // waiting bytes, as Options.Waiting bounds them
	RetainedSize int64 // bytes, as Options.RetainedSize bounds them
	Over         int64 // sessions, subscriptions and retained messages beyond a limit, refused
	Late         int64 // connections closed because no CONNECT came in time
	Wrong        int64 // connections closed because of another packet, or of too large a CONNECT
}

// Stats reads the counters.
func (b *Broker) Stats() Stats {
	i := b.server.Info.Clone()
	// The library's own numbers count its $SYS topics, and are wrong after a session is taken
	// over.
	retained := b.server.Topics.Retained.Len() - len(b.server.Topics.Messages("$SYS/#"))
	inFlight := 0
	for _, cl := range b.server.Clients.GetAll() {
		inFlight += cl.State.Inflight.Len()
	}
	waiting, size := b.gate.inMemory()
	return Stats{Sessions: int64(b.server.Clients.Len()), Waiting: waiting, RetainedSize: size, Over: b.gate.bounds.refused.Load(),
		Late: b.endpoint.late.Load(), Wrong: b.endpoint.wrong.Load(), Clients: i.ClientsConnected, Subscriptions: i.Subscriptions, Retained: int64(retained), InFlight: int64(inFlight),
		Received: i.MessagesReceived, Sent: i.MessagesSent, Dropped: i.MessagesDropped + i.InflightDropped,
		Held: b.gate.held.Load(), Refused: b.gate.refused.Load()}
}
