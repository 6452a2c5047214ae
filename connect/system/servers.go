//go:build !embedded

package system

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/serverclock"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// waiting is how many commands of one system may wait at a Redis at once, each on a connection of
// its own: one for every queue, and for each of its shards.
const waiting = 64

// Servers are the servers whose clients are built in.
func Servers() []string { return []string{"redis", "postgresql", "clickhouse", "kafka", "opensearch"} }

// Redis is the connection to a Redis. All systems share it.
func (h *Host) Redis(ctx context.Context, at config.URL) (redisconn.Client, error) {
	return server(h, "redis", at, func() (redisconn.Client, func(), Look, error) {
		c, err := redisconn.Open(ctx, tidemill.NewSecret(string(at)), redisconn.Options{Blocking: waiting * max(len(h.Systems), 1)})
		if err != nil {
			return nil, nil, nil, err
		}
		return c, c.Close, func(ctx context.Context) []preflight.Finding { return redisconn.Inspect(ctx, c) }, nil
	})
}

// Postgres is the pool of connections to a PostgreSQL. All systems share it, and
// postgres.connections bounds it.
func (h *Host) Postgres(ctx context.Context, at config.URL) (*postgresdb.DB, error) {
	return server(h, "postgres", at, func() (*postgresdb.DB, func(), Look, error) {
		db, err := postgresdb.Open(ctx, tidemill.NewSecret(string(at)), postgresdb.Options{Conns: h.Config.Postgres.Connections, Gate: h.Way.Gate(time.Second)})
		if err != nil {
			return nil, nil, nil, err
		}
		return db, db.Close, func(ctx context.Context) []preflight.Finding { return postgresdb.Inspect(ctx, db) }, nil
	})
}

// PostgresClock reads the clock of a PostgreSQL, until the host is closed. It decides leases that
// instances share, whose own clocks need not agree.
func (h *Host) PostgresClock(ctx context.Context, db *postgresdb.DB) (now func() time.Time, err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c, err := serverclock.Postgres(life, db)
	if err != nil {
		end()
		return nil, err
	}
	h.OnClose(func() error { end(); return nil })
	return c.Now, nil
}

// Kafka is a cluster, with the client that makes and looks at topics, and produces. All systems
// share it. A member of a consumer group, and a producer with rules of its own, is a client of its
// own: Kafka would have it so.
type Kafka struct {
	*kafkaconn.Cluster
	Client *kafkaconn.Client

	topics []string // that are looked at
}

// Kafka is the connection to a Kafka.
func (h *Host) Kafka(ctx context.Context, at config.URL) (*Kafka, error) {
	return server(h, "kafka", at, func() (*Kafka, func(), Look, error) {
		cluster, err := kafkaconn.Parse(string(at), kafkaconn.Options{})
		if err != nil {
			return nil, nil, nil, err
		}
		client, err := cluster.Client(kafkasource.Producer()...)
		if err != nil {
			return nil, nil, nil, err
		}
		if err := client.Ping(ctx); err != nil {
			client.Close()
			return nil, nil, nil, kafkaconn.Error(err, "connect to Kafka at %s", cluster)
		}
		k := &Kafka{Cluster: cluster, Client: client}
		return k, client.Close, func(ctx context.Context) []preflight.Finding { return cluster.Inspect(ctx, client, k.topics...) }, nil
	})
}

// Make makes a topic that is not there, and has it looked at.
func (k *Kafka) Make(ctx context.Context, topic string, partitions, replicas int) error {
	k.topics = append(k.topics, topic)
	return kafkaconn.MakeTopic(ctx, k.Client, topic, partitions, replicas)
}

// server is the one connection to a server: it is opened when it is first asked for, and looked at
// once whoever uses it.
func server[T any](h *Host, product string, at config.URL, open func() (T, func(), Look, error)) (T, error) {
	key := product + " " + string(at)
	if known, ok := h.servers[key]; ok {
		return known.(T), nil
	}
	c, end, look, err := open()
	if err != nil {
		return c, err
	}
	if h.servers == nil {
		h.servers = map[string]any{}
	}
	h.servers[key] = c
	h.OnClose(func() error { end(); return nil })
	h.Look(look)
	return c, nil
}

// KafkaSource is a pipeline's member of a consumer group; instance: it keeps its name over
// restarts, empty: it has none. Who opens it closes it.
func (h *Host) KafkaSource(k *Kafka, pipeline, topic, group, instance string) (*kafkasource.Source, error) {
	onLost := kafkasource.Stop
	if h.Config.Kafka.OnLost == "continue" {
		onLost = kafkasource.Continue
	}
	return kafkasource.New(k.Cluster, topic, group, kafkasource.Options{Instance: instance, OnLost: onLost, Log: h.Log, Now: h.Now, Lost: func(l kafkasource.Loss) {
		h.Report(pipeline, "lost", uint64(l.Records))
	}})
}
