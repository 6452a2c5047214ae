package sockets_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
)

// A client that takes nothing is cut off by the system, though what it is sent would have room for minutes,
// and does not keep much in the system.
func TestAClientThatTakesNothingIsCutByTheSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system has no such limit")
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := sockets.Bound(raw, sockets.Options{Total: 10, PerAddress: 10})
	defer l.Close()
	client, err := net.Dial("tcp", raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_ = client.(*net.TCPConn).SetReadBuffer(4 << 10)
	its, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer its.Close()
	const most = 64 << 10
	sockets.Of(sockets.With(context.Background(), its)).Limit(most, 300*time.Millisecond)

	sent := 0
	_ = its.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	for range 1000 { // 4 MB, which the system would take
		n, err := its.Write(make([]byte, 4<<10))
		if sent += n; err != nil {
			break
		}
	}
	if sent > 6*most { // Linux doubles it, and counts what it takes to keep it
		t.Errorf("the system keeps %d bytes, where %d were asked for", sent, most)
	}
	_ = its.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := its.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still there: %v", err)
	}
}
