//go:build unix

package bridgetest

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

var ofMQTT = []scenario{
	{"who connects, and how", []string{"MQTT_BROKERS", "MQTT_CLIENT_ID", "MQTT_USERNAME", "MQTT_PASSWORD", "MQTT_KEEP_ALIVE", "MQTT_CLEAN_SESSION", "MQTT_MESSAGE_CHANNEL_DEPTH"}, hello},
	{"quality of service", []string{"MQTT_QOS"}, qos},
	{"topics and what stands before them", []string{"MQTT_PUBLISH_TOPIC", "MQTT_SUBSCRIBE_TOPIC", "MQTT_CUSTOM_PREFIX"}, topics},
	{"a broker that takes connections and says nothing", []string{"MQTT_CONNECT_TIMEOUT"}, mqttConnectTimeout},
	{"a broker that ends connections", []string{"MQTT_MAX_RECONNECT_DELAY"}, reconnects},
	{"several connections that publish", []string{"MQTT_PUBLISHER_POOL_SIZE"}, publishers},
	{"messages in flight", []string{"MQTT_MAX_INFLIGHT"}, inflight},
	{"a broker that reads no more", []string{"MQTT_WRITE_TIMEOUT"}, writeTimeout},
}

func hello(t *testing.T, g *given) {
	r := g.start(t, env{"MQTT_CLIENT_ID": "the-bridge", "MQTT_USERNAME": "ann", "MQTT_PASSWORD": "secret-canary", "MQTT_KEEP_ALIVE": "1s",
		"MQTT_CLEAN_SESSION": "false", "MQTT_MESSAGE_CHANNEL_DEPTH": "7", "MQTT_SUBSCRIBE_TOPIC": "acks"})
	h := r.broker.hello()
	if c := h.Connect; c.ClientIdentifier != "the-bridge" || string(c.Username) != "ann" || string(c.Password) != "secret-canary" || c.Keepalive != 1 || c.Clean ||
		h.Properties.ReceiveMaximum != 7 || h.Properties.SessionExpiryInterval == 0 {
		t.Errorf("it said hello with %+v %+v", c, h.Properties)
	}
	eventually(t, "it gives a sign of life", func() bool { return r.broker.look(&r.broker.pings) > 0 })
	if strings.Contains(r.log.String(), "canary") {
		t.Error("the password is in the log")
	}

	second := newBroker(t, nil)
	quiet := g.prepare(t, env{"MQTT_CLEAN_SESSION": "true", "MQTT_KEEP_ALIVE": "1h", "MQTT_MESSAGE_CHANNEL_DEPTH": "0"})
	quiet.set("MQTT_BROKERS", "tcp://127.0.0.1:1,"+second.URL)
	quiet.add(1)
	quiet.run()
	h = second.hello() // the first one is not there
	if c := h.Connect; !c.Clean || c.Keepalive != 3600 || c.UsernameFlag || h.Properties.ReceiveMaximum < 100 || h.Properties.SessionExpiryInterval != 0 {
		t.Errorf("it said hello with %+v %+v", c, h.Properties)
	}
	eventually(t, "it publishes to the second broker", func() bool { return second.distinct() == 1 })
}

func qos(t *testing.T, g *given) {
	for n, q := range []string{"0", "1", "2"} {
		r := g.start(t, env{"MQTT_QOS": q, "MQTT_SUBSCRIBE_TOPIC": "acks"})
		r.broker.set(func() { r.broker.far = yes })
		r.add(20)
		eventually(t, "all is published and acknowledged", func() bool { return r.broker.distinct() == 20 && r.length() == 0 })
		for _, p := range r.broker.messages() {
			if int(p.QoS) != n || p.Retain {
				t.Errorf("published at QoS %d, retained: %v; want QoS %d and not retained", p.QoS, p.Retain, n)
			}
		}
		r.broker.set(func() {
			if len(r.broker.subs) == 0 || int(r.broker.subs[0].Qos) != n {
				t.Errorf("subscribed to %+v, want QoS %d", r.broker.subs, n)
			}
		})
	}
}

func topics(t *testing.T, g *given) {
	r := g.start(t, env{"MQTT_PUBLISH_TOPIC": "/devices/{device}/up", "MQTT_SUBSCRIBE_TOPIC": "/acks", "MQTT_CUSTOM_PREFIX": "site-1"})
	r.broker.set(func() { r.broker.far = yes })
	r.entry("device", "d1", "payload", "{}")
	eventually(t, "it is published and acknowledged", func() bool { return r.broker.distinct() == 1 && r.length() == 0 })
	if got := r.broker.messages()[0].Topic; got != "site-1/devices/d1/up" {
		t.Errorf("published to %q", got)
	}
	r.broker.set(func() {
		if len(r.broker.subs) != 1 || r.broker.subs[0].Filter != "site-1/acks" {
			t.Errorf("subscribed to %+v", r.broker.subs)
		}
	})
	alone := g.start(t, env{"MQTT_SUBSCRIBE_TOPIC": "none", "MQTT_PUBLISH_TOPIC": "up"})
	alone.add(1)
	eventually(t, "the broker's word ends it", func() bool { return alone.length() == 0 && alone.broker.distinct() == 1 })
	alone.broker.set(func() {
		if len(alone.broker.subs) != 0 || alone.broker.got[0].Topic != "up" {
			t.Errorf("subscribed to %+v, published %+v", alone.broker.subs, alone.broker.got)
		}
	})
}

