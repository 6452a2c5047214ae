package mqttsink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/sink/mqttsink"
	"github.com/tidemill/tidemill/sink/sinktest"
)

func shut(t testing.TB, c *mqttconn.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func open(t testing.TB, url string, n int, o mqttconn.Options) []*mqttconn.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	clients, err := mqttconn.OpenSeveral(ctx, n, []string{url}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range clients {
			shut(t, c)
		}
	})
	return clients
}

// recorder keeps what comes in on a topic.
type recorder struct {
	mu   sync.Mutex
	kept [][]byte
	more chan struct{}
}

func record(t *testing.T, url, topic string) *recorder {
	c := open(t, url, 1, mqttconn.Options{ClientID: testenv.Name("recorder"), Session: time.Minute, Inbox: 5000})[0]
	if err := c.Subscribe(t.Context(), mqttconn.Subscription{Filter: topic, QoS: 2}); err != nil {
		t.Fatal(err)
	}
	r := &recorder{more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		into := make([]mqttconn.Delivery, 100)
		for {
			n, err := c.Receive(ctx, into)
			if err != nil {
				return
			}
			r.mu.Lock()
			for _, d := range into[:n] {
				r.kept = append(r.kept, bytes.Clone(d.Payload))
				c.Ack(d.Receipt)
			}
			r.mu.Unlock()
			select {
			case r.more <- struct{}{}:
			default:
			}
		}
	})
	t.Cleanup(func() { stop(); reading.Wait() })
	return r
}

func (r *recorder) delivered(n int) [][]byte {
	late := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		kept := append([][]byte(nil), r.kept...)
		r.mu.Unlock()
		if len(kept) >= n {
			return kept
		}
		select {
		case <-r.more:
		case <-late:
			return kept
		}
	}
}

// way is one combination of broker, protocol and quality.
type way struct {
	url     func(t *testing.T) string
	version byte
	qos     mqttsink.QoS
	clients int
	session time.Duration
}

func (w way) harness(t *testing.T) sinktest.Harness {
	url, topic := w.url(t), testenv.Name("t")
	r := record(t, url, topic)
	link := testenv.NewLink(t, strings.TrimPrefix(url, "tcp://"))
	clients := open(t, "tcp://"+link.Addr, w.clients, mqttconn.Options{ClientID: testenv.Name("sink"), Version: w.version,
		Session: w.session, Patience: 200 * time.Millisecond, MaxDelay: 200 * time.Millisecond})
	sink, err := mqttsink.New(clients, mqttsink.Options{QoS: w.qos})
	if err != nil {
		t.Fatal(err)
	}
	return sinktest.Harness{
		Sink:      sink,
		Message:   func(p []byte) *tidemill.Message { return &tidemill.Message{To: topic, Payload: p} },
		Invalid:   func() *tidemill.Message { return &tidemill.Message{To: topic + "/+/x", Payload: []byte("p")} },
		Delivered: r.delivered, Cut: link.Refuse, Heal: link.Heal, Stick: link.BlackHole,
		Repeats: true,
	}
}

