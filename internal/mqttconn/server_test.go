package mqttconn

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

func open(t testing.TB, url string, o Options) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := Open(ctx, []string{url}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// reader collects numbers that come in, and how often each did.
type reader struct {
	mu   sync.Mutex
	seen map[int]int
	last int
	less int // numbers that came after a larger one
}

func read(t *testing.T, c *Client, topic string, qos byte) *reader {
	t.Helper()
	if err := c.Subscribe(t.Context(), Subscription{topic, qos}); err != nil {
		t.Fatal(err)
	}
	r := &reader{seen: map[int]int{}, last: -1}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		into := make([]Delivery, 200)
		for {
			n, err := c.Receive(ctx, into)
			if err != nil {
				return
			}
			r.mu.Lock()
			for _, d := range into[:n] {
				i, err := strconv.Atoi(string(d.Payload))
				if err != nil {
					t.Errorf("payload %q", d.Payload)
				}
				if i < r.last {
					r.less++
				}
				r.last = i
				r.seen[i]++
				c.Ack(d.Receipt)
			}
			r.mu.Unlock()
		}
	})
	t.Cleanup(func() { stop(); reading.Wait() })
	return r
}

func (r *reader) has(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen) >= n
}

func (r *reader) await(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !r.has(n); {
		if time.Now().After(end) {
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("%d of %d messages came in", len(r.seen), n)
		}
		time.Sleep(5 * time.Millisecond) // the reader does not notify
	}
}

func numbers(topic string, from, n int, qos byte) []Message {
	out := make([]Message, n)
	for i := range out {
		out[i] = Message{Topic: topic, QoS: qos, Payload: strconv.AppendInt(nil, int64(from+i), 10)}
	}
	return out
}

