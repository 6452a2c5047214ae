package bridgeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// pair writes a certificate and its key.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	c, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	p, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for name, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: c}, key: {Type: "PRIVATE KEY", Bytes: p}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

type vars map[string]string

func TestWhatTheBridgeRefuses(t *testing.T) {
	cert, key := pair(t)
	_, otherKey := pair(t)
	text := file(t, "no certificate")
	folder := t.TempDir()
	for _, c := range []struct {
		name string
		vars vars
		want string // empty: it is right
	}{
		{"the defaults", vars{}, ""},
		{"the format of a log that there is not", vars{"LOG_FORMAT": "xml"}, `bridge.log.format (from LOG_FORMAT): invalid value "xml"; allowed: json|text`},
		{"a policy that there is not", vars{"PIPELINE_DROP_POLICY": "random"}, `bridge.pipeline.drop_policy (from PIPELINE_DROP_POLICY): invalid value "random"; allowed: oldest|newest|none`},

		{"no address", vars{"REDIS_ADDRESSES": " , "}, `bridge.redis.addresses (from REDIS_ADDRESSES): invalid value ""; allowed: host:port, several with commas`},
		{"an address without a port", vars{"REDIS_ADDRESSES": "a:1,redis"}, `bridge.redis.addresses (from REDIS_ADDRESSES): "redis" is no address`},
		{"an address with a port too high", vars{"REDIS_ADDRESSES": "a:65536"}, `"a:65536" is no address`},
		{"several addresses", vars{"REDIS_ADDRESSES": "a:1, b:2 [::1]:3"}, ""},
		{"no stream", vars{"REDIS_STREAM": `""`}, `bridge.redis.stream (from REDIS_STREAM): invalid value ""; allowed: not empty`},
		{"no group", vars{"REDIS_CONSUMER_GROUP": `""`}, `bridge.redis.consumer_group (from REDIS_CONSUMER_GROUP): invalid value ""`},
		{"an idle time below a second", vars{"REDIS_CLAIM_MIN_IDLE": "900ms"}, `bridge.redis.claim_min_idle (from REDIS_CLAIM_MIN_IDLE): invalid value "900ms"; allowed: `},
		{"a database of a cluster", vars{"REDIS_ADDRESSES": "a:1,b:2", "REDIS_DB": "3"}, `bridge.redis.db (from REDIS_DB): invalid value "3"; allowed: 0, because several addresses, bridge.redis.addresses (from REDIS_ADDRESSES), are a cluster`},
		{"a database behind sentinels", vars{"REDIS_ADDRESSES": "a:1,b:2", "REDIS_MASTER_NAME": "m", "REDIS_DB": "3"}, ""},
		{"a stream with braces", vars{"REDIS_STREAM": "a{b"}, `bridge.redis.stream (from REDIS_STREAM): invalid value "a{b"; allowed: braces only as a hash tag`},
		{"a stream with a hash tag", vars{"REDIS_STREAM": "{shop}:events"}, ""},
		{"no name", vars{"APP_NAME": `""`}, `bridge.app.name (from APP_NAME): invalid value ""`},
		{"one topic for messages and acknowledgments", vars{"MQTT_PUBLISH_TOPIC": "/a", "MQTT_SUBSCRIBE_TOPIC": "a"}, `bridge.mqtt.publish_topic (from MQTT_PUBLISH_TOPIC): invalid value "/a"; allowed: another topic than that of the acknowledgments, bridge.mqtt.subscribe_topic (from MQTT_SUBSCRIBE_TOPIC)`},
		{"one topic for the dead and acknowledgments", vars{"PIPELINE_DLQ_TOPIC": "a", "MQTT_SUBSCRIBE_TOPIC": "a"}, `bridge.dlq.topic (from PIPELINE_DLQ_TOPIC): invalid value "a"`},
		{"a topic called none", vars{"MQTT_PUBLISH_TOPIC": "none", "MQTT_SUBSCRIBE_TOPIC": "none"}, ""},
		{"a topic with half a field", vars{"MQTT_PUBLISH_TOPIC": "devices/{id"}, `bridge.mqtt.publish_topic (from MQTT_PUBLISH_TOPIC): topic "devices/{id": fields stand between braces`},
		{"a topic of dead letters with a field", vars{"PIPELINE_DLQ_TOPIC": "dlq/{device}"}, `bridge.dlq.topic (from PIPELINE_DLQ_TOPIC): invalid value "dlq/{device}"`},
		{"no broker", vars{"MQTT_BROKERS": ","}, `bridge.mqtt.brokers (from MQTT_BROKERS): invalid value ""; allowed: tcp://host:port`},
		{"a broker of another kind", vars{"MQTT_BROKERS": "http://a:1"}, `"http://a:1" is no address of an MQTT broker`},
		{"a broker with a port too high", vars{"MQTT_BROKERS": "tcp://a:65536"}, `"tcp://a:65536" is no address of an MQTT broker`},
		{"several brokers", vars{"MQTT_BROKERS": "tcp://a:1,ssl://b:8883,c"}, ""},
		{"no client id", vars{"MQTT_CLIENT_ID": `""`}, `bridge.mqtt.client_id (from MQTT_CLIENT_ID): invalid value ""`},
		{"no topic", vars{"MQTT_PUBLISH_TOPIC": `""`}, `bridge.mqtt.publish_topic (from MQTT_PUBLISH_TOPIC): invalid value ""`},
		{"a topic that is a slash", vars{"MQTT_PUBLISH_TOPIC": `/`}, `bridge.mqtt.publish_topic (from MQTT_PUBLISH_TOPIC): invalid value "/"`},
		{"a topic for many", vars{"MQTT_PUBLISH_TOPIC": `a/#`}, `nobody can publish`},
		{"a topic with a field", vars{"MQTT_PUBLISH_TOPIC": `/devices/{field}`}, ""},
		{"a prefix for many", vars{"MQTT_CUSTOM_PREFIX": `a/+`}, `bridge.mqtt.custom_prefix (from MQTT_CUSTOM_PREFIX): invalid value "a/+"`},
		{"no topic of dead letters", vars{"PIPELINE_DLQ_TOPIC": `""`}, `bridge.dlq.topic (from PIPELINE_DLQ_TOPIC): invalid value ""`},
		{"no topic of dead letters where there are none", vars{"PIPELINE_DLQ_TOPIC": `""`, "PIPELINE_DLQ_ENABLED": "false"}, ""},
		{"acknowledgments for many", vars{"MQTT_SUBSCRIBE_TOPIC": `acks/+`}, ""},
		{"acknowledgments from a slash", vars{"MQTT_SUBSCRIBE_TOPIC": `/`}, `bridge.mqtt.subscribe_topic (from MQTT_SUBSCRIBE_TOPIC)`},

		{"a database below 0", vars{"REDIS_DB": "-1"}, `bridge.redis.db (from REDIS_DB): invalid value "-1"; allowed: 0 or more`},
		{"retries below 0", vars{"REDIS_MAX_RETRIES": "-1"}, `bridge.redis.max_retries (from REDIS_MAX_RETRIES): invalid value "-1"; allowed: 0 or more`},
		{"attempts below 0", vars{"PIPELINE_RETRY_MAX_ATTEMPTS": "-1"}, `bridge.retry.max_attempts (from PIPELINE_RETRY_MAX_ATTEMPTS): invalid value "-1"`},
		{"no retries", vars{"REDIS_MAX_RETRIES": "0", "PIPELINE_RETRY_MAX_ATTEMPTS": "0"}, ""},
		{"no connections", vars{"REDIS_POOL_SIZE": "0"}, `bridge.redis.pool_size (from REDIS_POOL_SIZE): invalid value "0"; allowed: 1 or more, or like CPUs × 2`},
		{"nothing to take over", vars{"REDIS_CLAIM_BATCH_SIZE": "0"}, `bridge.redis.claim_batch_size (from REDIS_CLAIM_BATCH_SIZE): invalid value "0"; allowed: 1 or more`},
		{"nothing in flight", vars{"MQTT_MAX_INFLIGHT": "0"}, `bridge.mqtt.max_inflight (from MQTT_MAX_INFLIGHT): invalid value "0"`},
		{"nobody publishes", vars{"MQTT_PUBLISHER_POOL_SIZE": "0"}, `bridge.mqtt.publisher_pool_size (from MQTT_PUBLISHER_POOL_SIZE): invalid value "0"`},
		{"nothing read", vars{"REDIS_BATCH_SIZE": "0"}, `bridge.redis.batch_size (from REDIS_BATCH_SIZE): invalid value "0"`},
		{"nothing processed", vars{"PIPELINE_BATCH_SIZE": "0"}, `bridge.pipeline.batch_size (from PIPELINE_BATCH_SIZE): invalid value "0"`},
		{"nothing drained", vars{"REDIS_DRAIN_BATCH_SIZE": "-5"}, `bridge.redis.drain_batch_size (from REDIS_DRAIN_BATCH_SIZE): invalid value "-5"`},
		{"no step", vars{"RESOURCE_WORKER_STEP": "0"}, `bridge.resource.worker_step (from RESOURCE_WORKER_STEP): invalid value "0"`},
		{"no history", vars{"RESOURCE_HISTORY_WINDOW": "0"}, `bridge.resource.history_window (from RESOURCE_HISTORY_WINDOW): invalid value "0"`},
		{"a quality that there is not", vars{"MQTT_QOS": "3"}, `bridge.mqtt.qos (from MQTT_QOS): invalid value "3"; allowed: 0 to 2`},
		{"a quality below 0", vars{"MQTT_QOS": "-1"}, `bridge.mqtt.qos (from MQTT_QOS): invalid value "-1"`},

		{"a batch larger than the buffer", vars{"PIPELINE_BUFFER_SIZE": "512", "PIPELINE_BATCH_SIZE": "513"}, `bridge.pipeline.batch_size (from PIPELINE_BATCH_SIZE): invalid value "513"; allowed: at most the buffer's 512, bridge.pipeline.buffer_size (from PIPELINE_BUFFER_SIZE)`},
		{"a batch as large as the buffer", vars{"PIPELINE_BUFFER_SIZE": "512", "PIPELINE_BATCH_SIZE": "512"}, ""},
		{"a buffer that is no power of two", vars{"PIPELINE_BUFFER_SIZE": "1001"}, ""},
		{"no buffer", vars{"PIPELINE_BUFFER_SIZE": "0"}, `bridge.pipeline.buffer_size (from PIPELINE_BUFFER_SIZE): invalid value "0"; allowed: 1 to 4294967295`},
		{"a buffer beyond 32 bits", vars{"PIPELINE_BUFFER_SIZE": "4294967296"}, `bridge.pipeline.buffer_size (from PIPELINE_BUFFER_SIZE): invalid value "4294967296"`},

		{"a threshold of 0", vars{"PIPELINE_BACKPRESSURE_THRESHOLD": "0"}, `bridge.pipeline.backpressure_threshold (from PIPELINE_BACKPRESSURE_THRESHOLD): invalid value "0"; allowed: more than 0, at most 1`},
		{"a threshold of more than all", vars{"PIPELINE_BACKPRESSURE_THRESHOLD": "1.01"}, `invalid value "1.01"`},
		{"a threshold that is no number", vars{"PIPELINE_BACKPRESSURE_THRESHOLD": "NaN"}, `invalid value "NaN"`},
		{"a threshold of all", vars{"PIPELINE_BACKPRESSURE_THRESHOLD": "1"}, ""},
		{"a percentage of 0", vars{"CIRCUIT_BREAKER_ERROR_THRESHOLD": "0"}, `bridge.breaker.error_threshold (from CIRCUIT_BREAKER_ERROR_THRESHOLD): invalid value "0"; allowed: more than 0, at most 100`},
		{"a percentage above 100", vars{"RESOURCE_CPU_HIGH": "101"}, `bridge.resource.cpu_high (from RESOURCE_CPU_HIGH): invalid value "101"`},
		{"a percentage of memory above 100", vars{"RESOURCE_MEM_HIGH": "101"}, `bridge.resource.mem_high (from RESOURCE_MEM_HIGH): invalid value "101"`},
		{"percentages of 0", vars{"RESOURCE_CPU_LOW": "0", "RESOURCE_MEM_LOW": "0"}, `bridge.resource.cpu_low (from RESOURCE_CPU_LOW): invalid value "0"`},
		{"high is low", vars{"RESOURCE_CPU_HIGH": "30"}, `bridge.resource.cpu_high (from RESOURCE_CPU_HIGH): invalid value "30"; allowed: more than 30, bridge.resource.cpu_low (from default)`},
		{"high is below low", vars{"RESOURCE_MEM_LOW": "90.5"}, `bridge.resource.mem_high (from default): invalid value "80"; allowed: more than 90.5, bridge.resource.mem_low (from RESOURCE_MEM_LOW)`},

		{"no workers", vars{"RESOURCE_MIN_WORKERS": "0"}, `bridge.resource.min_workers (from RESOURCE_MIN_WORKERS): invalid value "0"; allowed: 1 or more`},
		{"more workers at least than at most", vars{"RESOURCE_MIN_WORKERS": "3", "RESOURCE_MAX_WORKERS": "2"}, `bridge.resource.min_workers (from RESOURCE_MIN_WORKERS): invalid value "3"; allowed: at most the maximum's 2, bridge.resource.max_workers (from RESOURCE_MAX_WORKERS)`},
		{"as many workers at least as at most", vars{"RESOURCE_MIN_WORKERS": "2", "RESOURCE_MAX_WORKERS": "2"}, ""},

		{"a port of 0", vars{"HEALTH_PORT": "0"}, `bridge.health.port (from HEALTH_PORT): invalid value "0"; allowed: 1 to 65535`},
		{"a port too high", vars{"METRICS_PORT": "65536"}, `bridge.metrics.port (from METRICS_PORT): invalid value "65536"`},
		{"one port for two", vars{"HEALTH_PORT": "9090"}, `bridge.health.port (from HEALTH_PORT): invalid value "9090"; allowed: another one than that of the metrics, bridge.metrics.port (from default)`},
		{"one port for two of which one is off", vars{"HEALTH_PORT": "9090", "METRICS_ENABLED": "false"}, ""},

		{"a file that is missing", vars{"MQTT_CA_CERT": "/nowhere/ca.pem"}, `bridge.mqtt.ca_cert (from MQTT_CA_CERT): open /nowhere/ca.pem: `},
		{"a file that is a folder", vars{"MQTT_CA_CERT": folder}, `bridge.mqtt.ca_cert (from MQTT_CA_CERT): read ` + folder},
		{"a file that is something else", vars{"MQTT_CA_CERT": text}, `bridge.mqtt.ca_cert (from MQTT_CA_CERT): ` + text + ` has no certificate in it; allowed: a readable PEM file`},
		{"a certificate that is missing", vars{"MQTT_CLIENT_CERT": "/nowhere/cert.pem", "MQTT_CLIENT_KEY": key}, `bridge.mqtt.client_cert (from MQTT_CLIENT_CERT): open /nowhere/cert.pem`},
		{"a key that is missing", vars{"MQTT_CLIENT_CERT": cert, "MQTT_CLIENT_KEY": "/nowhere/key.pem"}, `bridge.mqtt.client_key (from MQTT_CLIENT_KEY): open /nowhere/key.pem`},
		{"a certificate without a key", vars{"MQTT_CLIENT_CERT": cert}, `needs its key`},
		{"a key without a certificate", vars{"MQTT_CLIENT_KEY": key}, `needs its certificate`},
		{"a key of another certificate", vars{"MQTT_CLIENT_CERT": cert, "MQTT_CLIENT_KEY": otherKey}, `are no pair`},
		{"files as they should be", vars{"MQTT_CA_CERT": cert, "MQTT_CLIENT_CERT": cert, "MQTT_CLIENT_KEY": key}, ""},
		{"a version of TLS that is too old", vars{"MQTT_TLS_MIN_VERSION": "TLS1.1"}, `bridge.mqtt.tls_min_version (from MQTT_TLS_MIN_VERSION): invalid value "TLS1.1"; allowed: TLS1.2|TLS1.3`},
		{"a cipher suite that there is not", vars{"MQTT_TLS_CIPHER_SUITES": "TLS_ROT13"}, `bridge.mqtt.tls_cipher_suites (from MQTT_TLS_CIPHER_SUITES): "TLS_ROT13" is no secure cipher suite`},
		{"a cipher suite that is insecure", vars{"MQTT_TLS_CIPHER_SUITES": "TLS_RSA_WITH_RC4_128_SHA"}, `is no secure cipher suite`},

		{"no bucket", vars{"METRICS_HISTOGRAM_BUCKETS": ","}, `bridge.metrics.histogram_buckets (from METRICS_HISTOGRAM_BUCKETS): invalid value ""; allowed: growing numbers, at least one`},
		{"buckets that do not grow", vars{"METRICS_HISTOGRAM_BUCKETS": "1 1"}, `invalid value "1,1"`},
		{"a bucket that is no number", vars{"METRICS_HISTOGRAM_BUCKETS": "1 NaN"}, `invalid value "1,NaN"`},
		{"no namespace", vars{"METRICS_NAMESPACE": `""`}, `bridge.metrics.namespace (from METRICS_NAMESPACE): invalid value ""; allowed: letters, digits and _, not empty`},
		{"a namespace that no metric can have", vars{"METRICS_NAMESPACE": "syslog-consumer"}, `invalid value "syslog-consumer"`},
		{"a namespace that begins with a digit", vars{"METRICS_NAMESPACE": "1st"}, `invalid value "1st"`},
		{"a subsystem that no metric can have", vars{"METRICS_SUBSYSTEM": "a b"}, `bridge.metrics.subsystem (from METRICS_SUBSYSTEM): invalid value "a b"`},

		{"a word for a number", vars{"REDIS_DB": "zero"}, `REDIS_DB: "zero" is not a whole number; allowed: 0 or more`},
		{"a word for a number with a point", vars{"PIPELINE_RETRY_MULTIPLIER": "double"}, `PIPELINE_RETRY_MULTIPLIER: "double" is not a number; allowed: 1 or more`},
		{"a word for a switch", vars{"HEALTH_ENABLED": "maybe"}, `HEALTH_ENABLED: "maybe" is neither true nor false`},
		{"a word for a time", vars{"REDIS_BLOCK_TIME": "soon"}, `REDIS_BLOCK_TIME: "soon" is not a duration: write 500ms, 5s, 10m, 24h or 7d; allowed: more than 0; a number alone is seconds`},
		{"a word for a time of milliseconds", vars{"PIPELINE_FLUSH_INTERVAL": "1.5"}, `PIPELINE_FLUSH_INTERVAL: "1.5" is not a duration: write 500ms, 5s, 10m, 24h or 7d; allowed: more than 0; a number alone is milliseconds`},
		{"a time below 0", vars{"MQTT_WRITE_TIMEOUT": "-1s"}, `bridge.mqtt.write_timeout (from MQTT_WRITE_TIMEOUT): invalid value "-1s"; allowed: more than 0; a number alone is seconds`},
		{"signs of life too seldom", vars{"MQTT_KEEP_ALIVE": "19h"}, `bridge.mqtt.keep_alive (from MQTT_KEEP_ALIVE): invalid value "19h0m0s"; allowed: 1s to 18h12m15s; a number alone is seconds`},
		{"CPUs that are none", vars{"PIPELINE_CPU_AFFINITY": "0,all"}, `PIPELINE_CPU_AFFINITY: "all" is no number of a CPU and no range of them; allowed: numbers and ranges, like 0,2-3`},
		{"a range of CPUs that runs backwards", vars{"PIPELINE_CPU_AFFINITY": "3-1"}, `"3-1" is no number of a CPU`},
		{"a CPU that no machine has", vars{"PIPELINE_CPU_AFFINITY": "0-16384"}, `"0-16384" is no number of a CPU`},

		{"a broker that anybody may use", vars{"TIDEMILL_BRIDGE_BROKER_LISTEN": "0.0.0.0:1883"}, `bridge.broker.listen (from TIDEMILL_BRIDGE_BROKER_LISTEN): 0.0.0.0:1883 can be reached from other machines`},
		{"a broker with a user and no password", vars{"TIDEMILL_BRIDGE_BROKER_LISTEN": ":1883", "TIDEMILL_BRIDGE_BROKER_USER": "u"}, `can be reached from other machines`},
		{"a broker with user and password", vars{"TIDEMILL_BRIDGE_BROKER_LISTEN": ":1883", "TIDEMILL_BRIDGE_BROKER_USER": "u", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "p"}, ""},
		{"a broker with a user alone", vars{"TIDEMILL_BRIDGE_BROKER_USER": "u"}, `bridge.broker.user (from TIDEMILL_BRIDGE_BROKER_USER): a user and a password are given together`},
		{"a broker with a password alone", vars{"TIDEMILL_BRIDGE_BROKER_PASSWORD": "canary"}, `bridge.broker.user (from default): a user and a password are given together`},
		{"a broker without room for the bridge", vars{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS": "2"}, `bridge.broker.connections (from TIDEMILL_BRIDGE_BROKER_CONNECTIONS): invalid value "2"; allowed: more than 2, which are the bridge's own (bridge.mqtt.publisher_pool_size (from default))`},
		{"a broker with room for one more", vars{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS": "3", "TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS": "2"}, ""},
		{"a broker without room for the bridge's address", vars{"TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS": "1"}, `bridge.broker.connections_per_address (from TIDEMILL_BRIDGE_BROKER_CONNECTIONS_PER_ADDRESS): invalid value "1"; allowed: 2 or more`},
		{"more that publish than one address may have", vars{"MQTT_PUBLISHER_POOL_SIZE": "500"}, `bridge.broker.connections_per_address (from default): invalid value "0"; allowed: 501 or more`},
		{"a broker that is not used", vars{"TIDEMILL_BRIDGE_BROKER_LISTEN": ":1883", "MQTT_BROKERS": "tcp://m:1"}, ""},
		{"a broker that listens nowhere", vars{"TIDEMILL_BRIDGE_BROKER_LISTEN": "1883"}, `bridge.broker.listen (from TIDEMILL_BRIDGE_BROKER_LISTEN): invalid value "1883"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := schema.Load(config.Layers{Machine: box, Getenv: env(c.vars)})
			if err != nil {
				t.Fatalf("who does not run the bridge is disturbed: %v", err)
			}
			err = Of(l).Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check() = %v, want %q", err, c.want)
			}
			// A mistake is said once.
			if err != nil && strings.Count(err.Error(), "\n") > 0 && c.name != "percentages of 0" {
				t.Errorf("Check() says more than one thing: %v", err)
			}
		})
	}
}

func TestEveryMistakeOfTheBridgeIsNamedAtOnce(t *testing.T) {
	path := file(t, "bridge:\n  redis:\n    db: minus\n  mqtt:\n    qos: 7\n  health:\n    port: high\n")
	c, err := schema.Load(config.Layers{File: path, Getenv: env(vars{"REDIS_POOL_SIZE": "x", "METRICS_PORT": "0"}),
		Flags: map[string]string{"bridge.retry.multiplier": "y", "bridge.redis.batch_size": "0", "bridge.health.port": "8081"}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(Of(c).Check().Error(), "\n")
	want := []string{
		path + `:3: bridge.redis.db: "minus" is not a whole number; allowed: 0 or more`,
		`REDIS_POOL_SIZE: "x" is not a whole number; allowed: 1 or more, or like CPUs × 2`,
		`bridge.redis.batch_size (from --redis-batch-size): invalid value "0"; allowed: 1 or more`,
		`bridge.mqtt.qos (from ` + path + `:5): invalid value "7"; allowed: 0 to 2`,
		`--pipeline-retry-multiplier: "y" is not a number; allowed: 1 or more`,
		path + `:7: bridge.health.port: "high" is not a whole number; allowed: 1 to 65535`,
		`bridge.metrics.port (from METRICS_PORT): invalid value "0"; allowed: 1 to 65535`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("Check() =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// What could not be read is not in force.
	if Of(c).Redis.DB != 0 || c.From["bridge.redis.db"] != "default" {
		t.Errorf("database %d from %s", Of(c).Redis.DB, c.From["bridge.redis.db"])
	}
}

func TestTheFileIsStillOneThatThereIs(t *testing.T) {
	_, err := schema.Load(config.Layers{File: file(t, "bridge:\n  redis:\n    adresses: r:1\n")})
	if err == nil || !strings.Contains(err.Error(), ":3: there is no setting bridge.redis.adresses; did you mean bridge.redis.addresses?") {
		t.Errorf("Load = %v", err)
	}
}

func TestTheBridgesSecretsAreNeverWritten(t *testing.T) {
	all := vars{"REDIS_PASSWORD": "canary-1", "MQTT_PASSWORD": "canary-2", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "canary-3",
		"REDIS_ADDRESSES": "u:canary-4@h:1,redis://canary-5@h:2", "MQTT_BROKERS": "tcp://u:canary-6@h:1"}
	c, err := schema.Load(config.Layers{Getenv: env(all), Flags: map[string]string{"bridge.redis.password": "canary-7"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%v %+v %v", c.Config, c.Config, Of(c).Check())
	if strings.Contains(b.String(), "canary") {
		t.Errorf("a secret is shown: %s", b.String())
	}
	if n := strings.Count(b.String(), `password: "[secret]"`); n != 3 {
		t.Errorf("%d passwords are shown as set, want 3", n)
	}
	if Of(c).Redis.Password.Reveal() != "canary-7" {
		t.Error("the flag's password is not used")
	}
}

// TestBrokersThatPassCanBeReached compares with who connects to them.
func TestBrokersThatPassCanBeReached(t *testing.T) {
	for _, a := range []string{"a", "a:1", "tcp://a", "tcp://a:1", "mqtt://a:1", "ssl://a:1", "tls://a:1", "mqtts://a", "tcp://[::1]:1883", "tcp://a:1/",
		"", "://", "tcp://", "tcp://:1", "tcp://a:b", "tcp://a:0", "http://a:1", "ws://a:1", "tcp://a:1/x", "tcp://a:1?x=y", "tcp://a b:1"} {
		_, err := mqttconn.ParseBroker(a)
		if got := brokerAddress(a); got && err != nil {
			t.Errorf("%q passes, and then: %v", a, err)
		} else if !got && err == nil {
			t.Errorf("%q is refused, but could be reached", a)
		}
	}
}

func TestTheLogOfTheBridge(t *testing.T) {
	servers := vars{"REDIS_ADDRESSES": "r:1"}
	with := func(more vars) func(string) string {
		return func(k string) string {
			if v := more[k]; v != "" {
				return v
			}
			return servers[k]
		}
	}
	both := file(t, "log: {level: warn, format: text}\nbridge:\n  log: {level: error, format: json}\n")
	own := file(t, "log: {level: warn, format: text}\n")
	for _, c := range []struct {
		name   string
		l      config.Layers
		alone  Log // without the bridge
		bridge Log // with it
	}{
		{"nothing is given, embedded", config.Layers{}, Log{"info", "text"}, Log{"info", "text"}},
		{"nothing is given, on servers", config.Layers{Getenv: with(nil)}, Log{"info", "text"}, Log{"info", "json"}},
		{"the bridge's variables", config.Layers{Getenv: env(vars{"LOG_LEVEL": "trace", "LOG_FORMAT": "json"})}, Log{"trace", "text"}, Log{"trace", "json"}},
		{"our own variables", config.Layers{Getenv: with(vars{"TIDEMILL_LOG_LEVEL": "warn", "TIDEMILL_LOG_FORMAT": "text"})}, Log{"warn", "text"}, Log{"warn", "text"}},
		{"our own variables beside the bridge's", config.Layers{Getenv: with(vars{"TIDEMILL_LOG_LEVEL": "warn", "TIDEMILL_LOG_FORMAT": "text", "LOG_LEVEL": "panic", "LOG_FORMAT": "json"})}, Log{"warn", "text"}, Log{"warn", "text"}},
		{"a format that there is not", config.Layers{Getenv: env(vars{"LOG_FORMAT": "xml"})}, Log{"info", "text"}, Log{"info", "xml"}},
		{"our own file, on servers", config.Layers{File: own, Getenv: with(nil)}, Log{"warn", "text"}, Log{"warn", "text"}},
		{"both in the file", config.Layers{File: both}, Log{"warn", "text"}, Log{"error", "json"}},
		{"a variable over our own file", config.Layers{File: own, Getenv: env(vars{"LOG_FORMAT": "json"})}, Log{"warn", "text"}, Log{"warn", "json"}},
		{"our own flag over a variable", config.Layers{Getenv: env(vars{"LOG_LEVEL": "error"}), Flags: map[string]string{"log.level": "debug"}}, Log{"debug", "text"}, Log{"debug", "text"}},
		{"the bridge's flag", config.Layers{Getenv: env(vars{"LOG_LEVEL": "error"}), Flags: map[string]string{"bridge.log.level": "debug"}}, Log{"error", "text"}, Log{"debug", "text"}},
		{"both flags", config.Layers{Flags: map[string]string{"log.level": "debug", "bridge.log.level": "fatal"}}, Log{"debug", "text"}, Log{"fatal", "text"}},
	} {
		l := load(t, c.l)
		if got := l.LogOf(nil); got != config.Log(c.alone) {
			t.Errorf("%s: without the bridge %v, want %v", c.name, got, c.alone)
		}
		if got := l.LogOf([]string{"bridge"}); got != config.Log(c.bridge) {
			t.Errorf("%s: with the bridge %v, want %v", c.name, got, c.bridge)
		}
	}
}
