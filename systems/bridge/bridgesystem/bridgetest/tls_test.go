//go:build unix

package bridgetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/internal/testenv/testca"
)

var ofTLS = []scenario{
	{"who is believed, and how it is talked", []string{"MQTT_TLS_ENABLED", "MQTT_CA_CERT", "MQTT_TLS_INSECURE", "MQTT_TLS_SERVER_NAME",
		"MQTT_TLS_MIN_VERSION", "MQTT_TLS_CIPHER_SUITES", "MQTT_TLS_PREFER_SERVER_CIPHERS"}, clientHello},
	{"a client certificate and its name before every topic", []string{"MQTT_CLIENT_CERT", "MQTT_CLIENT_KEY", "MQTT_USE_USER_PREFIX"}, mutualTLS},
}

func newAuthority(t *testing.T) *testca.Authority {
	a := testca.New(t)
	a.Issue("broker", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"broker.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return a
}

// watched is the TLS of a broker that notes how clients greet it.
type watched struct {
	mu     sync.Mutex
	hellos []*tls.ClientHelloInfo
}

func (w *watched) config(t *testing.T, a *testca.Authority) *tls.Config {
	pair, err := tls.LoadX509KeyPair(a.File("broker.crt"), a.File("broker.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hellos = append(w.hellos, h)
		return nil, nil
	}}
}

func (w *watched) first() *tls.ClientHelloInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hellos) == 0 {
		return &tls.ClientHelloInfo{}
	}
	return w.hellos[0]
}

