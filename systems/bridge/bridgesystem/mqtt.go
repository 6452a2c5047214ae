package bridgesystem

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/sink/mqttsink"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

const (
	mostInFlight = 60_000 // packet ids of messages, as mqttconn has them
	mostInbox    = 65_535
	// keptSession is how long a broker is asked to keep the session of a bridge that is away.
	keptSession = 24 * time.Hour
)

// mqtt starts the clients that publish; the first of them takes the acks too.
func (w *wiring) mqtt(e *ends) ([]*mqttconn.Client, error) {
	c := &w.own.MQTT
	brokers, o, prefix, err := mqttOf(w.own, w.log)
	if err != nil {
		return nil, err
	}
	clients, err := w.startMQTT(brokers, c.PublisherPoolSize, o)
	if err != nil {
		return nil, err
	}
	if e.Sink, err = newMQTTSink(clients, c.QoS); err != nil {
		return nil, err
	}
	e.prefix = prefix
	e.Up = func() bool { return anyUp(context.Background(), clients) == nil }
	if c.AckTopic() != "" {
		e.Acks = mqttsink.NewAcks(clients[0], bridge.JoinTopic(prefix, c.AckTopic()), c.QoS)
	}
	w.Uses = append(w.Uses, fmt.Sprintf("broker: MQTT, %s, %s", strings.Join(brokers, ","), bridge.JoinTopic(prefix, c.PublishTopic)))
	return clients, nil
}

// mqttOf is how a client of the bridge connects, and what stands before its topics.
func mqttOf(b *bridgeconfig.Settings, log *slog.Logger) (brokers []string, o mqttconn.Options, prefix string, err error) {
	c := &b.MQTT
	if b.Embedded() {
		return []string{"tcp://" + b.Broker.Listen}, mqttconn.Options{ClientID: "tidemill-bridge", User: b.Broker.User, Password: b.Broker.Password,
			KeepAlive: c.KeepAlive, Window: min(c.MaxInflight, mostInFlight), Log: log}, c.CustomPrefix, nil
	}
	files := mqttconn.TLSFiles{CA: c.CACert, Cert: c.ClientCert, Key: c.ClientKey, ServerName: c.TLSServerName, Insecure: c.TLSInsecure, MinVersion: c.MinVersion()}
	if files.Ciphers, err = c.CipherSuites(); err != nil {
		return nil, o, "", fmt.Errorf("MQTT_TLS_CIPHER_SUITES: %w", err)
	}
	tls, err := files.Load()
	if err != nil {
		return nil, o, "", err
	}
	o = mqttconn.Options{ClientID: c.ClientID, User: c.Username, Password: c.Password, TLS: tls, KeepAlive: c.KeepAlive,
		Connect: c.ConnectTimeout, Write: c.WriteTimeout, MaxDelay: c.MaxReconnectDelay, Window: min(c.MaxInflight, mostInFlight), Inbox: min(c.MessageChannelDepth, mostInbox), Log: log}
	prefix = c.CustomPrefix
	if name := mqttconn.CommonName(tls); c.UseUserPrefix && name != "" {
		prefix = name
		o.User = cmp.Or(o.User, name)
	}
	if !c.CleanSession {
		o.Session = keptSession
	}
	for _, broker := range c.Brokers {
		if c.TLSEnabled || c.ClientCert != "" || c.CACert != "" {
			broker = throughTLS(broker)
		}
		brokers = append(brokers, broker)
	}
	return brokers, o, prefix, nil
}

// throughTLS makes an address one of TLS.
func throughTLS(broker string) string {
	_, rest, ok := strings.Cut(broker, "://")
	if !ok {
		rest = broker
	}
	return "tls://" + rest
}

// startMQTT starts clients; they connect by themselves, for as long as it takes.
func (w *wiring) startMQTT(brokers []string, n int, o mqttconn.Options) ([]*mqttconn.Client, error) {
	var clients []*mqttconn.Client
	for k := range n {
		one := o
		if n > 1 {
			one.ClientID = fmt.Sprintf("%s-%d", o.ClientID, k+1)
		}
		client, err := mqttconn.Start(brokers, one)
		if err != nil {
			return nil, err
		}
		w.OnClose(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return client.Close(ctx)
		})
		clients = append(clients, client)
	}
	return clients, nil
}

func newMQTTSink(clients []*mqttconn.Client, qos int) (*mqttsink.Sink, error) {
	q, err := mqttsink.ParseQoS(qos)
	if err != nil {
		return nil, err
	}
	return mqttsink.New(clients, mqttsink.Options{QoS: q})
}

// anyUp says why no client has a connection, or nil where one has. It waits for that as
// long as ctx lasts, where that ends.
func anyUp(ctx context.Context, clients []*mqttconn.Client) (err error) {
	for _, c := range clients {
		up, why := c.Up()
		if up {
			return nil
		}
		err = why
	}
	if _, ends := ctx.Deadline(); ends {
		return clients[0].Wait(ctx)
	}
	return err
}
