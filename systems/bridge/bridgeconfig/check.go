package bridgeconfig

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/bridge"
)

// Check refuses what the bridge cannot start with. Its error names every mistake: the
// variable, flag or line of the file, the value (never a secret's) and what is allowed.
func (b *Settings) Check() error {
	k := check{config.NewChecker(b.c, Group.Name), b}
	k.Limits()
	k.addresses()
	k.stream()
	k.topics()
	k.pipeline()
	k.ports()
	k.tls()
	k.metrics()
	return k.Err()
}

// check collects what is wrong.
type check struct {
	*config.Checker
	bridge *Settings
}

func (k *check) addresses() {
	b := k.bridge
	const redis, mqtt, listen = "redis.addresses", "mqtt.brokers", "broker.listen"
	k.OK(len(b.Redis.Addresses) > 0, redis)
	for _, a := range b.Redis.Addresses {
		if strings.Contains(a, "@") {
			k.Fail(redis, "give user and password by REDIS_USERNAME and REDIS_PASSWORD, not in the address%s", k.Allowed(redis))
		} else if !hostPort(a) {
			k.Fail(redis, "%q is no address%s", config.URL(a), k.Allowed(redis))
		}
	}
	k.OK(len(b.MQTT.Brokers) > 0, mqtt)
	for _, a := range b.MQTT.Brokers {
		if strings.Contains(a, "@") {
			k.Fail(mqtt, "give user and password by MQTT_USERNAME and MQTT_PASSWORD, not in the address%s", k.Allowed(mqtt))
		} else if !brokerAddress(a) {
			k.Fail(mqtt, "%q is no address of an MQTT broker%s", config.URL(a), k.Allowed(mqtt))
		}
	}
	host, port, err := net.SplitHostPort(b.Broker.Listen)
	n, perr := strconv.ParseUint(port, 10, 16)
	k.OK(err == nil && perr == nil && n <= math.MaxUint16, listen)
	if err == nil && b.Embedded() && !config.Loopback(host) && (b.Broker.User == "" || b.Broker.Password.IsZero()) {
		k.Fail(listen, "%s can be reached from other machines, so bridge.broker.user and bridge.broker.password are needed; or listen on 127.0.0.1", b.Broker.Listen)
	} else if b.Embedded() && (b.Broker.User == "") != b.Broker.Password.IsZero() {
		k.Fail("broker.user", "a user and a password are given together: without a user anybody is let in, and nobody is without a password")
	}
	// The bridge is a client of its broker like others.
	own := b.MQTT.PublisherPoolSize
	if b.MQTT.AckTopic() != "" {
		own++
	}
	if b.Embedded() && k.Readable("broker.connections", "broker.connections_per_address", "mqtt.publisher_pool_size") {
		if b.Broker.Connections <= own {
			k.Refuse("broker.connections", b.Broker.Connections, "more than %d, which are the bridge's own (%s)", own, k.Place("mqtt.publisher_pool_size"))
		}
		if most := cmp.Or(b.Broker.PerAddress, max(b.Broker.Connections/2, 64)); most > 0 && most < own {
			k.Refuse("broker.connections_per_address", b.Broker.PerAddress, "%d or more, which are the bridge's own (%s), or -1", own, k.Place("mqtt.publisher_pool_size"))
		}
	}
	if b.Embedded() && b.Broker.AdminUser != "" && (b.Broker.User == "" || b.Broker.AdminUser == b.Broker.User || b.Broker.AdminPassword.IsZero()) {
		k.Fail("broker.admin_user", "an administrator needs bridge.broker.admin_password, and bridge.broker.user beside, who is another one: without users anybody would be let in")
	}
	k.OK(b.Broker.Waiting > 0, "broker.waiting")
	k.OK(b.Broker.RetainedSize > 0, "broker.retained_size")
}

// stream refuses what a Redis could not do.
func (k *check) stream() {
	r := &k.bridge.Redis
	if len(r.Addresses) > 1 && r.MasterName == "" && r.DB != 0 {
		k.Refuse("redis.db", r.DB, "0, because several addresses, %s, are a cluster, which has no other", k.Place("redis.addresses"))
	}
	// What the bridge keeps beside the stream has to lie on the stream's node.
	tag := r.Stream
	if from := strings.IndexByte(tag, '{'); from >= 0 {
		if to := strings.IndexByte(tag[from+1:], '}'); to > 0 {
			return
		}
	}
	if strings.ContainsAny(tag, "{}") {
		k.Refuse("redis.stream", r.Stream, "braces only as a hash tag, as in {shop}:events")
	}
}

// hostPort says whether an address is a host and a port that can be connected to.
func hostPort(a string) bool {
	host, port, err := net.SplitHostPort(a)
	n, perr := strconv.ParseUint(port, 10, 16)
	return err == nil && perr == nil && host != "" && n > 0 && !strings.Contains(host, "/")
}

// brokerAddress says whether an address is one of an MQTT broker over TCP: scheme and port
// may be missing.
func brokerAddress(a string) bool {
	scheme, rest, found := strings.Cut(a, "://")
	if !found {
		scheme, rest = "tcp", a
	}
	u, err := url.Parse("tcp://" + rest)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return slices.Contains([]string{"tcp", "mqtt", "ssl", "tls", "mqtts"}, scheme)
}

// publishable is what a topic is that messages are published to.
const publishable = "no +, # or NUL, which nobody can publish to"