func mqttConnectTimeout(t *testing.T, g *given) {
	begin := func(d string) *rig {
		r := g.prepare(t, env{"MQTT_CONNECT_TIMEOUT": d, "MQTT_MAX_RECONNECT_DELAY": "50ms"})
		r.broker.set(func() { r.broker.deaf = true })
		r.run()
		return r
	}
	short, long := begin("200ms"), begin("1h")
	eventually(t, "it tries again", func() bool { return len(short.broker.dials()) >= 4 })
	if n := len(long.broker.dials()); n != 1 {
		t.Errorf("%d connections, want the first one that still waits", n)
	}
}

func reconnects(t *testing.T, g *given) {
	begin := func(d string) *rig {
		r := g.prepare(t, env{"MQTT_MAX_RECONNECT_DELAY": d})
		r.broker.set(func() { r.broker.slams = true })
		r.run()
		return r
	}
	often, seldom := begin("100ms"), begin("1h")
	eventually(t, "it tries many times", func() bool { return len(often.broker.dials()) >= 60 })
	eventually(t, "it has doubled its waits", func() bool { return len(seldom.broker.dials()) >= 8 })
	gap := func(at []time.Time) time.Duration { return at[len(at)-1].Sub(at[len(at)-3]) } // twice: MQTT 3.1.1 is tried at once after 5
	if d := gap(seldom.broker.dials()); d < 300*time.Millisecond {
		t.Errorf("the last try came %v after the one before", d)
	}
	often.broker.set(func() { often.broker.slams = false })
	often.add(1)
	eventually(t, "it goes on", func() bool { return often.broker.distinct() == 1 })
}

func publishers(t *testing.T, g *given) {
	r := g.start(t, env{"MQTT_PUBLISHER_POOL_SIZE": "3", "MQTT_CLIENT_ID": "many", "RESOURCE_MAX_WORKERS": "6", "PIPELINE_BATCH_SIZE": "1"})
	r.add(300)
	eventually(t, "all is published", func() bool { return r.broker.distinct() == 300 })
	by := map[string]int{}
	for _, p := range r.broker.messages() {
		by[p.Client]++
	}
	if len(by) != 3 || by["many-1"] == 0 || by["many-2"] == 0 || by["many-3"] == 0 {
		t.Errorf("messages by client: %v", by)
	}
}

func inflight(t *testing.T, g *given) {
	r := g.prepare(t, env{"MQTT_MAX_INFLIGHT": "5", "PIPELINE_PROCESSING_TIMEOUT": "1h"})
	r.broker.set(func() { r.broker.silent = true })
	r.add(100)
	r.run()
	eventually(t, "some are in flight", func() bool { return r.broker.look(&r.broker.most) == 5 })
	never(t, 500*time.Millisecond, "more are in flight", func() bool { return r.broker.look(&r.broker.most) > 5 })
	r.broker.speak()
	eventually(t, "the rest follows", func() bool { return r.broker.distinct() == 100 && r.length() == 0 })
	if n := r.broker.look(&r.broker.most); n > 5 {
		t.Errorf("%d were in flight", n)
	}
}

func writeTimeout(t *testing.T, g *given) {
	begin := func(d string) *rig {
		r := g.prepare(t, env{"MQTT_WRITE_TIMEOUT": d, "PIPELINE_PROCESSING_TIMEOUT": "1h"})
		r.broker.set(func() { r.broker.stuck = true })
		big := strings.Repeat("x", 1<<20)
		for range 10 { // more than the buffers of both ends of a socket
			r.entry("payload", big)
		}
		r.run()
		return r
	}
	short, long := begin("1s"), begin("20s") // a stop waits for a write
	eventually(t, "it takes the connection for broken", func() bool { return short.broker.look(&short.broker.partings) >= 1 && len(short.broker.dials()) >= 2 })
	if n := long.broker.look(&long.broker.partings); n != 0 {
		t.Errorf("%d connections ended, though a write may take longer", n)
	}
	for _, r := range []*rig{short, long} {
		r.broker.set(func() { r.broker.stuck = false })
		r.broker.cut()
	}
	for _, r := range []*rig{short, long} {
		eventually(t, "all is published in the end", func() bool { return r.broker.distinct() == 10 && r.length() == 0 })
	}
}

// proxied is a link to the rig's broker.
func (r *rig) proxied() *testenv.Link {
	r.Helper()
	_, rest, _ := strings.Cut(r.broker.URL, "://")
	if _, _, err := net.SplitHostPort(rest); err != nil {
		r.Fatal(err)
	}
	l := testenv.NewLink(r, rest)
	r.env["MQTT_BROKERS"] = "tcp://" + l.Addr
	return l
}
