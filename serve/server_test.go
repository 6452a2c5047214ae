package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve"
)

// served is a server that runs until the test ends it.
type served struct {
	addr string
	stop context.CancelFunc
	log  *bytes.Buffer // to be read after ended
	err  chan error
}

func (s *served) ended(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.err; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func listen(t *testing.T, h http.Handler, l serve.Limits, grace time.Duration) *served {
	t.Helper()
	s := &served{log: new(bytes.Buffer), err: make(chan error, 1)}
	server, err := serve.Listen("127.0.0.1:0", h, l, slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	s.addr = server.Addr()
	go func() { s.err <- server.Run(ctx, grace) }()
	return s
}

func dial(t *testing.T, addr, say string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, say); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClientThatNeverEndsItsHeaderIsCutOff(t *testing.T) {
	t.Parallel()
	s := listen(t, http.NotFoundHandler(), serve.Limits{Header: 50 * time.Millisecond}, time.Second)
	c := dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	if b, err := io.ReadAll(c); errors.Is(err, context.DeadlineExceeded) || strings.Contains(string(b), "404") {
		t.Errorf("the answer to half a header is %q, %v; want none or a refusal", b, err)
	}
	s.ended(t)
}

func TestAClientThatNeverEndsItsBodyIsCutOff(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	s := listen(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}), serve.Limits{Header: 50 * time.Millisecond, Body: 50 * time.Millisecond}, time.Second)
	dial(t, s.addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome")
	var timeout net.Error
	if err := <-got; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the handler read %v, want a time-out", err)
	}
	s.ended(t)
}

func TestAHeaderThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	s := listen(t, http.NotFoundHandler(), serve.Limits{HeaderBytes: 4 << 10}, time.Second)
	c := dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 16<<10)+"\r\n\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "431") {
		t.Errorf("the answer is %q, %v; want 431", line, err)
	}
	s.ended(t)
}

// Silent sockets, and those between two requests, make room for whoever asks for something.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), serve.Limits{Connections: 5, PerAddress: -1}, time.Second)
	for n := range 200 {
		dial(t, s.addr, "")
		if n%20 > 0 {
			continue
		}
		line, err := bufio.NewReader(dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")).ReadString('\n')
		if err != nil || !strings.Contains(line, "204") {
			t.Fatalf("behind %d silent sockets: %q, %v", n+1, line, err)
		}
	}
	s.ended(t)
}

// A request that was answered before its body came makes room too: the server only waits for
// the rest.
func TestBodiesThatNobodyWantsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), serve.Limits{Connections: 5, PerAddress: -1}, time.Second)
	for range 50 {
		dial(t, s.addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nsome")
	}
	line, err := bufio.NewReader(dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")).ReadString('\n')
	if err != nil || !strings.Contains(line, "204") {
		t.Fatalf("the answer is %q, %v", line, err)
	}
	s.ended(t)
}

func TestWhereAllAreAtWorkOnlyWhatIsReservedIsAnswered(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	begun, release := make(chan bool, 30), make(chan bool)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			return
		}
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		begun <- true
		<-release
		now.Add(-1)
	}), serve.Limits{Connections: 3, PerAddress: -1, Reserved: func(r *http.Request) bool { return r.URL.Path == "/livez" }}, time.Second)
	var working []net.Conn
	for range 3 {
		working = append(working, dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
		<-begun
	}
	for range 10 {
		if b, err := io.ReadAll(dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil || !strings.Contains(string(b), "503") || !strings.Contains(string(b), "Retry-After") {
			t.Errorf("one too many got %q, %v", b, err)
		}
		if b, err := io.ReadAll(dial(t, s.addr, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Errorf("a probe got %q, %v", b, err)
		}
	}
	close(release)
	for _, c := range working {
		if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Errorf("one at work got %q, %v", b, err)
		}
	}
	if m := most.Load(); m != 3 {
		t.Errorf("%d requests were worked on at once, want 3", m)
	}
	s.ended(t)
}

func TestAStopLetsRequestsThatHaveBegunFinish(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan bool), make(chan bool)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- true
		<-finish
		_, _ = fmt.Fprint(w, "whole")
	}), serve.Limits{}, time.Minute)
	answer := make(chan string)
	go func() {
		resp, err := http.Get("http://" + s.addr)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(string(b), " ", err)
	}()
	<-begun
	s.stop()
	for { // the listener closes first
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case err := <-s.err:
		t.Fatalf("Run returned %v before the request was done", err)
	default:
	}
	finish <- true
	if got := <-answer; got != "whole <nil>" {
		t.Errorf("the answer is %q, want it whole", got)
	}
	if err := <-s.err; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestAfterTheGraceRequestsAreEndedBeforeRunReturns(t *testing.T) {
	t.Parallel()
	begun := make(chan bool)
	var done atomic.Bool
	s := listen(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- true
		<-r.Context().Done()
		done.Store(true)
	}), serve.Limits{}, 10*time.Millisecond)
	dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	s.ended(t)
	if !done.Load() {
		t.Error("Run returned while a handler still worked")
	}
}

func TestAHandlerThatHeedsNothingDoesNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	begun, forever := make(chan bool), make(chan bool)
	defer close(forever)
	s := listen(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- true
		<-forever
	}), serve.Limits{}, 10*time.Millisecond)
	dial(t, s.addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	s.ended(t)
}

func TestAHandlerThatPanicsIsLoggedAndTheServerGoesOn(t *testing.T) {
	t.Parallel()
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("planted")
		}
		w.WriteHeader(http.StatusNoContent)
	}), serve.Limits{}, time.Second)
	if resp, err := http.Get("http://" + s.addr + "/panic"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a panic was answered %s", resp.Status)
	}
	resp, err := http.Get("http://" + s.addr)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Errorf("after a panic: %v, %v", resp, err)
	}
	s.ended(t)
	if !strings.Contains(s.log.String(), "level=WARN") || !strings.Contains(s.log.String(), "planted") {
		t.Errorf("the panic was not logged: %s", s.log)
	}
}

func TestAnAddressInUseIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	first, err := serve.Listen("127.0.0.1:0", http.NotFoundHandler(), serve.Limits{}, log)
	if err != nil {
		t.Fatal(err)
	}
	_, err = serve.Listen(first.Addr(), http.NotFoundHandler(), serve.Limits{}, log)
	if err == nil || !strings.Contains(err.Error(), "in use by another program") || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("Listen on %s = %v", first.Addr(), err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second, err := serve.Listen(first.Addr(), http.NotFoundHandler(), serve.Limits{}, log)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	_ = second.Close()
	if _, err := serve.Listen("256.0.0.1:0", http.NotFoundHandler(), serve.Limits{}, log); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("Listen on a wrong address = %v", err)
	}
}
