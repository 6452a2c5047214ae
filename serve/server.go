// Package serve is what listens: one HTTP server for ingest, the API, metrics and health,
// with limits on everything a client may take.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sockets"
)

// Limits bound what clients may take. The zero value has the defaults named.
type Limits struct {
	Setting     string         // where the address was given, for errors; empty means --listen
	Connections int            // open at once; 0 means 4096. Where there are more, those that wait for their client are closed first.
	PerAddress  int            // open at once from one address; 0 means half of Connections and 64 at least, negative: as many as there are
	Trusted     []netip.Prefix // of proxies, for which PerAddress does not hold
	Header      time.Duration  // to send the header; 0 means 10s
	Body        time.Duration  // to send the body; 0 means 30s
	Answer      time.Duration  // to take the answer, from the end of the header; 0 means 10m (long listings)
	Idle        time.Duration  // between requests; 0 means 2m
	HeaderBytes int            // 0 means 64 KiB

	// Reserved says whether a request is answered though Connections are all at work: probes,
	// and what operators ask for. Others are answered 503 then. Nil: nothing is reserved.
	Reserved func(*http.Request) bool
}

// reserve is how many connections more than Limits.Connections are taken for what is Reserved.
const reserve = 64

// Server is a listener that is open: its address is known before it serves.
type Server struct {
	listener *sockets.Listener
	server   *http.Server
	abort    context.CancelFunc // ends the context of every request
}

// Listen opens the address. Who gets a Server runs it, or closes it.
func Listen(addr string, h http.Handler, l Limits, log *slog.Logger) (*Server, error) {
	l.Setting = cmp.Or(l.Setting, "--listen")
	raw, err := net.Listen("tcp", addr)
	if err != nil {
		if errors.Is(err, errInUse) {
			return nil, fmt.Errorf("%s is in use by another program: stop it, or give another address with %s", addr, l.Setting)
		}
		return nil, fmt.Errorf("listen on %s: %w; give another address with %s", addr, err, l.Setting)
	}
	or := func(d, def time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return def
	}
	if l.HeaderBytes <= 0 {
		l.HeaderBytes = 64 << 10
	}
	extra := 0
	if l.Reserved != nil {
		extra = reserve
	}
	requests, abort := context.WithCancel(context.Background())
	return &Server{
		abort:    abort,
		listener: sockets.Bound(raw, sockets.Options{Total: l.Connections, PerAddress: l.PerAddress, Reserve: extra, Trusted: l.Trusted, HTTP: true, Log: log}),
		server: &http.Server{
			Handler:           within(h, l.Reserved),
			ReadHeaderTimeout: or(l.Header, 10*time.Second),
			ReadTimeout:       or(l.Header, 10*time.Second) + or(l.Body, 30*time.Second),
			WriteTimeout:      or(l.Answer, 10*time.Minute),
			IdleTimeout:       or(l.Idle, 2*time.Minute),
			MaxHeaderBytes:    l.HeaderBytes,
			BaseContext:       func(net.Listener) context.Context { return requests },
			ConnContext:       sockets.With,
			ConnState:         mark,
			ErrorLog:          stdlog.New(said{log}, "", 0), // a handler that panicked, too many open files
		},
	}, nil
}

// said makes records of what Go's HTTP server says of itself.
type said struct{ log *slog.Logger }

func (s said) Write(text []byte) (int, error) {
	// Logged when Go's HTTP server has something to say: a handler panicked, there are too many open
	// files, or a client did not speak HTTP.
	// To do: report a panic with its text; raise the limit of open files; else nothing.
	s.log.Warn("the HTTP server had an error", "text", strings.TrimSuffix(string(text), "\n"))
	return len(text), nil
}

// mark tells what a connection is doing, as far as the server knows it: new ones are silent
// until their first header has come.
func mark(c net.Conn, s http.ConnState) {
	own, ok := c.(*sockets.Conn)
	if !ok {
		return
	}
	switch s {
	case http.StateActive:
		own.Mark(sockets.Busy)
	case http.StateIdle:
		own.Mark(sockets.Idle)
	}
}

// within answers what comes on the reserve and is not what that is for, and marks those whose
// request is worked on no more: the server may still wait for the rest of a body. After a request
// that says in two ways how long its body is, nothing more is read of its connection: what a
// proxy took for the body may be another request here.
func within(h http.Handler, reserved func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := sockets.Of(r.Context())
		if c.Twofold(r) {
			w.Header().Set("Connection", "close")
		}
		if c.Over() && !reserved(r) {
			c.Mark(sockets.Sending)
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many connections, please retry", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
		c.Mark(sockets.Sending)
	})
}

// Sockets are the numbers of its connections.
func (s *Server) Sockets() sockets.Stats { return s.listener.Stats() }

// Addr is where it listens, with the port that was chosen for :0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close gives the address free again; it is for a server that was never run.
func (s *Server) Close() error {
	s.abort()
	return s.listener.Close()
}

// abortGrace is how long requests whose context was ended have to notice.
const abortGrace = 2 * time.Second

// Run serves until ctx ends. Then it takes no more connections and lets requests that have
// begun finish within grace; the context of those that take longer is ended, and after 2s
// more their connections are cut.
func (s *Server) Run(ctx context.Context, grace time.Duration) error {
	defer s.abort()
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	err := s.shutdown(ctx, grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.abort()
		err = s.shutdown(ctx, abortGrace)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	<-failed
	return err
}

func (s *Server) shutdown(ctx context.Context, grace time.Duration) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return s.server.Shutdown(late)
}
