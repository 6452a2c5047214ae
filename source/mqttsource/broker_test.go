package mqttsource

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/mqttconn"
)

// rig is a source whose broker is played by a test, packet by packet: it does what is allowed
// and what servers seldom do.
type rig struct {
	t   *testing.T
	src *Source

	mu      sync.Mutex // guards what follows
	present bool       // what the next connection is told of its session
	conn    net.Conn
	acks    []uint16 // of this connection
}

// played runs a test in a bubble.
func played(t *testing.T, play func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t}
		c, err := mqttconn.Open(t.Context(), []string{"tcp://broker"}, mqttconn.Options{ClientID: "c", Session: time.Hour, Version: 4,
			Dial: func(context.Context, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				r.mu.Lock()
				r.conn, r.acks = theirs, nil
				r.mu.Unlock()
				go r.serve(theirs)
				return ours, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if r.src, err = New(t.Context(), c, Options{}, mqttconn.Subscription{Filter: "#", QoS: 1}); err != nil {
			t.Fatal(err)
		}
		play(r)
		synctest.Wait()
		if held, packets := len(r.src.held), len(r.src.packets); held+packets > 0 {
			t.Errorf("%d messages and %d packet ids are remembered after all has ended", held, packets)
		}
		_ = c.Close(t.Context())
	})
}

// serve answers the client until the connection ends.
func (r *rig) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		var head [2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		body := make([]byte, head[1]) // none is longer than 127 bytes
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		if answer := r.answer(head[0]>>4, body); answer != nil {
			_, _ = conn.Write(answer)
		}
	}
}

// answer is what a broker answers to a packet of this type.
func (r *rig) answer(packet byte, body []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch packet {
	case 1: // CONNECT
		if r.present {
			return []byte{0x20, 2, 1, 0}
		}
		return []byte{0x20, 2, 0, 0}
	case 4: // PUBACK
		r.acks = append(r.acks, binary.BigEndian.Uint16(body))
	case 8: // SUBSCRIBE
		return []byte{0x90, 3, body[0], body[1], 1}
	case 12: // PINGREQ
		return []byte{0xd0, 0}
	}
	return nil
}

// deliver sends a message at QoS 1.
func (r *rig) deliver(id byte, again bool, topic, payload string) {
	first := byte(0x32)
	if again {
		first |= 0x08
	}
	b := append([]byte{first, byte(4 + len(topic) + len(payload)), 0, byte(len(topic))}, topic...)
	_, _ = r.broker().Write(append(append(b, 0, id), payload...))
}

// broker is the broker's end of the newest connection.
func (r *rig) broker() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// reconnect breaks the connection and waits for the next one.
func (r *rig) reconnect(present bool) {
	r.cut()
	r.mu.Lock()
	r.present = present
	r.mu.Unlock()
	time.Sleep(time.Hour)
	synctest.Wait()
}

// cut breaks the connection. The next one comes later.
func (r *rig) cut() {
	_ = r.broker().Close()
	synctest.Wait()
}

// take receives what comes in one call.
func (r *rig) take(want ...string) []*tidemill.Message {
	r.t.Helper()
	into := make([]*tidemill.Message, 100)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	synctest.Wait() // all that was sent is there
	n, err := r.src.Receive(r.t.Context(), into)
	var got []string
	for _, m := range into[:n] {
		got = append(got, string(m.Payload))
	}
	if err != nil || !slices.Equal(got, want) {
		r.t.Fatalf("received %v, %v; want %v", got, err, want)
	}
	return into[:n]
}

// settle ends messages, and each counts.
func (r *rig) settle(after time.Duration, e tidemill.End, ms ...*tidemill.Message) {
	r.t.Helper()
	for _, m := range ms {
		ends := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, End: e, After: after}}
		if err := r.src.Settle(r.t.Context(), ends); err != nil || ends[0].Outcome != tidemill.Applied {
			r.t.Fatalf("the end of %s: taken as %v, %v; want it applied", m.Payload, ends[0].Outcome, err)
		}
	}
}

// acked holds what the client has acknowledged on this connection.
func (r *rig) acked(want ...uint16) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.acks, want) {
		r.t.Errorf("packets %v were acknowledged, want %v", r.acks, want)
	}
}

func TestAPacketIDIsUsedAgain(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		r.settle(0, tidemill.Done, r.take("x")...)
		r.acked(1)
		r.deliver(1, true, "t", "x") // it looks like the one before, which has ended
		r.settle(0, tidemill.Done, r.take("x")...)
		r.acked(1, 1)
	})
}

func TestWhatIsHereIsNotHandedOutAgain(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		r.deliver(2, false, "u", "x")
		got := r.take("x", "x")
		r.reconnect(true)
		r.deliver(1, true, "t", "x")
		r.deliver(2, true, "u", "x")
		go func() {
			time.Sleep(time.Minute) // the source has looked at those
			r.deliver(3, false, "t", "z")
		}()
		got = append(got, r.take("z")...)
		for i, want := range []string{"t", "u", "t"} {
			if got[i].To != want {
				t.Errorf("message %d came to %q, want %q", i, got[i].To, want)
			}
		}
		r.settle(0, tidemill.Done, got...)
		r.acked(1, 2, 3)
		if st := r.src.Stats(); st.Received != 3 || st.Repeated != 2 {
			t.Errorf("%+v, want 3 received and 2 repeated", st)
		}
	})
}