func embedded(t *testing.T) string {
	b, err := mqttbroker.Start(mqttbroker.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.URL()
}

func mosquitto(t *testing.T) string { return testenv.MQTT(t) }

func TestSinkOnTheEmbeddedBroker(t *testing.T) {
	for _, w := range []way{{version: 5, clients: 1}, {version: 4, clients: 1, qos: mqttsink.ExactlyOnce, session: time.Minute}} {
		w.url = embedded
		t.Run(fmt.Sprintf("MQTT %d, QoS %d", w.version, w.qos+1), func(t *testing.T) { sinktest.Run(t, w.harness) })
	}
}

func TestSinkOnMosquitto(t *testing.T) {
	testenv.Need(t)
	for _, w := range []way{
		{version: 5, clients: 1},
		{version: 5, clients: 1, session: time.Minute},
		{version: 5, clients: 1, session: time.Minute, qos: mqttsink.ExactlyOnce},
		{version: 4, clients: 1},
		{version: 4, clients: 1, session: time.Minute, qos: mqttsink.ExactlyOnce},
	} {
		w.url = mosquitto
		t.Run(fmt.Sprintf("MQTT %d, QoS %d, session %v", w.version, w.qos+1, w.session), func(t *testing.T) { sinktest.Run(t, w.harness) })
	}
}

// Several connections share the load of lanes, and go on without one that is down.
func TestSeveralConnections(t *testing.T) {
	url, topic := embedded(t), testenv.Name("t")
	r := record(t, url, topic)
	link := testenv.NewLink(t, strings.TrimPrefix(url, "tcp://"))
	o := mqttconn.Options{Patience: 100 * time.Millisecond, MaxDelay: 100 * time.Millisecond}
	clients := append(open(t, "tcp://"+link.Addr, 1, o), open(t, url, 2, o)...)
	sink, err := mqttsink.New(clients, mqttsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	link.Refuse()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for up := true; up; { // until it is noticed
		up, _ = clients[0].Up()
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		if err := sink.Write(ctx, []*tidemill.Message{{To: topic, Payload: fmt.Append(nil, i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(r.delivered(30)); got != 30 {
		t.Fatalf("%d of 30 arrived", got)
	}
	for _, c := range clients[1:] {
		if c.Stats().Acked == 0 {
			t.Error("a connection carried nothing")
		}
	}
}

func TestTopicsAndHeaders(t *testing.T) {
	url, base := embedded(t), testenv.Name("t")
	reader := open(t, url, 1, mqttconn.Options{})[0]
	if err := reader.Subscribe(t.Context(), mqttconn.Subscription{Filter: base + "/#", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no device")
	sink, err := mqttsink.New(open(t, url, 1, mqttconn.Options{}), mqttsink.Options{Headers: true,
		Topic: func(m *tidemill.Message) (string, error) {
			if d := m.Get("device"); d != nil {
				return base + "/" + string(d), nil
			}
			return "", refused
		}})
	if err != nil {
		t.Fatal(err)
	}
	with := func(device string) *tidemill.Message {
		return &tidemill.Message{Header: []tidemill.Field{{Name: []byte("device"), Value: []byte(device)}}, Payload: []byte(device)}
	}
	err = sink.Write(t.Context(), []*tidemill.Message{with("a"), {Payload: []byte("none")}, with("b/#"), with("c")})
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(partly.Failed) != 2 || partly.Failed[0].Index != 1 || !errors.Is(partly.Failed[0].Err, refused) || partly.Failed[1].Index != 2 {
		t.Fatalf("Write returned %v, want messages 1 and 2 to fail", err)
	}
	for _, want := range []string{"a", "c"} {
		into := make([]mqttconn.Delivery, 1)
		if _, err := reader.Receive(t.Context(), into); err != nil {
			t.Fatal(err)
		}
		user := into[0].User(nil)
		if string(into[0].Topic) != base+"/"+want || len(user) != 1 || string(user[0].Name) != "device" || string(user[0].Value) != want {
			t.Fatalf("received %s %s, want %s", into[0].Topic, user, want)
		}
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	c := open(t, embedded(t), 1, mqttconn.Options{})
	for name, f := range map[string]func() error{
		"no client":     func() error { _, err := mqttsink.New(nil, mqttsink.Options{}); return err },
		"unknown QoS":   func() error { _, err := mqttsink.New(c, mqttsink.Options{QoS: mqttsink.AtMostOnce + 1}); return err },
		"negative time": func() error { _, err := mqttsink.New(c, mqttsink.Options{Expiry: -1}); return err },
		"QoS 3":         func() error { _, err := mqttsink.ParseQoS(3); return err },
	} {
		if f() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestQualitiesOfServiceAreRead(t *testing.T) {
	for n, want := range []mqttsink.QoS{mqttsink.AtMostOnce, mqttsink.AtLeastOnce, mqttsink.ExactlyOnce} {
		if got, err := mqttsink.ParseQoS(n); got != want || err != nil {
			t.Errorf("%d is %v, %v", n, got, err)
		}
	}
	if _, err := mqttsink.ParseQoS(-1); err == nil {
		t.Error("-1 is taken")
	}
}

// What is published at a quality of service comes to those who want as much.
func TestQualitiesOfServiceAreKept(t *testing.T) {
	url, topic := embedded(t), testenv.Name("t")
	reader := open(t, url, 1, mqttconn.Options{})[0]
	if err := reader.Subscribe(t.Context(), mqttconn.Subscription{Filter: topic, QoS: 2}); err != nil {
		t.Fatal(err)
	}
	for qos, want := range map[mqttsink.QoS]byte{mqttsink.AtMostOnce: 0, mqttsink.AtLeastOnce: 1, mqttsink.ExactlyOnce: 2} {
		sink, err := mqttsink.New(open(t, url, 1, mqttconn.Options{}), mqttsink.Options{QoS: qos})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), []*tidemill.Message{{To: topic, Payload: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		into := make([]mqttconn.Delivery, 1)
		if _, err := reader.Receive(t.Context(), into); err != nil || into[0].QoS != want {
			t.Errorf("published at QoS %d, came at %d (%v)", want, into[0].QoS, err)
		}
		reader.Ack(into[0].Receipt)
	}
}

// Connections take turns, so that each has its share.
func TestConnectionsTakeTurns(t *testing.T) {
	clients := open(t, embedded(t), 3, mqttconn.Options{})
	sink, err := mqttsink.New(clients, mqttsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := sink.Write(t.Context(), []*tidemill.Message{{To: "a/b", Payload: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		if n := c.Stats().Acked; n != 2 {
			t.Errorf("connection %d carried %d of 6", i, n)
		}
	}
}

// A message that is retained is there for who comes later, as long as it may be kept.
func TestWhatTheBrokerKeeps(t *testing.T) {
	url := embedded(t)
	for _, retain := range []bool{true, false} {
		topic := testenv.Name("t")
		sink, err := mqttsink.New(open(t, url, 1, mqttconn.Options{}), mqttsink.Options{Retain: retain, Expiry: time.Hour, QoS: mqttsink.ExactlyOnce})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), []*tidemill.Message{{To: topic, Payload: []byte("first")}}); err != nil {
			t.Fatal(err)
		}
		reader := open(t, url, 1, mqttconn.Options{})[0]
		if err := reader.Subscribe(t.Context(), mqttconn.Subscription{Filter: topic, QoS: 1}); err != nil {
			t.Fatal(err)
		}
		want := "first"
		if !retain { // a second one that is retained could take the place of the first before it is sent
			want = "second"
			if err := sink.Write(t.Context(), []*tidemill.Message{{To: topic, Payload: []byte(want)}}); err != nil {
				t.Fatal(err)
			}
		}
		into := make([]mqttconn.Delivery, 1)
		if _, err := reader.Receive(t.Context(), into); err != nil {
			t.Fatal(err)
		}
		if got := string(into[0].Payload); got != want {
			t.Errorf("retain %v: %q comes first, want %q", retain, got, want)
		}
	}
}

// Acks are taken however many come: the broker is told of each that was.
func TestAcksAreTaken(t *testing.T) {
	url, topic := embedded(t), testenv.Name("t")
	acks := mqttsink.NewAcks(open(t, url, 1, mqttconn.Options{ClientID: testenv.Name("acks"), Session: time.Minute, Inbox: 8})[0], topic, 1)
	if err := acks.Subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	sink, err := mqttsink.New(open(t, url, 1, mqttconn.Options{}), mqttsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := 0
	take := func() error {
		return acks.Receive(ctx, func(b []byte) {
			if want := fmt.Sprint(got); string(b) != want {
				t.Errorf("%q comes, want %s", b, want)
			}
			got++
		})
	}
	for i := range 50 {
		if err := sink.Write(ctx, []*tidemill.Message{{To: topic, Payload: fmt.Append(nil, i)}}); err != nil {
			t.Fatal(err)
		}
		for got <= i-4 {
			if err := take(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for got < 50 {
		if err := take(); err != nil {
			t.Fatal(err)
		}
	}
	if err := acks.Unsubscribe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := take(); err != nil || got != 50 {
		t.Errorf("after the end %d have come: %v", got, err)
	}
}

// What has no topic fails for itself; what failed with the connection, beside it.
func TestFailuresOfABatchAreJoined(t *testing.T) {
	refused := errors.New("no device")
	clients := open(t, embedded(t), 1, mqttconn.Options{})
	sink, err := mqttsink.New(clients, mqttsink.Options{Topic: func(m *tidemill.Message) (string, error) {
		if m.To == "" {
			return "", refused
		}
		return m.To, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	failed := map[int]bool{}
	partly, ok := errors.AsType[*tidemill.Partial](sink.Write(stopped, []*tidemill.Message{{To: "a"}, {}, {To: "b"}}))
	if !ok || len(partly.Failed) != 3 {
		t.Fatalf("%v", partly)
	}
	for _, f := range partly.Failed {
		if failed[f.Index] = true; errors.Is(f.Err, refused) != (f.Index == 1) {
			t.Errorf("message %d: %v", f.Index, f.Err)
		}
	}
	if len(failed) != 3 {
		t.Errorf("failed: %v", partly.Failed)
	}
}
