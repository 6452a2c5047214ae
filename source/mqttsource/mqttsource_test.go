package mqttsource_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttbroker"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/mqttsource"
	"github.com/tidemill/tidemill/source/sourcetest"
)

// open opens a client that is closed with the test.
func open(t testing.TB, url string, o mqttconn.Options) *mqttconn.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := mqttconn.Open(ctx, []string{url}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, c) })
	return c
}

func shut(t testing.TB, c *mqttconn.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

func harness(url func(t *testing.T) string, qos, version byte) func(t *testing.T) sourcetest.Harness {
	return func(t *testing.T) sourcetest.Harness {
		u, topic := url(t), testenv.Name("t")
		publisher := open(t, u, mqttconn.Options{Version: version})
		c := open(t, u, mqttconn.Options{ClientID: testenv.Name("c"), Session: time.Minute, Inbox: 4000, Version: version})
		return sourcetest.Harness{
			Alone: true, ByID: true,
			Accept: func(ms ...*tidemill.Message) {
				out := make([]mqttconn.Message, len(ms))
				for i, m := range ms {
					out[i] = mqttconn.Message{Topic: topic, Payload: m.Payload, QoS: 2, User: nil}
				}
				if err := publisher.Publish(t.Context(), out); err != nil {
					t.Fatal(err)
				}
			},
			Open: func() tidemill.Source {
				src, err := mqttsource.New(t.Context(), c, mqttsource.Options{}, mqttconn.Subscription{Filter: topic, QoS: qos})
				if err != nil {
					t.Fatal(err)
				}
				return src
			},
			Lease: time.Second, // nothing is leased: it is how long the cases wait
		}
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

func TestSourceOnTheEmbeddedBroker(t *testing.T) {
	sourcetest.RunLive(t, 1, harness(embedded, 1, 5))
}

func TestSourceOnMosquitto(t *testing.T) {
	mosquitto := func(t *testing.T) string { return testenv.MQTT(t) }
	testenv.Need(t)
	for _, qos := range []byte{1, 2} {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) { sourcetest.RunLive(t, 1, harness(mosquitto, qos, 5)) })
	}
}

func receive(t *testing.T, src *mqttsource.Source, n int, d time.Duration) []*tidemill.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all []*tidemill.Message
	for len(all) < n {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, err := src.Receive(ctx, into)
		if err != nil {
			t.Fatalf("received %d of %d messages: %v", len(all), n, err)
		}
		all = append(all, into[:got]...)
	}
	return all
}

func source(t *testing.T, c *mqttconn.Client, topic string, qos byte) *mqttsource.Source {
	t.Helper()
	src, err := mqttsource.New(t.Context(), c, mqttsource.Options{Headers: true}, mqttconn.Subscription{Filter: topic, QoS: qos})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func end(m *tidemill.Message, e tidemill.End) tidemill.Settlement {
	s := tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: e}
	if e == tidemill.Done {
		s.Fate = tidemill.Delivered
	}
	return s
}

func settle(t *testing.T, src *mqttsource.Source, ends ...tidemill.Settlement) {
	t.Helper()
	if err := src.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	for i, e := range ends {
		if e.Outcome != tidemill.Applied {
			t.Fatalf("settlement %d of %d was taken as %d", i, len(ends), e.Outcome)
		}
	}
}

func brokers(t *testing.T) map[string]string {
	all := map[string]string{"embedded": embedded(t)}
	if testenv.Enabled(t) {
		all["mosquitto"] = testenv.MQTT(t)
	}
	return all
}

// What was not settled comes again to the next process; what was settled does not.
func TestARestart(t *testing.T) {
	for name, url := range brokers(t) {
		for _, qos := range []byte{1, 2} {
			t.Run(fmt.Sprintf("%s, QoS %d", name, qos), func(t *testing.T) {
				topic, id := testenv.Name("t"), testenv.Name("c")
				o := mqttconn.Options{ClientID: id, Session: time.Minute}
				c := open(t, url, o)
				src := source(t, c, topic, qos)
				if err := open(t, url, mqttconn.Options{}).Publish(t.Context(), numbers(topic, 10)); err != nil {
					t.Fatal(err)
				}
				got := receive(t, src, 10, 10*time.Second)
				want := map[string]bool{}
				for i, m := range got {
					switch i % 3 {
					case 0:
						settle(t, src, end(m, tidemill.Done))
					case 1:
						settle(t, src, end(m, tidemill.Left))
						want[string(m.Payload)] = true
					case 2:
						want[string(m.Payload)] = true
					}
				}
				shut(t, c)
				again := source(t, open(t, url, o), topic, qos)
				for _, m := range receive(t, again, len(want), 10*time.Second) {
					if !want[string(m.Payload)] {
						t.Errorf("%s came again: it was settled, or came before", m.Payload)
					}
					delete(want, string(m.Payload))
					settle(t, again, end(m, tidemill.Done))
				}
			})
		}
	}
}

