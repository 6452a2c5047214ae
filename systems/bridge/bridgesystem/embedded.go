package bridgesystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/sink/mqttsink"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/bridge/bridgeingest"
	"github.com/tidemill/tidemill/systems/bridge/bridgemetrics"
)

// embedded puts the bridge between the embedded queue and the embedded broker. Its
// dead are kept in the database beside their topic, where nobody may be listening.
func (w *wiring) embedded(ctx context.Context, e *ends) error {
	c := w.own
	f, err := w.File(ctx)
	if err != nil {
		return err
	}
	users := map[string]tidemill.Secret{}
	if c.Broker.User != "" {
		users[c.Broker.User] = c.Broker.Password
	}
	if c.Broker.AdminUser != "" {
		users[c.Broker.AdminUser] = c.Broker.AdminPassword
	}
	broker, err := mqttbroker.Start(mqttbroker.Options{Addr: c.Broker.Listen, Users: users, Admin: c.Broker.AdminUser,
		Clients: c.Broker.Connections, PerAddress: c.Broker.PerAddress, Connect: c.Broker.ConnectTimeout, Sessions: c.Broker.Sessions,
		Waiting: int64(c.Broker.Waiting), Retained: c.Broker.Retained, RetainedSize: int64(c.Broker.RetainedSize), Log: w.log})
	if err != nil {
		return fmt.Errorf("%w; another address: bridge.broker.listen (TIDEMILL_BRIDGE_BROKER_LISTEN)", err)
	}
	w.OnClose(broker.Close)
	w.Sockets.Add("bridge.broker.listen", broker.Sockets)
	w.parts.Metrics = append(w.parts.Metrics, bridgemetrics.NewBroker(broker.Stats))
	_, o, prefix, err := mqttOf(c, w.log)
	if err != nil {
		return err
	}
	publishers, err := w.startMQTT([]string{broker.URL()}, c.MQTT.PublisherPoolSize, o)
	if err != nil {
		return err
	}
	if e.Sink, err = newMQTTSink(publishers, c.MQTT.QoS); err != nil {
		return err
	}
	e.Up = func() bool { return anyUp(context.Background(), publishers) == nil }
	if c.MQTT.AckTopic() != "" { // a client of its own: the broker holds back publishers while a subscriber is full
		o.ClientID += "-acks"
		listeners, err := w.startMQTT([]string{broker.URL()}, 1, o)
		if err != nil {
			return err
		}
		e.Acks = mqttsink.NewAcks(listeners[0], bridge.JoinTopic(prefix, c.MQTT.AckTopic()), c.MQTT.QoS)
	}
	e.source, e.prefix = f.Queues.Open(bridge.Name, queue.Options{Lease: c.Redis.ClaimMinIdle}).(source), prefix
	e.finder, e.outline = &bridgeapi.Finder{Queues: f.Queues}, outlineOf(f.Queues)
	e.letters, e.Keep, e.Replay = f.DeadLetters, f.DeadLetters, f.DeadLetters.Open(bridge.Name)
	e.healthy = func(ctx context.Context) error {
		_, err := e.source.Books(ctx)
		return err
	}
	if e.endpoint, err = bridgeingest.New(bridgeingest.Options{Options: w.Endpoint(nil), Queue: bridge.Name, Add: f.Queues,
		Limits: endpoint.Limits{Body: int(w.Config.HTTP.MaxBody), Time: w.Config.HTTP.BodyTimeout}}); err != nil {
		return err
	}
	w.Uses = append(w.Uses, fmt.Sprintf("broker: embedded MQTT, %s, %s", broker.URL(), bridge.JoinTopic(e.prefix, c.MQTT.PublishTopic)))
	return nil
}
