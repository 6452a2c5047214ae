package bridgeconfig

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
)

// Redis is the Redis that the bridge reads from, and how. One address is one server,
// several are a cluster, and with a master's name they are its sentinels.
type Redis struct {
	Addresses  config.Addresses `yaml:"addresses" env:"REDIS_ADDRESSES" flag:"redis-addr" default:"localhost:6379" help:"the Redis that the stream is read from: one server, several of a cluster, or sentinels with master_name; without it and mqtt.brokers the bridge works embedded" allow:"host:port, several with commas"`
	Username   string           `yaml:"username" env:"REDIS_USERNAME" flag:"redis-username" help:"its user; empty: the default one"`
	Password   tidemill.Secret  `yaml:"password" env:"REDIS_PASSWORD" flag:"redis-password" help:"the user's password; better by its variable or the file than by the flag, which others on the machine see"`
	DB         int              `yaml:"db" env:"REDIS_DB" flag:"redis-db" default:"0" range:"[0,)" help:"its database; a cluster has 0 alone"`
	MasterName string           `yaml:"master_name" env:"REDIS_MASTER_NAME" flag:"redis-master-name" help:"the name that the sentinels at the addresses know the master by; empty: they are no sentinels"`
	TLSEnabled bool             `yaml:"tls_enabled" env:"REDIS_TLS_ENABLED" flag:"redis-tls-enabled" default:"false" help:"connect to Redis by TLS"`

	Stream        string `yaml:"stream" env:"REDIS_STREAM" flag:"redis-stream" default:"syslog-stream" need:"true" help:"the stream that is read"`
	ConsumerGroup string `yaml:"consumer_group" env:"REDIS_CONSUMER_GROUP" flag:"redis-group" default:"syslog-group" need:"true" help:"the consumer group; all instances share it"`
	ConsumerName  string `yaml:"consumer_name" env:"REDIS_CONSUMER_NAME" flag:"redis-consumer-name" help:"this instance's name in the group, unlike that of any other; empty: consumer-<uuid>, a new one at each start"`

	MaxRetries     int           `yaml:"max_retries" env:"REDIS_MAX_RETRIES" flag:"redis-client-retries" default:"5" range:"[0,)" help:"times a command that Redis could not answer is tried again"`
	RetryInterval  time.Duration `yaml:"retry_interval" env:"REDIS_RETRY_INTERVAL" flag:"redis-client-retry-interval" default:"1s" range:"[0,)" help:"wait before such a retry"`
	ConnectTimeout time.Duration `yaml:"connect_timeout" env:"REDIS_CONNECT_TIMEOUT" default:"5s" range:"(0,)" help:"how long connecting may take"`
	ReadTimeout    time.Duration `yaml:"read_timeout" env:"REDIS_READ_TIMEOUT" default:"3s" range:"(0,)" help:"how long an answer may take"`
	WriteTimeout   time.Duration `yaml:"write_timeout" env:"REDIS_WRITE_TIMEOUT" default:"3s" range:"(0,)" help:"how long sending a command may take"`
	PoolSize       int           `yaml:"pool_size" env:"REDIS_POOL_SIZE" default:"CPUs × 10" range:"[1,)" help:"connections open at once"`
	MinIdleConns   int           `yaml:"min_idle_conns" env:"REDIS_MIN_IDLE_CONNS" default:"CPUs" range:"[0,)" help:"connections kept open while there is nothing to do"`
	MaxConnAge     time.Duration `yaml:"max_conn_age" env:"REDIS_MAX_CONN_AGE" default:"30m" range:"[0,)" help:"age at which a connection is renewed; 0: never"`
	IdleTimeout    time.Duration `yaml:"idle_timeout" env:"REDIS_IDLE_TIMEOUT" default:"5m" range:"[0,)" help:"time after which an idle connection is closed; 0: never"`

	BatchSize int           `yaml:"batch_size" env:"REDIS_BATCH_SIZE" flag:"redis-batch-size" default:"100" range:"[1,)" help:"entries read at once; where it is not set, more while as many wait, up to 1000"`
	BlockTime time.Duration `yaml:"block_time" env:"REDIS_BLOCK_TIME" flag:"redis-batch-timeout" default:"5s" range:"(0,)" help:"how long a read waits for new entries"`

	PendingCheckInterval time.Duration `yaml:"pending_check_interval" env:"REDIS_PENDING_CHECK_INTERVAL" default:"30s" range:"(0,)" help:"how often it is looked whether entries are pending"`
	ClaimInterval        time.Duration `yaml:"claim_interval" env:"REDIS_CLAIM_INTERVAL" default:"30s" range:"(0,)" help:"how often entries of consumers that are gone are taken over"`
	ClaimMinIdle         time.Duration `yaml:"claim_min_idle" env:"REDIS_CLAIM_MIN_IDLE" default:"1m" range:"[1s,)" help:"time without a sign of life after which an entry is taken over, and one without an acknowledgment published again"`
	ClaimBatchSize       int           `yaml:"claim_batch_size" env:"REDIS_CLAIM_BATCH_SIZE" default:"1000" range:"[1,)" help:"entries taken over at once"`
	AggressiveClaim      bool          `yaml:"aggressive_claim" env:"REDIS_AGGRESSIVE_CLAIM" flag:"redis-aggressive-claim" default:"true" help:"take over until nothing is left, not one batch at a time"`
	ClaimCycleDelay      time.Duration `yaml:"claim_cycle_delay" env:"REDIS_CLAIM_CYCLE_DELAY" flag:"redis-claim-cycle-delay" default:"1s" range:"[0,)" help:"pause between such batches"`

	DrainEnabled   bool          `yaml:"drain_enabled" env:"REDIS_DRAIN_ENABLED" flag:"redis-drain-enabled" default:"true" help:"find entries that are neither new nor pending and would never be delivered"`
	DrainInterval  time.Duration `yaml:"drain_interval" env:"REDIS_DRAIN_INTERVAL" flag:"redis-drain-interval" default:"1m" range:"(0,)" help:"how often such entries are looked for"`
	DrainBatchSize int           `yaml:"drain_batch_size" env:"REDIS_DRAIN_BATCH_SIZE" flag:"redis-drain-batch-size" default:"1000" range:"[1,)" help:"entries looked at together"`

	ConsumerCleanupEnabled  bool          `yaml:"consumer_cleanup_enabled" env:"REDIS_CONSUMER_CLEANUP_ENABLED" flag:"redis-consumer-cleanup-enabled" default:"true" help:"remove consumers that are gone and have nothing pending"`
	ConsumerIdleTimeout     time.Duration `yaml:"consumer_idle_timeout" env:"REDIS_CONSUMER_IDLE_TIMEOUT" flag:"redis-consumer-idle-timeout" default:"5m" range:"(0,)" help:"time without a sign of life after which a consumer is gone"`
	ConsumerCleanupInterval time.Duration `yaml:"consumer_cleanup_interval" env:"REDIS_CONSUMER_CLEANUP_INTERVAL" flag:"redis-consumer-cleanup-interval" default:"1m" range:"(0,)" help:"how often such consumers are looked for"`
}