// A connection that breaks under a living source brings nothing twice: the source knows
// what it has. What was settled in between is acknowledged when the broker asks again.
func TestABrokenConnection(t *testing.T) {
	for name, url := range brokers(t) {
		t.Run(name, func(t *testing.T) {
			topic := testenv.Name("t")
			link := testenv.NewLink(t, strings.TrimPrefix(url, "tcp://"))
			c := open(t, "tcp://"+link.Addr, mqttconn.Options{ClientID: testenv.Name("c"), Session: time.Minute, MaxDelay: 50 * time.Millisecond})
			src := source(t, c, topic, 1)
			publisher := open(t, url, mqttconn.Options{})
			if err := publisher.Publish(t.Context(), numbers(topic, 4)); err != nil {
				t.Fatal(err)
			}
			got := receive(t, src, 4, 10*time.Second)
			settle(t, src, end(got[0], tidemill.Left))
			link.Refuse()
			for up := true; up; {
				up, _ = c.Up()
			}
			settle(t, src, end(got[1], tidemill.Done)) // the broker cannot be told now
			link.Heal()
			m := receive(t, src, 1, 10*time.Second)[0]
			if string(m.Payload) != "0" || m.Handed != 2 || m.ID != got[0].ID || !m.Mark.At(got[0].Mark) {
				t.Fatalf("received %s, handed %d, as %s: want 0 again, which was left", m.Payload, m.Handed, m.ID)
			}
			if err := publisher.Publish(t.Context(), []mqttconn.Message{{Topic: topic, QoS: 1, Payload: []byte("next")}}); err != nil {
				t.Fatal(err)
			}
			next := receive(t, src, 1, 10*time.Second)[0]
			if string(next.Payload) != "next" {
				t.Fatalf("received %s, want the next message: the others are here", next.Payload)
			}
			settle(t, src, end(m, tidemill.Done), end(got[2], tidemill.Done), end(got[3], tidemill.Done), end(next, tidemill.Done))
			if st := src.Stats(); st.Received != 5 || st.Settled.Delivered != 5 || st.Held != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// The inbox bounds what is held; the broker keeps the rest.
func TestBackpressure(t *testing.T) {
	for name, url := range brokers(t) {
		t.Run(name, func(t *testing.T) {
			topic := testenv.Name("t")
			src := source(t, open(t, url, mqttconn.Options{ClientID: testenv.Name("c"), Session: time.Minute, Inbox: 5}), topic, 1)
			publisher := open(t, url, mqttconn.Options{})
			published := make(chan error, 1)
			go func() { published <- publisher.Publish(t.Context(), numbers(topic, 200)) }()
			held := receive(t, src, 5, 10*time.Second)
			if st := src.Stats(); st.Received != 5 {
				t.Errorf("received %d, want 5", st.Received)
			}
			for n := 5; ; n += len(held) {
				for _, m := range held {
					settle(t, src, end(m, tidemill.Done))
				}
				if n == 200 {
					break
				}
				held = receive(t, src, 1, 10*time.Second)
			}
			if err := <-published; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNewRefusesWhatLoses(t *testing.T) {
	url := embedded(t)
	clean, kept := open(t, url, mqttconn.Options{}), open(t, url, mqttconn.Options{ClientID: "c", Session: time.Minute})
	for name, f := range map[string]func(o mqttsource.Options) error{
		"a clean session": func(o mqttsource.Options) error {
			_, err := mqttsource.New(t.Context(), clean, o, mqttconn.Subscription{Filter: "t", QoS: 1})
			return err
		},
		"QoS 0": func(o mqttsource.Options) error {
			_, err := mqttsource.New(t.Context(), kept, o, mqttconn.Subscription{Filter: "t"})
			return err
		},
	} {
		if f(mqttsource.Options{}) == nil {
			t.Errorf("%s is taken", name)
		}
		if err := f(mqttsource.Options{Lossy: true}); err != nil {
			t.Errorf("%s, asked for: %v", name, err)
		}
	}
	if _, err := mqttsource.New(t.Context(), kept, mqttsource.Options{}); err == nil {
		t.Error("no subscription is taken")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := mqttsource.New(ended, kept, mqttsource.Options{}, mqttconn.Subscription{Filter: "t", QoS: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a subscription that was not made: %v", err)
	}
}

func TestUserPropertiesAreHeadersWhereAskedFor(t *testing.T) {
	url, topic := embedded(t), testenv.Name("t")
	with := source(t, open(t, url, mqttconn.Options{ClientID: "with", Session: time.Minute}), topic, 1)
	c := open(t, url, mqttconn.Options{ClientID: "without", Session: time.Minute})
	without, err := mqttsource.New(t.Context(), c, mqttsource.Options{}, mqttconn.Subscription{Filter: topic, QoS: 1})
	if err != nil {
		t.Fatal(err)
	}
	user := []tidemill.Field{{Name: []byte("a"), Value: []byte("1")}, {Name: []byte("b"), Value: []byte("2")}}
	if err := open(t, url, mqttconn.Options{}).Publish(t.Context(), []mqttconn.Message{{Topic: topic, QoS: 1, User: user}}); err != nil {
		t.Fatal(err)
	}
	m := receive(t, with, 1, 10*time.Second)[0]
	if m.To != topic || !reflect.DeepEqual(m.Header, user) {
		t.Errorf("received of %q with %v, want of %q with %v", m.To, m.Header, topic, user)
	}
	settle(t, with, end(m, tidemill.Done))
	m = receive(t, without, 1, 10*time.Second)[0]
	if len(m.Header) > 0 {
		t.Errorf("received with %v, want no header: nobody asked for it", m.Header)
	}
	settle(t, without, end(m, tidemill.Done))
}

func numbers(topic string, n int) []mqttconn.Message {
	out := make([]mqttconn.Message, n)
	for i := range out {
		out[i] = mqttconn.Message{Topic: topic, QoS: 2, Payload: fmt.Append(nil, i)}
	}
	return out
}
