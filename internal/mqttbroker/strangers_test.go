package mqttbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// say opens a connection and sends bytes.
func say(t *testing.T, b *mqttbroker.Broker, bytes []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write(bytes); err != nil {
		t.Fatal(err)
	}
	return c
}

// shutOut reports whether the broker closed a connection without an answer.
func shutOut(c net.Conn) bool {
	b, err := io.ReadAll(c)
	return len(b) == 0 && !errors.Is(err, os.ErrDeadlineExceeded)
}

// connect is a CONNECT packet of MQTT 3.1.1 with a clean session.
func connect(id string) []byte {
	b := []byte{0x10, byte(12 + len(id)), 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, byte(len(id))}
	return append(b, id...)
}

func TestBeforeCONNECTOnlySmallPacketsAreTaken(t *testing.T) {
	b := start(t, mqttbroker.Options{Connect: 20 * time.Second})
	for name, first := range map[string][]byte{
		"a CONNECT of 16 MiB":        {0x10, 0xfb, 0xff, 0xff, 0x07},
		"a CONNECT of 33 KiB":        {0x10, 0x80, 0x88, 0x02},
		"a PUBLISH":                  {0x30, 0x02, 0, 0},
		"a CONNECT with wrong flags": {0x13, 0x0c},
		"a length that never ends":   {0x10, 0xff, 0xff, 0xff, 0xff},
		"HTTP":                       []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		if !shutOut(say(t, b, first)) {
			t.Errorf("%s: the broker waits for more, or answers", name)
		}
	}
	if st := b.Stats(); st.Wrong != 6 || st.Late != 0 {
		t.Errorf("%+v", st)
	}
	c := say(t, b, connect("a"))
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil || !bytes.Equal(answer, []byte{0x20, 2, 0, 0}) {
		t.Errorf("a CONNECT as it is to be is answered % x, %v", answer, err)
	}
}