// MQTT is the MQTT broker that the bridge publishes to, and how.
type MQTT struct {
	Brokers           config.Addresses `yaml:"brokers" env:"MQTT_BROKERS" flag:"mqtt-broker" default:"tcp://localhost:1883" help:"the MQTT broker that is published to, several where one replaces the other; without it and redis.addresses the bridge works embedded" allow:"tcp://host:port or ssl://host:port, several with commas"`
	ClientID          string           `yaml:"client_id" env:"MQTT_CLIENT_ID" flag:"mqtt-client-id" default:"syslog-consumer-<host>-<pid>" need:"true" help:"the client's name; <host> and <pid> stand for the machine's name and the process's number"`
	Username          string           `yaml:"username" env:"MQTT_USERNAME" flag:"mqtt-username" help:"user; empty: the common name of the certificate where use_user_prefix takes it, else none"`
	Password          tidemill.Secret  `yaml:"password" env:"MQTT_PASSWORD" help:"the user's password"`
	QoS               int              `yaml:"qos" env:"MQTT_QOS" flag:"mqtt-qos" default:"2" range:"[0,2]" help:"quality of service of what is published and subscribed to"`
	KeepAlive         time.Duration    `yaml:"keep_alive" env:"MQTT_KEEP_ALIVE" flag:"mqtt-keep-alive" default:"30s" range:"[1s,18h12m15s]" help:"time without traffic after which a sign of life is sent"`
	ConnectTimeout    time.Duration    `yaml:"connect_timeout" env:"MQTT_CONNECT_TIMEOUT" flag:"mqtt-connect-timeout" default:"10s" range:"(0,)" help:"how long connecting may take"`
	MaxReconnectDelay time.Duration    `yaml:"max_reconnect_delay" env:"MQTT_MAX_RECONNECT_DELAY" flag:"mqtt-max-reconnect-delay" default:"2m" range:"(0,)" help:"longest wait before connecting again"`
	CleanSession      bool             `yaml:"clean_session" env:"MQTT_CLEAN_SESSION" flag:"mqtt-clean-session" default:"true" help:"have the broker forget the session when the connection ends"`
	OrderMatters      bool             `yaml:"order_matters" env:"MQTT_ORDER_MATTERS" flag:"mqtt-order-matters" default:"true" help:"take acknowledgments in the order in which they come"`

	PublishTopic   string `yaml:"publish_topic" env:"MQTT_PUBLISH_TOPIC" flag:"mqtt-publish-topic" default:"syslog" need:"true" help:"topic that is published to; {field} in it stands for a field of the entry"`
	SubscribeTopic string `yaml:"subscribe_topic" env:"MQTT_SUBSCRIBE_TOPIC" flag:"mqtt-subscribe-topic" default:"syslog/acknowledgement" help:"topic that acknowledgments come from; none: the broker's own acknowledgment counts"`
	UseUserPrefix  bool   `yaml:"use_user_prefix" env:"MQTT_USE_USER_PREFIX" flag:"mqtt-use-user-prefix" default:"true" help:"put the common name of the client certificate, where there is one, before every topic"`
	CustomPrefix   string `yaml:"custom_prefix" env:"MQTT_CUSTOM_PREFIX" flag:"mqtt-custom-prefix" help:"what else is put before every topic"`

	PublisherPoolSize   int           `yaml:"publisher_pool_size" env:"MQTT_PUBLISHER_POOL_SIZE" flag:"mqtt-publishers" default:"1" range:"[1,)" help:"connections that publish"`
	MaxInflight         int           `yaml:"max_inflight" env:"MQTT_MAX_INFLIGHT" flag:"mqtt-max-inflight" default:"1000" range:"[1,)" help:"messages in flight on a connection; the broker's receive maximum bounds them too"`
	MessageChannelDepth int           `yaml:"message_channel_depth" env:"MQTT_MESSAGE_CHANNEL_DEPTH" flag:"mqtt-message-channel-depth" default:"0" range:"[0,)" help:"acknowledgments that wait to be taken; 0: as many as may be in flight"`
	WriteTimeout        time.Duration `yaml:"write_timeout" env:"MQTT_WRITE_TIMEOUT" flag:"mqtt-write-timeout" default:"5s" range:"(0,)" help:"how long a write may take until the connection counts as broken"`

	TLSEnabled             bool        `yaml:"tls_enabled" env:"MQTT_TLS_ENABLED" default:"false" help:"connect by TLS; ssl://, port 8883 and a certificate file mean it too"`
	CACert                 string      `yaml:"ca_cert" env:"MQTT_CA_CERT" flag:"mqtt-ca-cert" help:"file of the certificates that the broker's must be signed by; empty: the system's" allow:"a readable PEM file"`
	ClientCert             string      `yaml:"client_cert" env:"MQTT_CLIENT_CERT" flag:"mqtt-client-cert" help:"file of the client certificate" allow:"a readable PEM file, together with client_key"`
	ClientKey              string      `yaml:"client_key" env:"MQTT_CLIENT_KEY" flag:"mqtt-client-key" help:"file of the client certificate's key" allow:"a readable PEM file, together with client_cert"`
	TLSInsecure            bool        `yaml:"tls_insecure" env:"MQTT_TLS_INSECURE" flag:"mqtt-tls-insecure" default:"false" help:"believe any certificate: for tests alone"`
	TLSServerName          string      `yaml:"tls_server_name" env:"MQTT_TLS_SERVER_NAME" flag:"mqtt-tls-server-name" help:"the name that the broker's certificate must have; empty: the host of its address"`
	TLSMinVersion          string      `yaml:"tls_min_version" env:"MQTT_TLS_MIN_VERSION" flag:"mqtt-tls-min-version" default:"TLS1.2" of:"TLS1.2|TLS1.3" help:"the oldest version of TLS that is spoken"`
	TLSCipherSuites        config.List `yaml:"tls_cipher_suites" env:"MQTT_TLS_CIPHER_SUITES" flag:"mqtt-tls-cipher-suites" help:"cipher suites of TLS 1.2; empty: Go's choice" allow:"names like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, separated by commas"`
	TLSPreferServerCiphers bool        `yaml:"tls_prefer_server_ciphers" env:"MQTT_TLS_PREFER_SERVER_CIPHERS" flag:"mqtt-tls-prefer-server-ciphers" default:"false" help:"leave the choice of the cipher suite to the broker"`
}

// MinVersion is TLSMinVersion as package crypto/tls knows it.
func (m *MQTT) MinVersion() uint16 {
	if m.TLSMinVersion == "TLS1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// CipherSuites are TLSCipherSuites as package crypto/tls knows them; nil: its own choice.
// Suites that it calls insecure are not known.
func (m *MQTT) CipherSuites() ([]uint16, error) {
	var ids []uint16
next:
	for _, name := range m.TLSCipherSuites {
		for _, s := range tls.CipherSuites() {
			if s.Name == name {
				ids = append(ids, s.ID)
				continue next
			}
		}
		return nil, fmt.Errorf("%q is no secure cipher suite", name)
	}
	return ids, nil
}

// None is how the environment says that there is no topic of acks: an empty variable is one
// that was not set.
const None = "none"

// AckTopic is SubscribeTopic, or empty where there is none.
func (m *MQTT) AckTopic() string {
	if m.SubscribeTopic == None {
		return ""
	}
	return m.SubscribeTopic
}
