package mqttconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

const (
	ok        = tidemill.NoKind
	unknown   = tidemill.Unknown
	transient = tidemill.Transient
)

func TestWithoutABroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{Patience: 3 * time.Second})
		start := time.Now()
		err := c.Publish(t.Context(), messages(2, 1))
		if took := time.Since(start); took != 3*time.Second || !slices.Equal(kindsOf(err, 2), []tidemill.Kind{transient, transient}) {
			t.Errorf("Publish returned %v after %v, want transient after 3s", err, took)
		}
		start = time.Now()
		if err := c.Publish(t.Context(), messages(1, 1)); tidemill.KindOf(err) != transient || time.Since(start) != 0 {
			t.Errorf("Publish in a known outage returned %v after %v, want transient at once", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nobody there") {
			t.Errorf("Wait returned %v, want the end of its context and the reason", err)
		}
	})
}

func TestDelaysGrowAndAreBounded(t *testing.T) {
	c, err := prepare([]string{"x"}, Options{MaxDelay: time.Second, Rand: func() float64 { return 1 }})
	if err != nil {
		t.Fatal(err)
	}
	for tries, want := range map[int]time.Duration{-1: 100 * time.Millisecond, 0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 3: 800 * time.Millisecond, 4: time.Second, 1e9: time.Second} {
		if got := c.delay(tries); got != want {
			t.Errorf("delay %d is %v, want %v", tries, got, want)
		}
	}
	c.o.Rand = func() float64 { return 0 }
	if got := c.delay(0); got != 50*time.Millisecond {
		t.Errorf("the least delay is %v, want half", got)
	}
}

func TestABreakInACleanSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{ReceiveMaximum: 3})
			first := p.publish()
			p.publish()
			p.publish()
			p.sendAck(pubackBits, first.id, 0)
			p.publish()
		})
		err := c.Publish(t.Context(), messages(6, 1))
		if got, want := kindsOf(err, 6), []tidemill.Kind{ok, unknown, unknown, unknown, transient, transient}; !slices.Equal(got, want) {
			t.Errorf("the messages ended as %v, want %v (%v)", got, want, err)
		}
		if s := c.Stats(); s.Lost != 3 || s.InFlight != 0 || s.Queued != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestASessionThatSurvives(t *testing.T) {
	for _, qos := range []byte{1, 2} {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ids []uint16
				c := script(t, Options{ClientID: "c", Session: time.Hour}, func(p *peer) {
					p.welcome(false, packets.Properties{})
					for range 3 {
						ids = append(ids, p.publish().id)
					}
					if qos == 2 { // the second is accepted and released, but its PUBCOMP never comes
						p.sendAck(pubrecBits, ids[1], 0)
						p.ack(pubrelBits)
					}
				}, func(p *peer) {
					p.welcome(true, packets.Properties{})
					for i := range 3 {
						if qos == 2 && i == 1 {
							if id := p.ack(pubrelBits); id != ids[1] {
								t.Errorf("released %d, want %d", id, ids[1])
							}
							p.sendAck(pubcompBits, ids[1], codeIDNotFound) // it was released the first time
							continue
						}
						in := p.publish()
						if !in.dup || in.id != ids[i] || string(in.payload) != string(messages(3, 1)[i].Payload) {
							t.Errorf("message %d was sent again as %+v, want dup with id %d", i, in, ids[i])
						}
					}
					if qos == 1 {
						for _, id := range ids {
							p.sendAck(pubackBits, id, 0)
						}
					} else {
						p.sendAck(pubrecBits, ids[0], 0)
						p.ack(pubrelBits)
						p.sendAck(pubcompBits, ids[0], 0)
						p.sendAck(pubrecBits, ids[2], codeIDInUse) // it has it from the first time
						p.ack(pubrelBits)
						p.sendAck(pubcompBits, ids[2], 0)
					}
					p.drain()
				})
				if err := c.Publish(t.Context(), messages(3, qos)); err != nil {
					t.Errorf("Publish returned %v, want nil: the session survived", err)
				}
				if s := c.Stats(); s.Lost != 0 || s.InFlight != 0 || s.Acked != 3 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

func TestASessionThatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{ClientID: "c", Session: time.Hour}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.publish()
		}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.drain()
		})
		if err := c.Publish(t.Context(), messages(1, 2)); tidemill.KindOf(err) != unknown {
			t.Errorf("Publish returned %v, want unknown", err)
		}
	})
}

// A message whose caller no longer waits keeps its id until the broker has answered, and the id
// is released before it names another message.
func TestAnAbandonedPacketID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{ClientID: "c", Session: time.Hour, Window: 1}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.publish()
			p.drain() // until the client considers it dead
		}, func(p *peer) {
			p.welcome(true, packets.Properties{})
			if id := p.ack(pubrelBits); id != 1 {
				t.Errorf("released %d, want 1", id)
			}
			p.sendAck(pubcompBits, 1, codeIDNotFound)
			if in := p.publish(); in.dup || in.id != 1 {
				t.Errorf("the next message is %+v, want a new one with id 1", in)
			}
			p.sendAck(pubrecBits, 1, 0)
			p.ack(pubrelBits)
			p.sendAck(pubcompBits, 1, 0)
			p.drain()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Publish(ctx, messages(1, 2)); tidemill.KindOf(err) != unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Publish returned %v, want unknown and the deadline", err)
		}
		if s := c.Stats(); s.InFlight != 1 {
			t.Errorf("%d in flight, want 1: the broker may have it", s.InFlight)
		}
		if err := c.Publish(t.Context(), messages(1, 2)); err != nil {
			t.Error(err)
		}
	})
}

func TestTheIDsOfAnEarlierLifeAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{ClientID: "c", Session: time.Hour}, func(p *peer) {
			p.welcome(true, packets.Properties{})
			id := p.ack(pubrelBits)
			if in := p.publish(); in.id != id {
				t.Errorf("published under %d, released %d", in.id, id)
			}
			p.sendAck(pubackBits, id, 0)
			p.drain()
		})
		if err := c.Publish(t.Context(), messages(1, 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestABrokerThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{KeepAlive: 10 * time.Second}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.drain() // reads and says nothing
		})
		start := time.Now()
		err := c.Publish(t.Context(), messages(1, 1))
		if took := time.Since(start); tidemill.KindOf(err) != unknown || took > 15*time.Second {
			t.Errorf("Publish returned %v after %v, want unknown within one and a half KeepAlives", err, took)
		}
	})
}

func TestAQuietConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		c := script(t, Options{KeepAlive: 10 * time.Second}, func(p *peer) {
			p.welcome(false, packets.Properties{ServerKeepAlive: 4, ServerKeepAliveFlag: true})
			for {
				switch first, _ := p.next(); first {
				case pingreqBits:
					pings++
					p.send(0xD0, 0)
				case 0:
					return
				}
			}
		})
		time.Sleep(time.Hour)
		if s := c.Stats(); s.Connects != 1 || !s.Connected {
			t.Errorf("stats %+v, want one connection that lasts", s)
		}
		if pings < 3600/4 {
			t.Errorf("%d signs of life in an hour, want one in 4 s at least, as the broker wishes", pings)
		}
	})
}

func TestReasonsOfRefusal(t *testing.T) {
	for code, want := range map[byte]tidemill.Kind{
		0x00: ok, 0x10: ok, 0x80: tidemill.Partner, 0x83: tidemill.Partner, 0x87: tidemill.Credentials,
		0x90: tidemill.Validation, 0x97: tidemill.RateLimit, 0x99: tidemill.Validation, 0xEE: tidemill.Partner,
	} {
		for qos, kind := range map[byte]byte{1: pubackBits, 2: pubrecBits} {
			synctest.Test(t, func(t *testing.T) {
				c := script(t, Options{}, func(p *peer) {
					p.welcome(false, packets.Properties{})
					in := p.publish()
					p.sendAck(kind, in.id, code)
					if qos == 2 && code < firstError {
						p.ack(pubrelBits)
						p.sendAck(pubcompBits, in.id, 0)
					}
					p.drain()
				})
				err := c.Publish(t.Context(), messages(1, qos))
				if got := kindsOf(err, 1)[0]; got != want {
					t.Errorf("QoS %d, reason %02x: %v (%v), want %v", qos, code, got, err, want)
				}
				if n := c.Stats().InFlight; n != 0 {
					t.Errorf("QoS %d, reason %02x: %d in flight, want 0", qos, code, n)
				}
			})
		}
	}
}

func TestRefusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const password = "hunter2-secret"
		c := script(t, Options{User: "u", Password: tidemill.NewSecret(password)}, func(p *peer) {
			var b bytes.Buffer
			k := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack}, ProtocolVersion: 5, ReasonCode: 0x86,
				Properties: packets.Properties{ReasonString: "no user with password " + password}}
			if err := k.ConnackEncode(&b); err != nil {
				t.Error(err)
			}
			p.send(b.Bytes()...)
		})
		start := time.Now()
		err := c.Wait(t.Context())
		if tidemill.KindOf(err) != tidemill.Credentials || time.Since(start) != 0 {
			t.Errorf("Wait returned %v after %v, want credentials at once", err, time.Since(start))
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, c.o), password) {
			t.Errorf("the password is shown: %v", err)
		}
		if err := c.Publish(t.Context(), messages(1, 1)); tidemill.KindOf(err) != tidemill.Credentials {
			t.Errorf("Publish returned %v, want credentials", err)
		}
	})
}

func TestAnOldBrokerIsAskedFor311(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{}, func(p *peer) { p.send(0x20, 2, 0, 1) }, func(p *peer) {
			p.send(0x20, 2, 0, 0)
			first, body := p.next()
			in, err := parsePublish(first, body, 4)
			if err != nil || string(in.payload) != "0" {
				t.Errorf("%+v, %v: want a PUBLISH of 3.1.1", in, err)
			}
			p.send(pubackBits, 2, byte(in.id>>8), byte(in.id))
			p.drain()
		})
		if err := c.Publish(t.Context(), messages(1, 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestABrokerThatGoesDownIsAskedForMQTT5Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{}, func(p *peer) {}, // it closes without an answer, to 5 and to 3.1.1
			func(p *peer) {},
			func(p *peer) {
				p.welcome(false, packets.Properties{}) // which are MQTT 5's
				in := p.publish()
				p.sendAck(pubackBits, in.id, 0)
				p.drain()
			})
		if err := c.Publish(t.Context(), messages(1, 1)); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.link == nil || c.link.version != 5 {
			t.Error("the connection is not one of MQTT 5")
		}
	})
}

func TestTheBrokersLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{MaximumPacketSize: 100, MaximumQos: 1, MaximumQosFlag: true, RetainAvailableFlag: true})
			for {
				first, _ := p.next()
				if first == 0 {
					return
				}
				if first>>4 == packets.Publish {
					t.Error("a message that the broker does not take was sent")
				}
			}
		})
		for name, k := range map[string]struct {
			m    Message
			want tidemill.Kind
		}{
			"too large":          {Message{Topic: "t", QoS: 1, Payload: make([]byte, 93)}, tidemill.Validation},
			"QoS too high":       {Message{Topic: "t", QoS: 2}, tidemill.Credentials},
			"QoS 3":              {Message{Topic: "t", QoS: 3}, tidemill.Validation},
			"retained":           {Message{Topic: "t", QoS: 1, Retain: true}, tidemill.Credentials},
			"empty topic":        {Message{QoS: 1}, tidemill.Validation},
			"wildcard":           {Message{Topic: "a/+/b", QoS: 1}, tidemill.Validation},
			"wildcard at QoS 0":  {Message{Topic: "a/#"}, tidemill.Validation},
			"NUL":                {Message{Topic: "a\x00b", QoS: 1}, tidemill.Validation},
			"not UTF-8":          {Message{Topic: "a\xff", QoS: 1}, tidemill.Validation},
			"the broker's own":   {Message{Topic: "$SYS/x", QoS: 1}, tidemill.Validation},
			"property not UTF-8": {Message{Topic: "t", QoS: 1, User: []tidemill.Field{{Name: []byte("a"), Value: []byte{0xff}}}}, tidemill.Validation},
		} {
			if err := c.Publish(t.Context(), []Message{k.m}); tidemill.KindOf(err) != k.want || err == nil {
				t.Errorf("%s: %v (%v), want %v", name, err, tidemill.KindOf(err), k.want)
			}
		}
	})
}

func TestTheReceiveMaximumIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, many = 20, 500
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{ReceiveMaximum: most})
			for got := 0; got < many; {
				ids := []uint16{p.publish().id}
				for len(ids) < most && got+len(ids) < many {
					ids = append(ids, p.publish().id)
				}
				got += len(ids)
				synctest.Wait() // nothing more may come
				if len(p.in) > 0 {
					t.Errorf("%d bytes more than %d messages", len(p.in), most)
				}
				var acks []byte
				for _, id := range ids {
					acks = appendAck(acks, pubackBits, id)
				}
				p.send(acks...)
			}
			p.drain()
		})
		var batch []Message
		for range many {
			batch = append(batch, Message{Topic: "t", QoS: 1})
		}
		if err := c.Publish(t.Context(), batch); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseWaitsForAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bye := false
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			in := p.publish()
			time.Sleep(time.Second)
			p.sendAck(pubackBits, in.id, 0)
			first, _ := p.next()
			bye = first>>4 == packets.Disconnect
		})
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		published := make(chan error, 1)
		go func() { published <- c.Publish(t.Context(), messages(1, 1)) }()
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-published; err != nil {
			t.Errorf("Publish before Close returned %v", err)
		}
		synctest.Wait()
		if !bye {
			t.Error("the broker got no DISCONNECT")
		}
		if err := c.Publish(t.Context(), messages(1, 1)); err == nil {
			t.Error("Publish after Close returned nil")
		}
		if _, err := c.Receive(t.Context(), make([]Delivery, 1)); err == nil {
			t.Error("Receive after Close returned nil")
		}
	})
}

func TestBatchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		both := make(chan struct{})
		c := script(t, Options{Window: 64}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			var acks []byte
			for range 64 { // all of the large batch
				acks = appendAck(acks, pubackBits, p.publish().id)
			}
			<-both
			p.send(acks...)
			for {
				first, body := p.next()
				if first == 0 || first>>4 == packets.Disconnect {
					return
				}
				if in, err := parsePublish(first, body, 5); err == nil && first>>4 == packets.Publish {
					order = append(order, string(in.topic))
					p.sendAck(pubackBits, in.id, 0)
				}
			}
		})
		large := make([]Message, 5000)
		for i := range large {
			large[i] = Message{Topic: "large", QoS: 1}
		}
		ended := make(chan error, 2)
		for _, batch := range [][]Message{large, {{Topic: "small", QoS: 1}}} {
			go func() { ended <- c.Publish(t.Context(), batch) }()
			synctest.Wait()
		}
		close(both)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if at := slices.Index(order, "small"); at < 0 || at > 2*64 {
			t.Errorf("one message waited for %d more of another batch, want two turns at most", at)
		}
	})
}
