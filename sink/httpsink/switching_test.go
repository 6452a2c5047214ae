package httpsink_test

import (
	"net"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// TestAnotherProtocolIsNoAnswer holds that a server which switches the protocol, and then says
// nothing, holds nobody up: net/http leaves such a connection to its reader, without a deadline.
func TestAnotherProtocolIsNoAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		some := make([]byte, 4096)
		_, _ = c.Read(some)
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"))
		_, _ = c.Read(some) // until the other side closes
	}()
	s, err := httpsink.New(guard(t, httpguard.Options{Plain: true}), httpsink.Options{URL: "http://" + l.Addr().String(), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Write(t.Context(), []*tidemill.Message{message("1")}) }()
	select {
	case err := <-done:
		if r := kindOf(t, err, tidemill.Partner); r.Status != 101 {
			t.Errorf("its answer is %d", r.Status)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the request goes on, ten times its timeout later")
	}
}
