package mqttconn

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

func TestSubscriptionsComeFirstOnANewConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		granted := func(p *peer) {
			first, body := p.next()
			if first != 0x82 || !bytes.Contains(body, []byte("acks")) {
				t.Errorf("the client sent %02x %q, want SUBSCRIBE to acks", first, body)
			}
			p.send(0x90, 4, body[0], body[1], 0, 1)
		}
		cut := make(chan struct{})
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			granted(p)
			<-cut
		}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			granted(p)
			p.sendAck(pubackBits, p.publish().id, 0)
			p.drain()
		})
		if err := c.Subscribe(t.Context(), Subscription{"acks", 1}); err != nil {
			t.Fatal(err)
		}
		close(cut)
		synctest.Wait()
		if err := c.Publish(t.Context(), messages(1, 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestASubscriptionThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			_, body := p.next()
			p.send(0x90, 4, body[0], body[1], 0, 0x87)
			p.drain()
		})
		if err := c.Subscribe(t.Context(), Subscription{"secret/#", 1}); tidemill.KindOf(err) != tidemill.Credentials {
			t.Errorf("Subscribe returned %v, want credentials", err)
		}
		for _, f := range []string{"", "a#", "a/#/b", "$share/g", "a\x00"} {
			if err := c.Subscribe(t.Context(), Subscription{f, 1}); tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("Subscribe to %q returned %v, want validation", f, err)
			}
		}
	})
}

func TestReceivingStopsAtTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 10
		c := script(t, Options{Inbox: 3, KeepAlive: time.Second}, func(p *peer) { // a broker that exceeds the limit
			p.welcome(false, packets.Properties{})
			for i := range many {
				p.deliver(uint16(i+1), false, 1, fmt.Sprint(i))
			}
			for i := range many {
				if id := p.ack(pubackBits); int(id) != i+1 {
					t.Errorf("acknowledged %d, want %d", id, i+1)
				}
			}
			p.drain()
		})
		time.Sleep(500 * time.Millisecond)
		if n := c.Stats().Inbox; n != 3 {
			t.Fatalf("%d in the inbox, want 3", n)
		}
		into := make([]Delivery, 2)
		for got := 0; got < many; {
			n, err := c.Receive(t.Context(), into)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range into[:n] {
				if string(d.Payload) != fmt.Sprint(got) || string(d.Topic) != "in" {
					t.Fatalf("received %s, want %d", d.Payload, got)
				}
				got++
				if c.Ack(d.Receipt) != 1 {
					t.Error("the receipt is not good")
				}
			}
		}
	})
}

// At QoS 2 a message that the broker sends again, because our PUBREC was lost, does not
// come in again.
func TestQoS2ComesInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{ClientID: "c", Session: time.Hour}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.deliver(7, false, 2, "once")
			p.ack(pubrecBits)
		}, func(p *peer) {
			p.welcome(true, packets.Properties{})
			p.deliver(7, true, 2, "once")
			p.ack(pubrecBits)
			p.send(pubrelBits, 2, 0, 7)
			p.ack(pubcompBits)
			p.deliver(7, false, 2, "another")
			p.drain()
		})
		into := make([]Delivery, 1)
		for _, want := range []string{"once", "another"} {
			if _, err := c.Receive(t.Context(), into); err != nil || string(into[0].Payload) != want {
				t.Fatalf("received %q, %v; want %q", into[0].Payload, err, want)
			}
			c.Ack(into[0].Receipt)
		}
	})
}

func TestAReceiptIsForOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := script(t, Options{ClientID: "c", Session: time.Hour}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			p.deliver(1, false, 1, "x")
			p.deliver(2, false, 1, "never read")
			time.Sleep(time.Second)
		}, func(p *peer) {
			p.welcome(true, packets.Properties{})
			p.deliver(1, true, 1, "x")
			p.drain()
		})
		into := make([]Delivery, 1)
		if _, err := c.Receive(t.Context(), into); err != nil {
			t.Fatal(err)
		}
		old := into[0].Receipt
		time.Sleep(2 * time.Second)
		if c.Ack(old) != 0 {
			t.Error("a receipt of a connection that broke is good")
		}
		if _, err := c.Receive(t.Context(), into); err != nil || !into[0].Dup || into[0].Receipt.ID() != old.ID() {
			t.Fatalf("received %+v, %v; want message 1 again", into[0], err)
		}
		if c.Ack(into[0].Receipt) != 1 {
			t.Error("the new receipt is not good")
		}
	})
}

// A request is answered although its answer is behind more messages than the inbox holds.
func TestAnAnswerBehindAFullInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		c := script(t, Options{Inbox: 2}, func(p *peer) {
			p.welcome(false, packets.Properties{})
			go func() {
				for i := range many {
					p.deliver(uint16(i+1), false, 1, fmt.Sprint(i))
				}
				p.send(0x90, 4, 0xEA, 0x61, 0, 1)
			}()
			p.drain()
		})
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is full before any request
		if n := c.Stats().Inbox; n != 2 {
			t.Fatalf("%d in the inbox, want 2", n)
		}
		if err := c.Subscribe(t.Context(), Subscription{"in", 1}); err != nil {
			t.Fatal(err)
		}
		into := make([]Delivery, many)
		for got := 0; got < many; {
			n, err := c.Receive(t.Context(), into)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range into[:n] {
				if string(d.Payload) != fmt.Sprint(got) {
					t.Fatalf("received %s, want %d", d.Payload, got)
				}
				got++
			}
		}
	})
}