func TestACONNECTMayComeInPieces(t *testing.T) {
	b := start(t, mqttbroker.Options{})
	c := say(t, b, nil)
	packet := append(connect("piecemeal"), 0xc0, 0) // a PINGREQ behind it
	for i := range packet {
		if _, err := c.Write(packet[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	answer := make([]byte, 6)
	if _, err := io.ReadFull(c, answer); err != nil || !bytes.Equal(answer, []byte{0x20, 2, 0, 0, 0xd0, 0}) {
		t.Errorf("it is answered % x, %v", answer, err)
	}
}

func TestWhoSendsNoCONNECTIsClosed(t *testing.T) {
	b := start(t, mqttbroker.Options{Connect: 50 * time.Millisecond})
	for name, first := range map[string][]byte{"nothing": nil, "half a CONNECT": connect("abc")[:9]} {
		if !shutOut(say(t, b, first)) {
			t.Errorf("who sends %s stays", name)
		}
	}
	if st := b.Stats(); st.Late != 2 {
		t.Errorf("%+v", st)
	}
}

func TestWhoHasNotLoggedInMakesRoom(t *testing.T) {
	b := start(t, mqttbroker.Options{Clients: 5, PerAddress: -1, Connect: time.Hour})
	first := open(t, b, mqttconn.Options{ClientID: "first"})
	for range 100 {
		say(t, b, nil)
	}
	open(t, b, mqttconn.Options{ClientID: "second"})
	if err := first.Publish(t.Context(), numbers(1, 1)); err != nil {
		t.Errorf("who is logged in: %v", err)
	}
	if s := b.Sockets(); s.Open > 5+16 || s.Closed[0] == 0 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	for _, version := range []byte{4, 5} {
		b := start(t, mqttbroker.Options{Sessions: 3})
		for i := range 3 {
			shut(t, open(t, b, mqttconn.Options{ClientID: fmt.Sprint("kept-", i), Session: time.Hour, Version: version}))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if c, err := mqttconn.Open(ctx, []string{b.URL()}, mqttconn.Options{ClientID: "kept-3", Session: time.Hour, Version: version}); err == nil {
			shut(t, c)
			t.Errorf("MQTT %d: a fourth session is kept, of three", version)
		}
		cancel()
		open(t, b, mqttconn.Options{ClientID: "kept-1", Session: time.Hour, Version: version})
		open(t, b, mqttconn.Options{ClientID: "clean", Version: version})
		if st := b.Stats(); st.Over == 0 || st.Sessions != 4 {
			t.Errorf("MQTT %d: %+v", version, st)
		}
	}
}

func TestSubscriptionsAndLevelsAreBounded(t *testing.T) {
	b := start(t, mqttbroker.Options{})
	c := open(t, b, mqttconn.Options{MaxDelay: 20 * time.Millisecond})
	deep := strings.Repeat("/", 100)
	if err := c.Publish(t.Context(), []mqttconn.Message{{Topic: deep, QoS: 1}}); err == nil {
		t.Error("a topic of 101 levels is taken")
	}
	if err := c.Publish(t.Context(), []mqttconn.Message{{Topic: deep[1:], QoS: 1}}); err != nil {
		t.Errorf("a topic of 100 levels: %v", err)
	}
	other := open(t, b, mqttconn.Options{})
	var subs []mqttconn.Subscription
	for i := range 1000 {
		subs = append(subs, mqttconn.Subscription{Filter: fmt.Sprint("f/", i)})
	}
	if err := other.Subscribe(t.Context(), subs...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := other.Subscribe(ctx, mqttconn.Subscription{Filter: "one/more"}); err == nil {
		t.Error("subscription 1001 is taken")
	}
}

func TestRetainedMessagesAreBounded(t *testing.T) {
	keep := func(topic string, n int, qos byte) []mqttconn.Message {
		return []mqttconn.Message{{Topic: topic, QoS: qos, Retain: true, Payload: make([]byte, n)}}
	}
	for name, o := range map[string]mqttbroker.Options{"by number": {Retained: 3}, "by size": {RetainedSize: 3 * 11_000}} {
		b := start(t, o)
		c := open(t, b, mqttconn.Options{})
		for i := range 3 {
			if err := c.Publish(t.Context(), keep(fmt.Sprint("kept/", i), 9_000, 1)); err != nil {
				t.Fatalf("%s: message %d: %v", name, i, err)
			}
		}
		if err := c.Publish(t.Context(), keep("kept/3", 9_000, 1)); tidemill.KindOf(err) != tidemill.RateLimit {
			t.Errorf("%s: one more is answered %v; want rate limit", name, err)
		}
		for _, m := range [][]mqttconn.Message{keep("kept/4", 9_000, 0), keep("kept/1", 9_000, 1), keep("kept/0", 0, 1), keep("kept/5", 9_000, 1)} {
			if err := c.Publish(t.Context(), m); err != nil {
				t.Errorf("%s: %s, QoS %d: %v", name, m[0].Topic, m[0].QoS, err)
			}
		}
		if st := b.Stats(); st.Retained != 3 || st.Over != 2 || st.RetainedSize > 3*11_000 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// Messages that wait for absent subscribers are bounded in bytes, all together. Acknowledged
// ones are not dropped for it.
func TestWhatWaitsIsBounded(t *testing.T) {
	b := start(t, mqttbroker.Options{Waiting: 100_000, Patience: 10 * time.Millisecond})
	for i := range 2 {
		sub := open(t, b, mqttconn.Options{ClientID: fmt.Sprint("sub-", i), Session: time.Hour})
		if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 1}); err != nil {
			t.Fatal(err)
		}
		shut(t, sub)
	}
	pub := open(t, b, mqttconn.Options{})
	acked := 0
	for range 20 {
		err := pub.Publish(t.Context(), []mqttconn.Message{{Topic: "t", QoS: 1, Payload: make([]byte, 9_000)}})
		if err == nil {
			acked++
		} else if tidemill.KindOf(err) != tidemill.RateLimit {
			t.Fatal(err)
		}
	}
	st := b.Stats()
	if acked != 5 || st.Waiting > 100_000 || st.Waiting < 2*5*9_000 || st.Refused != 15 || st.Dropped != 0 {
		t.Fatalf("%d acknowledged, want 5 for each of two; %+v", acked, st)
	}
	for i := range 2 {
		sub := open(t, b, mqttconn.Options{ClientID: fmt.Sprint("sub-", i), Session: time.Hour})
		if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 1}); err != nil {
			t.Fatal(err)
		}
		take(t, sub, 5)
	}
	for tries := 0; b.Stats().Waiting > 0; tries++ { // its acknowledgements are in flight
		if tries == 10_000 {
			t.Fatalf("all was taken, and %d bytes wait", b.Stats().Waiting)
		}
		if err := pub.Publish(t.Context(), []mqttconn.Message{{Topic: "nobody", QoS: 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatTheBrokerTellsOfItselfIsForItsAdministrator(t *testing.T) {
	secret := tidemill.NewSecret("p")
	b := start(t, mqttbroker.Options{Users: map[string]tidemill.Secret{"u": secret, "admin": secret}, Admin: "admin"})
	for user, want := range map[string]bool{"u": false, "admin": true} {
		for _, filter := range []string{"$SYS/#", "$SYS/broker/version", "$share/g/$SYS/broker/+"} {
			c := open(t, b, mqttconn.Options{User: user, Password: secret})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := c.Subscribe(ctx, mqttconn.Subscription{Filter: filter}); (err == nil) != want {
				t.Errorf("%s subscribes to %s: %v", user, filter, err)
			}
			cancel()
		}
	}
	if _, err := mqttbroker.Start(mqttbroker.Options{Addr: "127.0.0.1:0", Admin: "admin"}); err == nil {
		t.Error("an administrator without a password is taken")
	}
}
