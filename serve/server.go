// Package serve is what listens: one HTTP server for ingest, the API, metrics and health,
// with limits on everything a client may take.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// Limits bound what clients may take. The zero value has the defaults named.
type Limits struct {
	Setting     string        // where the address was given, for errors; empty means --listen
	Connections int           // open at once; 0 means 4096. More wait in the kernel.
	Header      time.Duration // to send the header; 0 means 10s
	Body        time.Duration // to send the body; 0 means 30s
	Answer      time.Duration // to take the answer, from the end of the header; 0 means 10m (long listings)
	Idle        time.Duration // between requests; 0 means 2m
	HeaderBytes int           // 0 means 64 KiB
}

// Server is a listener that is open: its address is known before it serves.
type Server struct {
	listener net.Listener
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
	if l.Connections <= 0 {
		l.Connections = 4096
	}
	if l.HeaderBytes <= 0 {
		l.HeaderBytes = 64 << 10
	}
	requests, abort := context.WithCancel(context.Background())
	return &Server{
		abort:    abort,
		listener: netutil.LimitListener(raw, l.Connections),
		server: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: or(l.Header, 10*time.Second),
			ReadTimeout:       or(l.Header, 10*time.Second) + or(l.Body, 30*time.Second),
			WriteTimeout:      or(l.Answer, 10*time.Minute),
			IdleTimeout:       or(l.Idle, 2*time.Minute),
			MaxHeaderBytes:    l.HeaderBytes,
			BaseContext:       func(net.Listener) context.Context { return requests },
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn), // a handler that panicked, too many open files
		},
	}, nil
}

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
