// Package open opens the databases that backends live in. Use it in programs that put
// systems together themselves, as libraries; the program tidemill does so from its
// configuration.
//
//	db, err := open.SQLite(ctx, "club.db")
//	defer db.Close()
//	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
//	t, err := sqlitetable.New(ctx, db, tableledger.Spec("crm"))
//	log := tableledger.New(t, tableledger.Options{})
//
// All backends of one process share an opened database. The program that opened it closes it,
// after the systems have ended. Addresses may hold passwords: no error and no String shows them.
package open

import (
	"context"
	"crypto/tls"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/kafkaconn"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// SQLiteDB is one file of one process. SQLiteTx is a transaction of it, which a handler in a
// transaction of the sync log is given.
type (
	SQLiteDB = sqlitedb.DB
	SQLiteTx = sqlitedb.Tx
)

// SQLite opens a file, and creates it if it does not exist. No other process may have it
// open. Data is on disk when a write returns: one sync of the log covers all concurrent
// writes.
func SQLite(ctx context.Context, path string) (*SQLiteDB, error) {
	return sqlitedb.Open(ctx, path, sqlitedb.Options{})
}

// PostgresDB is a pool of connections to one database.
type PostgresDB = postgresdb.DB

// Postgres connects to postgres://user:password@host:5432/database, with at most conns
// connections; 0 means 8. Backends create and change their tables, which begin with
// tidemill_.
func Postgres(ctx context.Context, url tidemill.Secret, conns int) (*PostgresDB, error) {
	return postgresdb.Open(ctx, url, postgresdb.Options{Conns: conns})
}

// Redis connects to redis://user:password@host:6379/0, or rediss:// with TLS; a cluster and
// Sentinel by their URLs: see docs/servers.md. A client that a program has already can be
// used instead if it neither retries nor caches (DisableRetry, DisableCache).
func Redis(ctx context.Context, url tidemill.Secret) (redisconn.Client, error) {
	return redisconn.Open(ctx, url, redisconn.Options{})
}

// KafkaCluster is the addresses of the brokers and the credentials; sources and sinks open
// their own clients.
type KafkaCluster = kafkaconn.Cluster

// Kafka reads an address such as one:9092,two:9092 or
// kafka+tls://user:password@one:9093?sasl=scram-sha-512. It does not connect. tls may be nil.
func Kafka(address string, tls *tls.Config) (*KafkaCluster, error) {
	return kafkaconn.Parse(address, kafkaconn.Options{TLS: tls})
}

// ClickHouseConn is a pool of connections to one ClickHouse.
type ClickHouseConn = clickhousehttp.Conn

// ClickHouse connects to http://user:password@host:8123?database=events, or https.
func ClickHouse(ctx context.Context, url tidemill.Secret) (*ClickHouseConn, error) {
	return clickhousehttp.Open(ctx, url.Reveal(), clickhousehttp.Options{})
}

// SearchConn is a pool of connections to one OpenSearch or Elasticsearch.
type SearchConn = opensearchhttp.Conn

// Search connects to http://user:password@host:9200, or https.
func Search(ctx context.Context, url tidemill.Secret) (*SearchConn, error) {
	return opensearchhttp.Open(ctx, url.Reveal(), opensearchhttp.Options{})
}

// MQTTClient is a connection to a broker, and MQTTOptions how it is made.
type (
	MQTTClient  = mqttconn.Client
	MQTTOptions = mqttconn.Options
)

// MQTT makes n clients of the brokers, tcp://host:1883 or ssl://host:8883. They connect and
// stay connected until they are closed.
func MQTT(ctx context.Context, n int, brokers []string, o MQTTOptions) ([]*MQTTClient, error) {
	return mqttconn.OpenSeveral(ctx, n, brokers, o)
}
