package mqttbroker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

func start(t *testing.T, o mqttbroker.Options) *mqttbroker.Broker {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	b, err := mqttbroker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func open(t *testing.T, b *mqttbroker.Broker, o mqttconn.Options) *mqttconn.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := mqttconn.Open(ctx, []string{b.URL()}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, c) })
	return c
}

func shut(t *testing.T, c *mqttconn.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func numbers(n int, qos byte) []mqttconn.Message {
	out := make([]mqttconn.Message, n)
	for i := range out {
		out[i] = mqttconn.Message{Topic: "t", QoS: qos, Payload: strconv.AppendInt(nil, int64(i), 10)}
	}
	return out
}

// take receives n messages and acknowledges them.
func take(t *testing.T, c *mqttconn.Client, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []string
	into := make([]mqttconn.Delivery, 100)
	for len(got) < n {
		k, err := c.Receive(ctx, into[:min(len(into), n-len(got))])
		if err != nil {
			t.Fatalf("after %d of %d messages: %v", len(got), n, err)
		}
		for _, d := range into[:k] {
			got = append(got, string(d.Payload))
			c.Ack(d.Receipt)
		}
	}
	return got
}

func TestItRefusesToBeOpenToAll(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		if b, err := mqttbroker.Start(mqttbroker.Options{Addr: addr}); err == nil {
			_ = b.Close()
			t.Errorf("it listens on %s without users", addr)
		}
	}
	start(t, mqttbroker.Options{Addr: "0.0.0.0:0", Users: map[string]tidemill.Secret{"u": tidemill.NewSecret("p")}})
	for name, o := range map[string]mqttbroker.Options{
		"a user without a password": {Users: map[string]tidemill.Secret{"u": {}}}, "a queue of 70,000": {Queue: 70_000}, "negative clients": {Clients: -1},
	} {
		if b, err := mqttbroker.Start(o); err == nil {
			_ = b.Close()
			t.Errorf("%s is taken", name)
		}
	}
}

func TestUsers(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	b := start(t, mqttbroker.Options{Users: map[string]tidemill.Secret{"u": tidemill.NewSecret("right-secret")},
		Log: slog.New(slog.NewTextHandler(writer(func(p []byte) { mu.Lock(); defer mu.Unlock(); log.Write(p) }), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, version := range []byte{4, 5} {
		open(t, b, mqttconn.Options{Version: version, User: "u", Password: tidemill.NewSecret("right-secret")})
		for name, o := range map[string]mqttconn.Options{
			"wrong password": {User: "u", Password: tidemill.NewSecret("wrong-secret")}, "unknown user": {User: "v", Password: tidemill.NewSecret("right-secret")}, "nobody": {},
		} {
			o.Version = version
			if c, err := mqttconn.Open(t.Context(), []string{b.URL()}, o); tidemill.KindOf(err) != tidemill.Credentials {
				t.Errorf("MQTT %d, %s: %v, want credentials", version, name, err)
				if err == nil {
					shut(t, c)
				}
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "-secret") {
		t.Errorf("the log shows a password: %s", log.String())
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// A subscriber that does not acknowledge fills its queue. The publisher is then refused, no
// acknowledged message is dropped, and it goes on once there is room.
func TestASubscriberWithoutRoom(t *testing.T) {
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprint("MQTT ", version), func(t *testing.T) {
			b := start(t, mqttbroker.Options{Queue: 50, Patience: 50 * time.Millisecond})
			sub := open(t, b, mqttconn.Options{ClientID: "sub", Session: time.Hour, Version: version})
			if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 1}); err != nil {
				t.Fatal(err)
			}
			pub := open(t, b, mqttconn.Options{Version: version, MaxDelay: 20 * time.Millisecond})
			acked := 0
			for _, m := range numbers(60, 1) {
				err := pub.Publish(t.Context(), []mqttconn.Message{m})
				if err == nil {
					acked++
					continue
				}
				if version == 5 && tidemill.KindOf(err) != tidemill.RateLimit {
					t.Fatalf("refused as %v (%v), want rate limit", tidemill.KindOf(err), err)
				}
			}
			st := b.Stats()
			if acked != 50 || st.Dropped != 0 || st.Refused == 0 || st.Held == 0 {
				t.Fatalf("%d acknowledged, want 50; %+v", acked, st)
			}
			take(t, sub, 50)
			for tries := 0; ; tries++ {
				err := pub.Publish(t.Context(), numbers(1, 1))
				if err == nil {
					break
				}
				if tries == 100 {
					t.Fatal(err)
				}
			}
			take(t, sub, 1)
		})
	}
}

// A small window of the subscriber delays publishers without refusing: all arrive, in order.
func TestPublishersAreHeldBack(t *testing.T) {
	b := start(t, mqttbroker.Options{Patience: 20 * time.Second})
	sub := open(t, b, mqttconn.Options{Inbox: 10})
	if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		if err := open(t, b, mqttconn.Options{}).Publish(t.Context(), numbers(3000, 1)); err != nil {
			t.Error(err)
		}
	})
	for i, p := range take(t, sub, 3000) {
		if p != strconv.Itoa(i) {
			t.Fatalf("message %d is %s", i, p)
		}
	}
	publishing.Wait()
	if st := b.Stats(); st.Held == 0 || st.Dropped != 0 || st.Refused != 0 {
		t.Errorf("%+v", st)
	}
}

func TestSessionsAndRetainedMessages(t *testing.T) {
	b := start(t, mqttbroker.Options{})
	sub := open(t, b, mqttconn.Options{ClientID: "sub", Session: time.Hour})
	if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 2}); err != nil {
		t.Fatal(err)
	}
	shut(t, sub)
	pub := open(t, b, mqttconn.Options{})
	if err := pub.Publish(t.Context(), append(numbers(100, 1), mqttconn.Message{Topic: "kept", Payload: []byte("k"), QoS: 1, Retain: true})); err != nil {
		t.Fatal(err)
	}
	sub = open(t, b, mqttconn.Options{ClientID: "sub", Session: time.Hour})
	seen := map[string]bool{}
	for _, p := range take(t, sub, 100) {
		seen[p] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 messages waited for the subscriber", len(seen))
	}
	if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "kept", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	if got := take(t, sub, 1)[0]; got != "k" {
		t.Errorf("retained %q", got)
	}
	if st := b.Stats(); st.Clients != 2 || st.Subscriptions != 2 || st.Retained != 1 || st.Received < 101 || st.InFlight < 0 || st.InFlight > 2 {
		t.Errorf("%+v", st)
	}
}

func TestLimits(t *testing.T) {
	b := start(t, mqttbroker.Options{Packet: 2000, Clients: 2})
	c := open(t, b, mqttconn.Options{})
	if err := c.Publish(t.Context(), []mqttconn.Message{{Topic: "t", QoS: 1, Payload: make([]byte, 3000)}}); tidemill.KindOf(err) != tidemill.Validation {
		t.Errorf("a large message: %v, want validation", err)
	}
	open(t, b, mqttconn.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if third, err := mqttconn.Open(ctx, []string{b.URL()}, mqttconn.Options{}); err == nil {
		shut(t, third)
		t.Error("a third client is taken, of two")
	}
}

func TestCloseEndsConnections(t *testing.T) {
	b := start(t, mqttbroker.Options{})
	c := open(t, b, mqttconn.Options{Patience: 10 * time.Millisecond})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", b.Addr(), time.Second); err == nil {
		t.Error("it listens after Close")
	}
	if err := c.Publish(t.Context(), numbers(1, 1)); err == nil {
		t.Error("it takes messages after Close")
	}
}
