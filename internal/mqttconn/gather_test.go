package mqttconn

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill/internal/testenv/testca"
)

// overTCP is script for one connection through the kernel, which a pipe is not; with o.TLS it
// uses TLS.
func overTCP(t *testing.T, o Options, play func(*peer)) *Client {
	t.Helper()
	scheme, wrap := "tcp://", func(c net.Conn) net.Conn { return c }
	if o.TLS != nil {
		a := testca.New(t)
		own := a.Issue("broker", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		o.TLS.RootCAs = a.Roots()
		scheme, wrap = "tls://", func(c net.Conn) net.Conn {
			return tls.Server(c, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		p := &peer{t: t, conn: wrap(conn)}
		if first, _ := p.next(); first>>4 != packets.Connect {
			t.Errorf("the client began with %x", first)
			return
		}
		play(p)
	}()
	c, err := Open(t.Context(), []string{scheme + ln.Addr().String()}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.abort()
		ln.Close()
		<-done
	})
	return c
}

// publishing publishes n messages in the background.
func publishing(t *testing.T, c *Client, n int) (ended chan error) {
	t.Helper()
	batch := make([]Message, n)
	for i := range batch {
		batch[i] = Message{Topic: "t", QoS: 1}
	}
	ended = make(chan error, 1)
	go func() { ended <- c.Publish(t.Context(), batch) }()
	return ended
}

// A broker that sends each acknowledgement by itself must not wake us for each.
func TestManyAcknowledgementsAreReadTogether(t *testing.T) {
	const n, paced = 1000, 100
	sending := make(chan time.Duration, 1)
	c := overTCP(t, Options{Window: n}, func(p *peer) {
		p.welcome(false, packets.Properties{})
		ids := make([]uint16, n)
		for i := range ids {
			ids[i] = p.publish().id
		}
		start := time.Now()
		for _, id := range ids[:paced] { // Go's sockets have TCP_NODELAY
			p.send(appendAck(nil, pubackBits, id)...)
			time.Sleep(100 * time.Microsecond) // long enough for a woken reader
		}
		var rest []byte
		for _, id := range ids[paced:] {
			rest = appendAck(rest, pubackBits, id)
		}
		p.send(rest...)
		sending <- time.Since(start)
		p.drain()
	})
	before := c.Stats().Reads
	if err := <-publishing(t, c, n); err != nil {
		t.Fatal(err)
	}
	took, reads := <-sending, c.Stats().Reads-before
	if most := 20 + uint64(took/gather); runtime.GOOS == "linux" && reads > most {
		t.Errorf("%d acknowledgements in %v took %d reads, want %d at most", n, took, reads, most)
	}
}

// However few of many come, each is read soon.
func TestNoAcknowledgementIsWaitedForLong(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { noneIsWaitedForLong(t, Options{}) })
	t.Run("TLS", func(t *testing.T) { noneIsWaitedForLong(t, Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}) })
}

func noneIsWaitedForLong(t *testing.T, o Options) {
	const n = 1000
	o.Window = n
	next := make(chan struct{})
	told := func() {
		select {
		case <-next:
		case <-t.Context().Done(): // it failed
		}
	}
	c := overTCP(t, o, func(p *peer) {
		p.welcome(false, packets.Properties{})
		ids := make([]uint16, n)
		for i := range ids {
			ids[i] = p.publish().id
		}
		for range 3 {
			told()
			p.send(appendAck(nil, pubackBits, ids[0])...)
			ids = ids[1:]
		}
		told()
		for _, id := range ids {
			p.send(appendAck(nil, pubackBits, id)...)
		}
		p.drain()
	})
	ended := publishing(t, c, n)
	for acked := range uint64(3) {
		next <- struct{}{}
		start := time.Now()
		eventually(t, "one more acknowledgement was read", func() bool { return c.Stats().Acked == acked+1 })
		if took := time.Since(start); took > time.Second {
			t.Errorf("acknowledgement %d was read after %v", acked+1, took)
		}
	}
	next <- struct{}{}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
