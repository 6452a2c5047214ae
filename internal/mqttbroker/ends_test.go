package mqttbroker_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// willed is a CONNECT packet of MQTT 3.1.1 with a clean session and a retained will.
func willed(id, topic, payload string) []byte {
	text := func(s string) []byte { return append([]byte{byte(len(s) >> 8), byte(len(s))}, s...) }
	body := append(text("MQTT"), 4, 0x20|0x04|0x02, 0, 60)
	for _, s := range []string{id, topic, payload} {
		body = append(body, text(s)...)
	}
	size := []byte{byte(len(body))}
	if len(body) > 127 {
		size = []byte{byte(len(body))&0x7f | 0x80, byte(len(body) >> 7)}
	}
	return append(append([]byte{0x10}, size...), body...)
}

// die logs in with a will, and disconnects abruptly.
func die(t *testing.T, b *mqttbroker.Broker, connect []byte) {
	t.Helper()
	c := say(t, b, connect)
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil || answer[3] != 0 {
		t.Fatalf("CONNECT with a will is answered % x, %v", answer, err)
	}
	_ = c.Close()
}

// settled asks the broker until a condition holds. Each try is a round trip of a client.
func settled(t *testing.T, b *mqttbroker.Broker, what string, holds func(mqttbroker.Stats) bool) {
	t.Helper()
	c := open(t, b, mqttconn.Options{})
	defer shut(t, c)
	for deadline := time.Now().Add(30 * time.Second); !holds(b.Stats()); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v", what, b.Stats())
		}
		if err := c.Publish(t.Context(), []mqttconn.Message{{Topic: "nobody", QoS: 1}}); err != nil {
			t.Fatal(err)
		}
	}
}

// The library does not check a will as it does messages: it is bounded when the client logs in.
func TestWillsAreBoundedAsMessagesAre(t *testing.T) {
	for name, o := range map[string]mqttbroker.Options{"by number": {Retained: 1}, "by size": {RetainedSize: 2000}} {
		b := start(t, o)
		sub := open(t, b, mqttconn.Options{})
		if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "#", QoS: 1}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			die(t, b, willed(fmt.Sprint("w-", i), fmt.Sprint("will/", i), "gone"))
			if got := take(t, sub, 1)[0]; got != "gone" { // also unretained ones
				t.Errorf("%s: the will is %q", name, got)
			}
		}
		settled(t, b, name+": one will is retained, of three", func(st mqttbroker.Stats) bool {
			return st.Retained == 1 && st.Over == 2 && st.RetainedSize > 0 && st.RetainedSize <= 2000
		})
	}
}

func TestAWillToWhereNobodyMayWriteIsNotSent(t *testing.T) {
	b := start(t, mqttbroker.Options{})
	sub := open(t, b, mqttconn.Options{})
	if err := sub.Subscribe(t.Context(), mqttconn.Subscription{Filter: "#"}, mqttconn.Subscription{Filter: "$x/#"}); err != nil {
		t.Fatal(err)
	}
	for i, topic := range []string{"$x/y", "$SYS/broker/version", strings.Repeat("/", 100), "good"} {
		die(t, b, willed(fmt.Sprint("w-", i), topic, topic))
	}
	if got := take(t, sub, 1)[0]; got != "good" {
		t.Errorf("a will to %q is sent", got)
	}
	settled(t, b, "the good will alone is retained", func(st mqttbroker.Stats) bool { return st.Retained == 1 })
}

// An expired session makes room: for sessions, for waiting messages, and its subscriptions go.
func TestASessionThatIsOverLeavesNothing(t *testing.T) {
	b := start(t, mqttbroker.Options{Sessions: 1, Session: time.Second, Waiting: 20_000, Patience: 10 * time.Millisecond})
	for i := range 2 {
		away := open(t, b, mqttconn.Options{ClientID: fmt.Sprint("away-", i), Session: time.Hour})
		if err := away.Subscribe(t.Context(), mqttconn.Subscription{Filter: "t", QoS: 1}); err != nil {
			t.Fatal(err)
		}
		shut(t, away)
		pub := open(t, b, mqttconn.Options{})
		if err := pub.Publish(t.Context(), []mqttconn.Message{{Topic: "t", QoS: 1, Payload: make([]byte, 15_000)}}); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		if err := pub.Publish(t.Context(), []mqttconn.Message{{Topic: "nobody", QoS: 1}}); err != nil { // the previous one is with its subscriber now
			t.Fatal(err)
		}
		if st := b.Stats(); st.Waiting < 15_000 {
			t.Fatalf("session %d: %+v", i, st)
		}
		shut(t, pub)
		settled(t, b, "nothing of it is left", func(st mqttbroker.Stats) bool {
			return st.Waiting == 0 && st.Sessions == 1 && st.Subscriptions == 0 && st.InFlight == 0
		})
	}
}
