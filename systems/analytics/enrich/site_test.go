package enrich

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// pipes is a listener with connections in memory, so that a real server and a real client meet
// inside a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// site serves databases. Each request gets the next of its answers, the last one repeatedly.
type site struct {
	via     http.RoundTripper
	answers []http.HandlerFunc
	asked   atomic.Int64
}

func newSite(t *testing.T, answers ...http.HandlerFunc) *site {
	s := &site{answers: answers}
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: s, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	transport := &http.Transport{DialContext: p.dial, DisableKeepAlives: true}
	s.via = transport
	served := make(chan error)
	go func() { served <- server.Serve(p) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(s.asked.Add(1))
	s.answers[min(n, len(s.answers))-1](w, r)
}

func (s *site) wantAsked(t *testing.T, want int64) {
	t.Helper()
	if got := s.asked.Load(); got != want {
		t.Errorf("%d requests so far, want %d", got, want)
	}
}

func serve(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", code) }
}

// short promises more than it sends.
func short(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:len(data)-1])
	}
}

// cut breaks the connection within a body of unknown length.
func cut(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Write(data[:len(data)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// stuck sends a little and then nothing, until the client gives up.
func stuck(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Write(data[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func archived(t testing.TB, files ...any) []byte { // name, content, name, content…
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		data := files[i+1].([]byte)
		h := &tar.Header{Name: files[i].(string), Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return zipped(t, b.Bytes())
}
