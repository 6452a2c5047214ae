// Package bridgecli has the commands of the bridge.
package bridgecli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

// Listening is what a receiver wants.
type Listening struct {
	Topics []string // filters; none: what the bridge publishes to
	Ack    bool     // acknowledge every message
	Log    *slog.Logger

	// Ready is called once the broker has confirmed the topics: what is published from then on
	// arrives. Nil: nobody asks.
	Ready func(topics []string)
}

// ErrEnough is what the reader of Listen returns when it wants no more.
var ErrEnough = errors.New("enough")

// Listen receives what a bridge publishes: it calls each with every message on the topics, until ctx
// ends or each returns an error, and acknowledges what each took.
type Listen func(ctx context.Context, c *config.Loaded, l Listening, each func(topic string, payload []byte) error) error

// Commands are those of the command line.
func Commands(listen Listen) []system.Command {
	return []system.Command{{Name: "bridge", Help: "Put entries into the embedded bridge, see what it publishes and how it stands.",
		Do: &bridgeCmd{Listen: bridgeListenCmd{listen: listen}}}}
}

// First sends a first event and finds it again.
func First(t *system.Trial) []string {
	const entry = `{"text": "disk full"}`
	c, broker := bridgeconfig.Of(t.Config), ""
	if t.Plain == nil || bridgeconfig.Of(t.Plain).Broker.Listen != c.Broker.Listen {
		broker = "MQTT_BROKERS=tcp://" + c.Broker.Listen + " "
	}
	listen := broker + t.Program + " bridge listen --ack   # in its own terminal: it prints and acknowledges the messages"
	if c.Embedded() {
		return []string{listen, t.Pipe(entry, "bridge send")}
	}
	host, port := "127.0.0.1", "6379"
	if len(c.Redis.Addresses) > 0 {
		if h, p, err := net.SplitHostPort(c.Redis.Addresses[0]); err == nil {
			host, port = h, p
		}
	}
	return []string{listen, fmt.Sprintf("redis-cli -h %s -p %s XADD %s '*' payload %s", host, port, system.ShellWord(c.Redis.Stream), system.ShellWord(entry))}
}
