//go:build unix

package bridgetest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/systems"
)

var ofStrangers = []scenario{
	{"the bounds of the embedded broker", []string{"TIDEMILL_BRIDGE_BROKER_ADMIN_USER", "TIDEMILL_BRIDGE_BROKER_ADMIN_PASSWORD",
		"TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS", "TIDEMILL_BRIDGE_BROKER_CONNECT_TIMEOUT", "TIDEMILL_BRIDGE_BROKER_SESSIONS",
		"TIDEMILL_BRIDGE_BROKER_WAITING", "TIDEMILL_BRIDGE_BROKER_RETAINED", "TIDEMILL_BRIDGE_BROKER_RETAINED_SIZE"}, bounds},
	{"the connections of the embedded broker", []string{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS"}, connections},
}

// embeddedAt runs an embedded bridge with these settings, and returns the address of its broker.
func embeddedAt(t *testing.T, g *given, settings env) string {
	addr := "127.0.0.1:" + strconv.Itoa(port(t))
	settings["TIDEMILL_BRIDGE_BROKER_LISTEN"] = addr
	g.note(settings)
	c, err := systems.All().Settings().Load(config.Layers{Getenv: func(k string) string { return settings[k] }, Flags: map[string]string{"data": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := connect.Open(t.Context(), systems.All(), c, connect.Options{Systems: []string{"bridge"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return addr
}

// device is a client of the broker that is open until the test ends.
func device(t *testing.T, addr string, o mqttconn.Options) (*mqttconn.Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := mqttconn.Open(ctx, []string{"tcp://" + addr}, o)
	if err == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Close(ctx)
		})
	}
	return c, err
}

func bounds(t *testing.T, g *given) {
	canary := tidemill.NewSecret("canary")
	addr := embeddedAt(t, g, env{"TIDEMILL_BRIDGE_BROKER_USER": "device", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "canary", "TIDEMILL_BRIDGE_BROKER_ADMIN_USER": "boss",
		"TIDEMILL_BRIDGE_BROKER_ADMIN_PASSWORD": "canary", "TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS": "8", "TIDEMILL_BRIDGE_BROKER_CONNECT_TIMEOUT": "100ms",
		"TIDEMILL_BRIDGE_BROKER_SESSIONS": "1", "TIDEMILL_BRIDGE_BROKER_WAITING": "20KiB", "TIDEMILL_BRIDGE_BROKER_RETAINED": "2", "TIDEMILL_BRIDGE_BROKER_RETAINED_SIZE": "10KiB"})
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_ = silent.SetDeadline(time.Now().Add(limit))
	if _, err := io.ReadAll(silent); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("who sends no CONNECT stays")
	}
	boss, err := device(t, addr, mqttconn.Options{User: "boss", Password: canary})
	if err != nil {
		t.Fatal(err)
	}
	if err := boss.Subscribe(t.Context(), mqttconn.Subscription{Filter: "$SYS/#"}); err != nil {
		t.Errorf("the administrator reads $SYS: %v", err)
	}
	kept, err := device(t, addr, mqttconn.Options{User: "device", Password: canary, ClientID: "kept", Session: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Subscribe(t.Context(), mqttconn.Subscription{Filter: "$SYS/#"}); err == nil {
		t.Error("a device reads $SYS")
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := mqttconn.Open(short, []string{"tcp://" + addr}, mqttconn.Options{User: "device", Password: canary, ClientID: "more", Session: time.Hour}); err == nil {
		_ = c.Close(t.Context())
		t.Error("a second session is kept")
	}
	publish := func(topic string, n int, retain bool) error {
		return boss.Publish(t.Context(), []mqttconn.Message{{Topic: topic, QoS: 1, Retain: retain, Payload: make([]byte, n)}})
	}
	for _, m := range []struct {
		topic string
		n     int
		ok    bool
	}{{"a", 10 << 10, false}, {"a", 10, true}, {"b", 10, true}, {"c", 10, false}} {
		if err := publish(m.topic, m.n, true); (err == nil) != m.ok {
			t.Errorf("%d bytes retained as %s: %v", m.n, m.topic, err)
		}
	}
	if err := kept.Subscribe(t.Context(), mqttconn.Subscription{Filter: "queue", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for n < 10 && publish("queue", 5<<10, false) == nil {
		n++
	}
	if n != 3 {
		t.Errorf("%d messages of 5 KiB wait, want 3", n)
	}
	refused := 0
	for range 12 {
		if _, err := device(t, addr, mqttconn.Options{User: "device", Password: canary, Connect: 50 * time.Millisecond}); err != nil {
			refused++
			break
		}
	}
	if refused == 0 {
		t.Error("more than eight connections of one address are taken")
	}
}

func connections(t *testing.T, g *given) {
	addr := embeddedAt(t, g, env{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS": "4"})
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		c, err := mqttconn.Open(ctx, []string{"tcp://" + addr}, mqttconn.Options{})
		cancel()
		if err != nil {
			return
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Close(ctx)
		})
	}
	t.Error("ten connections are open, of four")
}
