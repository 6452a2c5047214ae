// Package kafkaconn opens connections to Kafka for the backends on it, checks whether it keeps
// events safe, and gives its errors their kind. Use it wherever a configuration names a Kafka
// by its brokers:
//
//	cluster, err := kafkaconn.Parse("kafka://user:password@one:9092,two:9092?sasl=scram-sha-512", kafkaconn.Options{})
//	client, err := cluster.Client()
//
// A member of a consumer group needs its own client, so backends get the Cluster and open what
// they need.
package kafkaconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemill/tidemill"
)

// Options tune connections; the zero value is ready to use.
type Options struct {
	// ClientID is our name in the brokers' logs and quotas; empty: "tidemill".
	ClientID string
	// TLS is used if the brokers' address asks for TLS; nil: the system's authorities.
	TLS *tls.Config
	// Dial opens connections; nil: TCP, or TLS over it, with 10 seconds to connect. Its
	// connections are used as they are.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Cluster has the brokers' addresses and our credentials. It never prints the password.
type Cluster struct {
	brokers   []string
	tls       bool
	mechanism string
	user      string
	password  tidemill.Secret
	options   Options
}

// Client is a connection, as backends use it.
type Client = kgo.Client

// Client opens a client with further options. It connects when it is first used. The caller
// closes it.
func (c *Cluster) Client(more ...kgo.Opt) (*kgo.Client, error) {
	id := c.options.ClientID
	if id == "" {
		id = "tidemill"
	}
	opts := []kgo.Opt{kgo.SeedBrokers(c.brokers...), kgo.ClientID(id), kgo.SoftwareNameAndVersion("tidemill", "1"), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(250 * time.Millisecond)} // a new or moved topic is noticed within this time
	switch {
	case c.options.Dial != nil:
		opts = append(opts, kgo.Dialer(c.options.Dial))
	case c.tls:
		config := c.options.TLS
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		opts = append(opts, kgo.DialTLSConfig(config.Clone()))
	}
	if m := c.proof(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("open a client of %s: %w", c, err)
	}
	return client, nil
}

// proof is how a client authenticates; nil: it does not.
func (c *Cluster) proof() sasl.Mechanism {
	switch {
	case c.user == "":
		return nil
	case c.mechanism == "scram-sha-256":
		return scram.Auth{User: c.user, Pass: c.password.Reveal()}.AsSha256Mechanism()
	case c.mechanism == "scram-sha-512":
		return scram.Auth{User: c.user, Pass: c.password.Reveal()}.AsSha512Mechanism()
	}
	return plain.Auth{User: c.user, Pass: c.password.Reveal()}.AsMechanism()
}

// String is the address without user and password.
func (c *Cluster) String() string {
	scheme := "kafka"
	if c.tls {
		scheme = "kafka+tls"
	}
	return scheme + "://" + strings.Join(c.brokers, ",")
}

// GoString is String: %#v shows no password either.
func (c *Cluster) GoString() string { return c.String() }
