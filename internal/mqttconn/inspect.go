package mqttconn

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/tidemill/tidemill/internal/preflight"
)

// Inspect waits for the client's connection and checks what its broker said when it was made.
// MQTT cannot say everything, above all whether a broker keeps acknowledged messages through a
// crash: its operator has to know.
func Inspect(ctx context.Context, c *Client) []preflight.Finding {
	var all []preflight.Finding
	add := func(check, verdict, detail, advice string) {
		all = append(all, preflight.Finding{Check: "mqtt: " + check, Verdict: verdict, Detail: detail, Advice: advice})
	}
	err := c.Wait(ctx)
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		if err == nil {
			err = away(nil)
		}
		add("connection", preflight.Fail, err.Error(), "is the broker up, and are address, TLS, user and password right?")
		return all
	}
	version := map[byte]string{4: "3.1.1", 5: "5"}[l.version]
	if l.version < 5 {
		add("version", preflight.Warn, "MQTT "+version+": it cannot refuse a message, and says nothing of its limits", "use MQTT 5 where the broker speaks it")
	} else {
		add("version", preflight.OK, "MQTT "+version, "")
	}
	switch {
	case l.version < 5:
		add("receive maximum", preflight.OK, fmt.Sprintf("not known in MQTT 3.1.1; our window is %d", c.o.Window), "")
	case l.receive < min(c.o.Window, slowWindow):
		add("receive maximum", preflight.Warn, fmt.Sprintf("%d messages in flight, of the %d that we would have", l.receive, c.o.Window), "raise it (Mosquitto: max_inflight_messages)")
	default:
		add("receive maximum", preflight.OK, fmt.Sprintf("%d messages in flight; our window is %d", l.receive, c.o.Window), "")
	}
	if l.maxQoS < 2 {
		v := preflight.OK
		if l.maxQoS == 0 {
			v = preflight.Fail
		}
		add("maximum QoS", v, fmt.Sprint(l.maxQoS), "publish at this QoS at most; at 0 nothing is acknowledged")
	} else {
		add("maximum QoS", preflight.OK, "2", "")
	}
	if l.largest > 0 {
		add("maximum packet size", preflight.OK, fmt.Sprintf("%d bytes: larger messages fail", l.largest), "")
	} else {
		add("maximum packet size", preflight.OK, "the broker names none", "")
	}
	add("retained messages", preflight.OK, map[bool]string{true: "kept", false: "not kept"}[l.retain], "")
	if l.keepAlive != c.o.KeepAlive {
		add("keep alive", preflight.OK, fmt.Sprintf("%v, as the broker wants it, instead of %v", l.keepAlive, c.o.KeepAlive), "")
	}
	switch {
	case c.o.Session == 0:
		add("session", preflight.OK, "clean: what is in flight when a connection breaks is published again, and may arrive twice", "")
	case l.version < 5:
		add("session", preflight.OK, "kept by the broker as long as it likes", "")
	default:
		add("session", preflight.OK, "kept by the broker for "+c.o.Session.Round(time.Second).String(), "")
	}
	if !l.broker.TLS && !loopback(l.conn) {
		add("TLS", preflight.Warn, "off, and the broker is on another machine: passwords and messages can be read on the way", "use tls://")
	}
	add("durability", preflight.Warn, "MQTT does not tell whether the broker keeps acknowledged messages through a crash, nor how many it queues for a subscriber that is away",
		"look at the broker: persistence and the queue limits (Mosquitto: persistence, autosave_interval, max_queued_messages), or have the receivers acknowledge")
	return all
}

// slowWindow is a receive maximum below which a distant broker is slow: 100 in flight at
// 10 ms round trip are 10,000 messages a second.
const slowWindow = 100

// loopback reports whether the other end is this machine.
func loopback(c net.Conn) bool {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