func clientHello(t *testing.T, g *given) {
	a := newAuthority(t)
	ca := a.File("ca.crt")
	const suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
	for name, c := range map[string]struct {
		settings env
		plain    bool // the address says nothing of TLS
		in       bool
		sees     func(*tls.ClientHelloInfo, *rig) bool
	}{
		"by its scheme":             {settings: env{"MQTT_CA_CERT": ca}, in: true},
		"by a certificate":          {settings: env{"MQTT_CA_CERT": ca}, plain: true, in: true},
		"because it is told":        {settings: env{"MQTT_TLS_ENABLED": "true", "MQTT_TLS_INSECURE": "true"}, plain: true, in: true},
		"not at all":                {settings: env{"MQTT_TLS_ENABLED": "false"}, plain: true},
		"of an unknown authority":   {settings: env{"MQTT_TLS_ENABLED": "true"}},
		"of another name":           {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_SERVER_NAME": "elsewhere.example"}},
		"of another name, insecure": {settings: env{"MQTT_TLS_INSECURE": "true", "MQTT_TLS_SERVER_NAME": "elsewhere.example"}, in: true},
		"of a name": {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_SERVER_NAME": "broker.example"}, in: true,
			sees: func(h *tls.ClientHelloInfo, _ *rig) bool { return h.ServerName == "broker.example" }},
		"1.3 at least": {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_MIN_VERSION": "TLS1.3"}, in: true,
			sees: func(h *tls.ClientHelloInfo, _ *rig) bool { return slices.Min(h.SupportedVersions) == tls.VersionTLS13 }},
		"1.2 at least": {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_MIN_VERSION": "TLS1.2"}, in: true,
			sees: func(h *tls.ClientHelloInfo, _ *rig) bool {
				return slices.Min(h.SupportedVersions) == tls.VersionTLS12
			}},
		"one suite": {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_CIPHER_SUITES": suite}, in: true,
			sees: func(h *tls.ClientHelloInfo, _ *rig) bool {
				return slices.Contains(h.CipherSuites, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384) && !slices.Contains(h.CipherSuites, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
			}},
		"the broker's choice": {settings: env{"MQTT_CA_CERT": ca, "MQTT_TLS_PREFER_SERVER_CIPHERS": "true"}, in: true,
			sees: func(_ *tls.ClientHelloInfo, r *rig) bool {
				return len(r.log.lines("without effect", "MQTT_TLS_PREFER_SERVER_CIPHERS")) == 1
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watched{}
			r := g.prepare(t, c.settings)
			r.broker = newBroker(t, w.config(t, a))
			r.env["MQTT_BROKERS"] = r.broker.URL
			if c.plain {
				r.env["MQTT_BROKERS"] = "tcp" + strings.TrimPrefix(r.broker.URL, "tls")
			}
			r.add(1)
			r.run()
			if c.in {
				eventually(t, "it is published", func() bool { return r.broker.distinct() == 1 })
			} else {
				eventually(t, "it is refused", func() bool { return len(r.broker.dials()) > 1 })
				if r.broker.distinct() != 0 {
					t.Error("it was published")
				}
			}
			if c.sees != nil && !c.sees(w.first(), r) {
				t.Errorf("it greets with %+v, and says\n%s", w.first(), r.log)
			}
		})
	}
}

// port is one that nobody listens on, and that the system gives to no outgoing connection.
func port(t testing.TB) int {
	t.Helper()
	for range 100 {
		n := 18_000 + mathrand.IntN(8_000)
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", n)); err == nil {
			_ = l.Close()
			return n
		}
	}
	t.Fatal("no port is free")
	return 0
}

func mutualTLS(t *testing.T, g *given) {
	testenv.Need(t)
	a := newAuthority(t)
	a.Issue("device-7", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	secure := port(t)
	s := testenv.Start(t, testenv.PrivateMosquitto, fmt.Sprintf("MOSQUITTO_SETTINGS=listener %d 127.0.0.1\ncafile %s\ncertfile %s\nkeyfile %s\nrequire_certificate true\n",
		secure, a.File("ca.crt"), a.File("broker.crt"), a.File("broker.key")))
	far := listenTo(t, s.URL, "#")
	for _, c := range []struct{ prefix, topic string }{{"true", "device-7/up"}, {"false", "custom/up"}} {
		r := g.prepare(t, env{"MQTT_CA_CERT": a.File("ca.crt"), "MQTT_CLIENT_CERT": a.File("device-7.crt"), "MQTT_CLIENT_KEY": a.File("device-7.key"),
			"MQTT_USE_USER_PREFIX": c.prefix, "MQTT_CUSTOM_PREFIX": "custom", "MQTT_PUBLISH_TOPIC": "up", "MQTT_SUBSCRIBE_TOPIC": "acks", "PIPELINE_RETRY_ENABLED": "false"})
		r.env["MQTT_BROKERS"] = fmt.Sprintf("ssl://127.0.0.1:%d", secure)
		r.run()
		id := r.add(1)[0]
		eventually(t, "it comes under "+c.topic, func() bool { return far.topic(id) == c.topic })
		prefix, _, _ := strings.Cut(c.topic, "/")
		far.publish(prefix+"/acks", no(id))
		eventually(t, "the letter has the prefix too", func() bool { return far.saw(prefix + "/" + r.env["PIPELINE_DLQ_TOPIC"]) })
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	// The common name is the user, where none is set.
	b := newBroker(t, (&watched{}).config(t, a))
	for _, user := range []string{"", "ann"} {
		r := g.prepare(t, env{"MQTT_CA_CERT": a.File("ca.crt"), "MQTT_CLIENT_CERT": a.File("device-7.crt"), "MQTT_CLIENT_KEY": a.File("device-7.key"), "MQTT_USERNAME": user})
		r.broker, r.env["MQTT_BROKERS"] = b, b.URL
		r.run()
		r.add(1)
	}
	eventually(t, "both connect", func() bool { return b.distinct() == 2 })
	b.set(func() {
		var users []string
		for _, h := range b.hellos {
			users = append(users, string(h.Connect.Username))
		}
		if slices.Sort(users); !slices.Equal(users, []string{"ann", "device-7"}) {
			t.Errorf("the users are %q", users)
		}
	})
}

// side is a receiver on a real broker.
type side struct {
	t      testing.TB
	client *mqttconn.Client

	mu  sync.Mutex
	got []published
}

// listenTo subscribes to a filter on a real broker, until the test ends.
func listenTo(t testing.TB, url, filter string) *side {
	t.Helper()
	client, err := mqttconn.Start([]string{url}, mqttconn.Options{ClientID: testenv.Name("far-"), Session: time.Hour, MaxDelay: 100 * time.Millisecond, Inbox: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Subscribe(t.Context(), mqttconn.Subscription{Filter: filter, QoS: 2}); err != nil {
		t.Fatal(err)
	}
	s := &side{t: t, client: client}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		into := make([]mqttconn.Delivery, 100)
		for {
			n, err := client.Receive(ctx, into)
			if err != nil {
				return
			}
			s.mu.Lock()
			for _, d := range into[:n] {
				s.got = append(s.got, published{Topic: string(d.Topic), Payload: string(d.Payload), QoS: d.QoS, Retain: d.Retain, At: time.Now()})
				client.Ack(d.Receipt)
			}
			s.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		stop()
		reading.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx)
	})
	return s
}

// topic that an entry came under.
func (s *side) topic(id string) string {
	for _, p := range s.all() {
		if p.ID() == id {
			return p.Topic
		}
	}
	return ""
}

// saw says whether something came under a topic.
func (s *side) saw(topic string) bool {
	return slices.ContainsFunc(s.all(), func(p published) bool { return p.Topic == topic })
}

func (s *side) all() []published { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.got) }

// publish sends until the broker has it.
func (s *side) publish(topic string, payloads ...string) {
	s.t.Helper()
	var left []mqttconn.Message
	for _, p := range payloads {
		left = append(left, mqttconn.Message{Topic: topic, QoS: 1, Payload: []byte(p)})
	}
	eventually(s.t, "the receiver can publish", func() bool {
		return s.client.Publish(s.t.Context(), left) == nil
	})
}