func (k *check) topics() {
	b := k.bridge
	publish := func(topic, path string) {
		if err := bridge.CheckTopic(topic); err != nil && strings.ContainsAny(topic, "{}") {
			k.Fail(path, "%v", err)
		} else if strings.ContainsAny(topic, "+#\x00") {
			k.Refuse(path, topic, publishable)
		} else if strings.TrimPrefix(topic, "/") == "" && k.Readable(path) {
			k.Refuse(path, topic, "not empty, beside a leading /")
		}
	}
	publish(b.MQTT.PublishTopic, "mqtt.publish_topic")
	acks := strings.TrimPrefix(b.MQTT.AckTopic(), "/")
	if acks != "" && acks == strings.TrimPrefix(b.MQTT.PublishTopic, "/") {
		k.Refuse("mqtt.publish_topic", b.MQTT.PublishTopic, "another topic than that of the acknowledgments, %s, or the bridge hears its own messages", k.Place("mqtt.subscribe_topic"))
	}
	if b.DLQ.Enabled {
		publish(b.DLQ.Topic, "dlq.topic")
		if strings.ContainsAny(b.DLQ.Topic, "{}") {
			k.Refuse("dlq.topic", b.DLQ.Topic, "a topic without fields: its receivers must know it")
		}
		if acks != "" && acks == strings.TrimPrefix(b.DLQ.Topic, "/") {
			k.Refuse("dlq.topic", b.DLQ.Topic, "another topic than that of the acknowledgments, %s", k.Place("mqtt.subscribe_topic"))
		}
	}
	if strings.ContainsAny(b.MQTT.CustomPrefix, "+#\x00") {
		k.Refuse("mqtt.custom_prefix", b.MQTT.CustomPrefix, publishable)
	}
	if t := b.MQTT.SubscribeTopic; t == "/" || strings.Contains(t, "\x00") {
		k.Refuse("mqtt.subscribe_topic", t, "a topic; or empty, and the broker's own acknowledgment counts")
	}
}

func (k *check) pipeline() {
	b := k.bridge
	if p := &b.Pipeline; k.Readable("pipeline.batch_size", "pipeline.buffer_size") && p.BatchSize > p.BufferSize {
		k.Refuse("pipeline.batch_size", p.BatchSize, "at most the buffer's %d, %s", p.BufferSize, k.Place("pipeline.buffer_size"))
	}
	r := &b.Resource
	if k.Readable("resource.min_workers", "resource.max_workers") && r.MinWorkers > r.MaxWorkers {
		k.Refuse("resource.min_workers", r.MinWorkers, "at most the maximum's %d, %s", r.MaxWorkers, k.Place("resource.max_workers"))
	}
	above := func(high, low float64, highPath, lowPath string) {
		if k.Readable(highPath, lowPath) && high <= low {
			k.Refuse(highPath, high, "more than %v, %s", low, k.Place(lowPath))
		}
	}
	above(r.CPUHigh, r.CPULow, "resource.cpu_high", "resource.cpu_low")
	above(r.MemHigh, r.MemLow, "resource.mem_high", "resource.mem_low")
}

// ports refuses two listeners on one port, as far as both are used.
func (k *check) ports() {
	h, m := &k.bridge.Health, &k.bridge.Metrics
	if h.Enabled && m.Enabled && k.Readable("health.port", "metrics.port") && h.Port == m.Port {
		k.Refuse("health.port", h.Port, "another one than that of the metrics, %s", k.Place("metrics.port"))
	}
}

// tls reads the files, so that one that cannot be used is known before anything starts.
func (k *check) tls() {
	m := &k.bridge.MQTT
	const ca, cert, key, suites = "mqtt.ca_cert", "mqtt.client_cert", "mqtt.client_key", "mqtt.tls_cipher_suites"
	read := func(name, path string) []byte {
		if name == "" {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			k.Fail(path, "%v%s", err, k.Allowed(path))
			return nil
		}
		return b
	}
	if b := read(m.CACert, ca); b != nil && !x509.NewCertPool().AppendCertsFromPEM(b) {
		k.Fail(ca, "%s has no certificate in it%s", m.CACert, k.Allowed(ca))
	}
	c, p := read(m.ClientCert, cert), read(m.ClientKey, key)
	switch {
	case m.ClientCert != "" && m.ClientKey == "":
		k.Fail(cert, "%s needs its key%s", m.ClientCert, k.Allowed(cert))
	case m.ClientCert == "" && m.ClientKey != "":
		k.Fail(key, "%s needs its certificate%s", m.ClientKey, k.Allowed(key))
	case c != nil && p != nil:
		if _, err := tls.X509KeyPair(c, p); err != nil {
			k.Fail(cert, "%s and %s are no pair: %v%s", m.ClientCert, m.ClientKey, err, k.Allowed(cert))
		}
	}
	if _, err := m.CipherSuites(); err != nil {
		k.Fail(suites, "%v%s", err, k.Allowed(suites))
	}
}

func (k *check) metrics() {
	m := &k.bridge.Metrics
	word := func(r rune) bool {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	k.OK(m.Namespace != "" && strings.TrimFunc(m.Namespace, word) == "" && (m.Namespace[0] < '0' || m.Namespace[0] > '9'), "metrics.namespace")
	k.OK(strings.TrimFunc(m.Subsystem, word) == "", "metrics.subsystem")
	grows := len(m.HistogramBuckets) > 0
	for i, v := range m.HistogramBuckets {
		grows = grows && !math.IsNaN(v) && !math.IsInf(v, 0) && (i == 0 || v > m.HistogramBuckets[i-1])
	}
	k.OK(grows, "metrics.histogram_buckets")
}