func TestEveryVersionAndQoS(t *testing.T) {
	url := testenv.MQTT(t)
	for _, version := range []byte{4, 5} {
		for qos := range byte(3) {
			t.Run(fmt.Sprintf("MQTT %d, QoS %d", version, qos), func(t *testing.T) {
				const many = 3000
				topic := testenv.Name("t")
				r := read(t, open(t, url, Options{Version: version}), topic, qos)
				c := open(t, url, Options{Version: version})
				var lanes sync.WaitGroup
				for lane := range 3 {
					lanes.Go(func() {
						for at := lane * 1000; at < (lane+1)*1000; at += 250 {
							if err := c.Publish(t.Context(), numbers(topic, at, 250, qos)); err != nil {
								t.Error(err)
							}
						}
					})
				}
				lanes.Wait()
				r.await(t, many)
				if s := c.Stats(); s.Acked != many || s.InFlight != 0 || s.Unexpected != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		}
	}
}

// stock is Mosquitto's default: no TCP_NODELAY, 20 in flight for an MQTT 5 client.
const stock = "MOSQUITTO_SETTINGS=set_tcp_nodelay false"

// A stock Mosquitto gives an MQTT 5 client 20 in flight and holds acknowledgements back until
// TCP has acknowledged the first. Because we make TCP do so, it does not fall to one window in
// 40 ms.
func TestStockMosquittoDoesNotStall(t *testing.T) {
	s := testenv.Start(t, testenv.PrivateMosquitto, stock)
	c := open(t, s.URL, Options{Version: 5})
	var most int
	for at := 0; at < 5000; at += 1000 {
		if err := c.Publish(t.Context(), numbers("t", at, 1000, 1)); err != nil {
			t.Fatal(err)
		}
		most = max(most, c.link.quota)
	}
	st := c.Stats()
	t.Logf("%+v", st)
	if most != 20 {
		t.Errorf("the window was %d, want the broker's 20", most)
	}
	if runtime.GOOS == "linux" && st.Quickacks == 0 {
		t.Error("TCP was never told to acknowledge at once")
	}
	if st.Acked != 5000 || st.Connects != 1 {
		t.Errorf("stats %+v", st)
	}
}

// The broker is killed under load and started again. Acknowledged messages have reached the
// subscriber, and the others are published again.
func TestABrokerThatIsKilled(t *testing.T) {
	for _, c := range []struct{ version, qos byte }{{5, 1}, {4, 1}, {5, 2}} {
		t.Run(fmt.Sprintf("MQTT %d, QoS %d", c.version, c.qos), func(t *testing.T) {
			// Without a limit of its own it writes a message to the subscriber's socket before
			// it acknowledges: acknowledged messages are not in its memory only.
			s := testenv.Start(t, testenv.PrivateMosquitto, "MOSQUITTO_SETTINGS=max_inflight_messages 0")
			quick := Options{Version: c.version, MaxDelay: 100 * time.Millisecond, Patience: 200 * time.Millisecond, Inbox: 20_000}
			away, to := quick, quick
			away.ClientID, away.Session = "reader", time.Hour
			subscriber := open(t, s.URL, away)
			r := read(t, subscriber, "t", c.qos)
			link := testenv.NewLink(t, s.Addr) // so that nothing is acknowledged before the subscriber is back
			publisher := open(t, "tcp://"+link.Addr, to)
			const many, each = 20_000, 500
			done := 0
			for kills := 0; done < many; {
				if kills < 3 && done >= (kills+1)*many/4 {
					kills++
					killed := make(chan struct{})
					go func() { s.Kill(); link.Refuse(); close(killed) }()
					left := publishUntil(t, publisher, numbers("t", done, each, c.qos), func() bool {
						select {
						case <-killed:
							return true
						default:
							return false
						}
					})
					<-killed
					before := subscriber.Stats().Connects
					s.Restart()
					eventually(t, "the subscriber is back", func() bool { return subscriber.Stats().Connects > before })
					if err := subscriber.Subscribe(t.Context(), Subscription{"t", c.qos}); err != nil {
						t.Fatal(err)
					}
					link.Heal()
					publishAll(t, publisher, left)
					done += each
					continue
				}
				publishAll(t, publisher, numbers("t", done, each, c.qos))
				done += each
			}
			r.await(t, many)
			t.Logf("publisher %+v", publisher.Stats())
		})
	}
}

// publishUntil publishes msgs again and again until over, and returns those without an
// acknowledgement the last time.
func publishUntil(t *testing.T, c *Client, msgs []Message, over func() bool) []Message {
	for !over() {
		if left := failed(c.Publish(t.Context(), msgs), msgs); len(left) > 0 {
			return left
		}
	}
	return nil
}

func publishAll(t *testing.T, c *Client, msgs []Message) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(msgs) > 0; {
		err := c.Publish(t.Context(), msgs)
		if msgs = failed(err, msgs); time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func failed(err error, msgs []Message) []Message {
	if partly, ok := err.(*tidemill.Partial); ok {
		var left []Message
		for _, f := range partly.Failed {
			left = append(left, msgs[f.Index])
		}
		return left
	}
	if err != nil {
		return msgs
	}
	return nil
}

// In a surviving session, QoS 2 delivers exactly once, and a broken link loses nothing.
func TestLinksThatBreak(t *testing.T) {
	url := testenv.MQTT(t)
	for _, qos := range []byte{1, 2} {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) {
			topic := testenv.Name("t")
			r := read(t, open(t, url, Options{}), topic, 2)
			b, err := ParseBroker(url)
			if err != nil {
				t.Fatal(err)
			}
			link := testenv.NewLink(t, b.Addr)
			c := open(t, "tcp://"+link.Addr, Options{ClientID: testenv.Name("c"), Session: time.Hour, MaxDelay: 50 * time.Millisecond,
				KeepAlive: time.Second, Patience: 20 * time.Second})
			const each = 1000
			at := 0
			for name, harm := range map[string]func(){
				"slow": func() { link.Slow(20*time.Millisecond, 10*time.Millisecond) }, "sliced": func() { link.Slice(3) },
				"loses answers": func() { link.LoseAnswers(200) }, "reset": func() { link.Reset(5 * time.Millisecond) },
				"refused": link.Refuse, "black hole": link.BlackHole,
			} {
				before := c.Stats()
				harm()
				heal := time.AfterFunc(300*time.Millisecond, link.Heal)
				if err := c.Publish(t.Context(), numbers(topic, at, each, qos)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				heal.Stop()
				link.Heal()
				at += each
				after := c.Stats()
				t.Logf("%s: %d connections, %d sent again", name, after.Connects-before.Connects, after.Repeated-before.Repeated)
			}
			r.await(t, at)
			r.mu.Lock()
			defer r.mu.Unlock()
			for i, n := range r.seen {
				if qos == 2 && n != 1 {
					t.Errorf("message %d came in %d times", i, n)
				}
			}
		})
	}
}

func TestAFrozenBroker(t *testing.T) {
	s := testenv.Start(t, testenv.PrivateMosquitto)
	c := open(t, s.URL, Options{KeepAlive: time.Second, MaxDelay: 100 * time.Millisecond})
	s.Freeze()
	err := c.Publish(t.Context(), numbers("t", 0, 10, 1))
	s.Thaw()
	if got := kindsOf(err, 10); got[0] != tidemill.Unknown {
		t.Errorf("Publish to a frozen broker returned %v, want unknown", err)
	}
	publishAll(t, c, numbers("t", 0, 10, 1))
}

func TestInspectMosquitto(t *testing.T) {
	s := testenv.Start(t, testenv.PrivateMosquitto, stock+"\nmax_packet_size 5000\nretain_available false")
	verdicts := map[string]string{}
	for _, f := range Inspect(t.Context(), open(t, s.URL, Options{})) {
		t.Log(f)
		verdicts[f.Check] = f.Verdict
	}
	for check, want := range map[string]string{"mqtt: version": preflight.OK, "mqtt: receive maximum": preflight.Warn,
		"mqtt: maximum packet size": preflight.OK, "mqtt: durability": preflight.Warn} {
		if verdicts[check] != want {
			t.Errorf("%s is %q, want %q", check, verdicts[check], want)
		}
	}
	nobody, err := Start([]string{"tcp://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.abort()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if f := Inspect(ctx, nobody); len(f) != 1 || f[0].Verdict != preflight.Fail {
		t.Errorf("without a broker: %+v", f)
	}
}