func TestTheBrokerIsToldLaterWhatEndedWithoutIt(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		got := r.take("x")
		r.cut()
		for _, held := range []int{1, 0} {
			if st := r.src.Stats(); st.Held != held {
				t.Errorf("%+v, want %d held", st, held)
			}
			if held > 0 {
				r.settle(0, tidemill.Done, got...)
			}
		}
		r.reconnect(true)
		r.deliver(1, true, "t", "x")
		for id, payload := range []string{2: "y", 3: "z"} {
			if payload != "" {
				r.deliver(byte(id), false, "t", payload)
				r.settle(0, tidemill.Done, r.take(payload)...)
			}
		}
		r.acked(1, 2, 3)
	})
}

func TestAPacketIDIsGivenToAnotherMessage(t *testing.T) {
	for name, ended := range map[string]bool{"after the end, which it did not hear of": true, "before the end": false} {
		t.Run(name, func(t *testing.T) {
			played(t, func(r *rig) {
				r.deliver(1, false, "t", "x")
				got := r.take("x")
				r.cut()
				if ended {
					r.settle(0, tidemill.Done, got...)
					got = nil
				}
				r.reconnect(true)
				r.deliver(1, false, "t", "x") // the same bytes, but not sent before
				r.settle(0, tidemill.Done, append(got, r.take("x")...)...)
				r.acked(1)
			})
		})
	}
}

func TestAnotherSessionHasOtherPacketIDs(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		r.deliver(2, false, "t", "y")
		r.deliver(3, false, "t", "z")
		got := r.take("x", "y", "z")
		r.cut()
		r.settle(0, tidemill.Done, got[1])
		r.reconnect(false)
		r.deliver(1, true, "t", "x")
		r.settle(0, tidemill.Done, append(r.take("x"), got[0], got[2])...)
		r.acked(1)
	})
}

// The broker does not send again what was left in a session that it has lost.
func TestWhatWasLeftOutlivesItsSession(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		r.settle(0, tidemill.Left, r.take("x")...)
		r.reconnect(false)
		r.deliver(1, false, "t", "y")
		r.settle(0, tidemill.Done, r.take("y")...)
		into := []*tidemill.Message{new(tidemill.Message)}
		if n, _ := r.src.takeDue(into); n != 1 || string(into[0].Payload) != "x" { // not Receive: it would wait for ever
			t.Fatalf("%d messages are due (%q), want the one that was left", n, into[0].Payload)
		}
		r.settle(0, tidemill.Done, into...)
		r.acked(1)
	})
}

// What is put off comes back when it is due, the oldest first of one time, also when others
// of those that wait end by their IDs.
func TestWhatIsPutOffComesInTheOrderOfItsTimes(t *testing.T) {
	played(t, func(r *rig) {
		begin := time.Now()
		seconds := []int{5, 3, 8, 1, 9, 2, 7, 4, 6, 3, 3, 8, 8, 1, 6}
		byTime := map[int][]*tidemill.Message{}
		for i := range seconds {
			r.deliver(byte(1+i), false, "t", strconv.Itoa(i))
			got := r.take(strconv.Itoa(i))
			byTime[seconds[i]] = append(byTime[seconds[i]], got...)
		}
		for i := range 10 { // those of the latest time first
			for _, m := range slices.Backward(byTime[9-i]) {
				r.settle(time.Duration(9-i)*time.Second, tidemill.Again, m)
			}
		}
		for _, s := range []int{8, 1, 4} { // an end from outside
			m := byTime[s][0]
			r.settle(0, tidemill.Done, &tidemill.Message{ID: m.ID, Payload: m.Payload})
			byTime[s] = byTime[s][1:]
		}
		for s := range 10 {
			if len(byTime[s]) == 0 {
				continue
			}
			var want []string
			for _, m := range byTime[s] {
				want = append(want, string(m.Payload))
			}
			r.settle(0, tidemill.Done, r.take(want...)...)
			if took := time.Since(begin); took != time.Duration(s)*time.Second {
				t.Errorf("%v came back after %v, want %d s", want, took, s)
			}
		}
	})
}

// Who waits for what comes in is woken for what comes due.
func TestWhatIsPutOffWakesTheOneThatWaits(t *testing.T) {
	played(t, func(r *rig) {
		r.deliver(1, false, "t", "x")
		got := r.take("x")
		go func() {
			time.Sleep(time.Minute)
			r.settle(time.Second, tidemill.Again, got[0])
		}()
		begin := time.Now()
		got = r.take("x")
		if took := time.Since(begin); took != time.Minute+time.Second {
			t.Errorf("it came back after %v, want 1m1s", took)
		}
		r.settle(0, tidemill.Done, got...)
	})
}

// A client that was closed brings nothing any more, and who waits for it is told.
func TestAClosedClientEndsTheWait(t *testing.T) {
	played(t, func(r *rig) {
		if err := r.src.client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := r.src.Receive(t.Context(), []*tidemill.Message{new(tidemill.Message)}); n != 0 || err == nil {
			t.Errorf("received %d, %v; want an error", n, err)
		}
	})
}
