package bridgesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/sink/mqttsink"
	"github.com/tidemill/tidemill/source/redissource"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

// onServers puts the bridge between a Redis and an MQTT broker.
func (w *wiring) onServers(ctx context.Context, e *ends) error {
	client, err := w.redis(ctx, e)
	if err != nil {
		return err
	}
	publishers, err := w.mqtt(e)
	if err != nil {
		return err
	}
	c := w.own
	w.Look(func(ctx context.Context) []preflight.Finding { return redisconn.Inspect(ctx, client) })
	if err := w.Judge(ctx); err != nil {
		return err
	}
	checking, cancel := context.WithTimeout(ctx, c.Health.RedisTimeout)
	err = e.isStream(checking)
	cancel()
	if tidemill.KindOf(err) == tidemill.Validation { // other errors are waited out
		return fmt.Errorf("bridge.redis.stream (REDIS_STREAM): %w", err)
	}
	e.healthy = func(ctx context.Context) error {
		asking, cancel := context.WithTimeout(ctx, c.Health.RedisTimeout)
		err := e.isStream(asking)
		cancel()
		if err != nil {
			err = fmt.Errorf("ask Redis: %w", err)
		}
		waiting, cancel := context.WithTimeout(ctx, c.Health.MQTTTimeout)
		defer cancel()
		return errors.Join(err, anyUp(waiting, publishers))
	}
	w.parts.Checks = append(w.parts.Checks, func(ctx context.Context) []preflight.Finding {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return mqttconn.Inspect(ctx, publishers[0])
	})
	return nil
}

// redis opens the stream.
func (w *wiring) redis(ctx context.Context, e *ends) (redisconn.Client, error) {
	c, log := &w.own.Redis, w.log
	address := redisAddress(c)
	client, err := w.reachRedis(ctx, address)
	if err != nil {
		return nil, err
	}
	w.OnClose(func() error { client.Close(); return nil })
	source, err := redissource.New(client, redissource.Options{Stream: c.Stream, Group: c.ConsumerGroup,
		Consumer: cmp.Or(c.ConsumerName, "consumer-"+uuid.NewString()),
		Lease:    c.ClaimMinIdle, Block: w.blockTime(), Batch: c.BatchSize, Answer: c.ReadTimeout,
		ClaimEvery: c.ClaimInterval, ClaimBatch: c.ClaimBatchSize, ClaimOnce: !c.AggressiveClaim, ClaimPause: c.ClaimCycleDelay,
		Drains: c.DrainEnabled,
		Report: func(r redissource.Report) {
			w.Report(bridge.Name, string(r.What), r.Count)
			level := log.Warn
			switch r.What {
			case redissource.Claimed:
				e.count.claimed.Add(r.Count)
				level = log.Info
			case redissource.Drained:
				e.count.drained.Add(r.Count)
				level = log.Info
			case redissource.Removed:
				e.count.removed.Add(r.Count)
				level = log.Info
			}
			level("stream", "pipeline", bridge.Name, "what", string(r.What), "count", r.Count, "entries", r.IDs, "text", r.Text)
		}})
	if err != nil {
		return nil, err
	}
	e.source, e.isStream = source, source.Check
	e.Close = append(e.Close, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return source.Close(ctx)
	})
	if c.DrainEnabled {
		e.Loops = append(e.Loops, flow.Loop{Name: "drain", Every: c.DrainInterval, AtStart: true, Do: func(ctx context.Context) error {
			for {
				if n, err := source.Drain(ctx, c.DrainBatchSize); n == 0 || err != nil {
					return err
				}
			}
		}})
	}
	if c.ConsumerCleanupEnabled {
		e.Loops = append(e.Loops, flow.Loop{Name: "idle consumers", Every: c.ConsumerCleanupInterval, Do: func(ctx context.Context) error {
			_, err := source.CleanUp(ctx, c.ConsumerIdleTimeout)
			return err
		}})
	}
	w.Uses = append(w.Uses, fmt.Sprintf("stream: Redis, %s, %s", address.shown, c.Stream))
	return client, nil
}

// blockTime is how long a read waits at Redis. A read that waits hears of nothing else: not
// of an entry that comes due for its next try, nor of a stop. Where it is not given, it is
// as short as the first wait between tries, and a second at most.
func (w *wiring) blockTime() time.Duration {
	b := w.own
	if w.Config.Given("bridge.redis.block_time") {
		return b.Redis.BlockTime
	}
	most := time.Second
	if b.Retry.Enabled {
		most = min(most, max(b.Retry.InitialBackoff, 100*time.Millisecond))
	}
	return min(b.Redis.BlockTime, most)
}

// reachRedis connects, and tries again as often as the settings say.
func (w *wiring) reachRedis(ctx context.Context, at redisURL) (redisconn.Client, error) {
	c := &w.own.Redis
	o := redisconn.Options{Name: w.own.App.Name, Dial: c.ConnectTimeout, Timeout: max(c.ReadTimeout, c.WriteTimeout),
		Blocking: c.PoolSize, Idle: c.MinIdleConns, MaxAge: c.MaxConnAge, MaxIdle: c.IdleTimeout}
	for tries := 0; ; tries++ {
		client, err := redisconn.Open(ctx, at.url, o)
		if err == nil || tries >= c.MaxRetries || ctx.Err() != nil || tidemill.KindOf(err) == tidemill.Credentials {
			return client, err
		}
		w.log.Warn("no connection to Redis", "error", err, "again_in", c.RetryInterval, "tries_left", c.MaxRetries-tries)
		select {
		case <-time.After(c.RetryInterval):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// redisURL is the address of a Redis, whole and as it may be shown.
type redisURL struct {
	url   tidemill.Secret
	shown string
}

// redisAddress makes the one address of the many settings.
func redisAddress(c *bridgeconfig.Redis) redisURL {
	scheme, user, path, query := "redis", "", "", ""
	if c.TLSEnabled {
		scheme = "rediss"
	}
	if c.MasterName != "" {
		scheme += "+sentinel"
		path = "/" + c.MasterName
	} else if len(c.Addresses) > 1 {
		query = "?cluster=true"
	}
	if c.DB != 0 {
		path += fmt.Sprintf("/%d", c.DB)
	}
	if !c.Password.IsZero() {
		user = url.PathEscape(c.Username) + ":" + url.PathEscape(c.Password.Reveal()) + "@"
	}
	rest := strings.Join(c.Addresses, ",") + path + query
	return redisURL{tidemill.NewSecret(scheme + "://" + user + rest), scheme + "://" + rest}
}

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

const (
	mostInFlight = 60_000 // packet ids of messages, as mqttconn has them
	mostInbox    = 65_535
	// keptSession is how long a broker is asked to keep the session of a bridge that is away.
	keptSession = 24 * time.Hour
)

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
