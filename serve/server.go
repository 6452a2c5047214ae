// Package serve is what listens: one HTTP server for ingest, the API, metrics and health,
// with limits on everything a client may take.
package serve

import (
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
}

// Listen opens the address. A busy one is an error that says so.
func Listen(addr string, h http.Handler, l Limits, log *slog.Logger) (*Server, error) {
	raw, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w (give another with --listen)", addr, err)
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
	return &Server{
		listener: netutil.LimitListener(raw, l.Connections),
		server: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: or(l.Header, 10*time.Second),
			ReadTimeout:       or(l.Header, 10*time.Second) + or(l.Body, 30*time.Second),
			WriteTimeout:      or(l.Answer, 10*time.Minute),
			IdleTimeout:       or(l.Idle, 2*time.Minute),
			MaxHeaderBytes:    l.HeaderBytes,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}, nil
}

// Addr is where it listens, with the port that was chosen for :0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves until ctx ends, then takes no more connections and lets requests that have
// begun finish within grace.
func (s *Server) Run(ctx context.Context, grace time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := s.server.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	<-failed
	return err
}
