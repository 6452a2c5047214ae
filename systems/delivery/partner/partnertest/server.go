// Package partnertest has partners for tests: small real HTTP servers that behave as each
// partner documents, and servers that do everything a partner should not. Use them in all tests
// of delivery.
//
//	p := partnertest.DV360(t)
//	p.Script(partnertest.RetryAfter(429, "1"), partnertest.ResetInBody())
//	... deliver to p.URL ...
//	p.Effects("order-1") // how often it took effect
//
// A script says what happens to the first requests, one step each; after it the partner works
// normally. Requests for tokens have a separate script.
package partnertest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Request is a received request.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// Server is a partner that listens on loopback. It is safe for concurrent use.
type Server struct {
	URL  string // https, unless it was made by Plain
	Addr string // host:port
	http *httptest.Server
	held chan struct{} // closed to release held requests
	once sync.Once

	mu       sync.Mutex
	script   []Step
	tokens   []Step
	requests []Request
	taken    map[string]int // effects by id
	sent     map[string]int // how often an id came in an accepted request
	issued   map[string]bool
	partial  Partial
	serial   int
	open     int
	most     int
	conns    int
	own      http.HandlerFunc // the partner's
}

// keepRequests is how many requests a server remembers.
const keepRequests = 10_000

// maxRequest is how much of a request is read.
const maxRequest = 16 << 20

// New makes a server of a handler, with TLS. Its certificate is of no known authority: see
// Roots.
func New(t testing.TB, handler http.HandlerFunc) *Server {
	s := prepare(handler)
	s.http.StartTLS()
	s.begin(t)
	return s
}

// Plain makes a server without TLS.
func Plain(t testing.TB, handler http.HandlerFunc) *Server {
	s := prepare(handler)
	s.http.Start()
	s.begin(t)
	return s
}

// WithTLS makes a server with a certificate and rules of its own.
func WithTLS(t testing.TB, c *tls.Config, handler http.HandlerFunc) *Server {
	s := prepare(handler)
	s.http.TLS = c
	s.http.StartTLS()
	s.begin(t)
	return s
}

func prepare(handler http.HandlerFunc) *Server {
	s := &Server{held: make(chan struct{}), taken: map[string]int{}, sent: map[string]int{}, issued: map[string]bool{}, own: handler}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.conns++
		}
	}
	return s
}

func (s *Server) begin(t testing.TB) {
	s.URL, s.Addr = s.http.URL, s.http.Listener.Addr().String()
	t.Cleanup(s.Close)
}

// Close ends the server and every request in it.
func (s *Server) Close() {
	s.Release()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Roots has the authority of the server's certificate.
func (s *Server) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.http.Certificate())
	return pool
}

// Script adds steps for the next requests.
func (s *Server) Script(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, steps...)
}

// ScriptTokens adds steps for the next requests for a token.
func (s *Server) ScriptTokens(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = append(s.tokens, steps...)
}

// Release releases requests that Hold holds, now and later.
func (s *Server) Release() { s.once.Do(func() { close(s.held) }) }

// Requests are the received requests, except those for tokens.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Connections is how many were opened.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Most is how many requests were in the server at once.
func (s *Server) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Tokens is how many access tokens were issued.
func (s *Server) Tokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serial
}

// Revoke makes all issued tokens invalid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.issued)
}

// Effects is how often an id took effect: at most 1 at a partner that de-duplicates.
func (s *Server) Effects(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[id]
}

// Sent is how often an id came in.
func (s *Server) Sent(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

// take notes that an id came in, again or for the first time.
func (s *Server) take(id string, deduplicates bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[id]++
	if s.taken[id] == 0 || !deduplicates {
		s.taken[id]++
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return
	}
	asks := strings.HasPrefix(r.URL.Path, "/token")
	s.mu.Lock()
	s.open++
	s.most = max(s.most, s.open)
	steps := &s.script
	if asks {
		steps = &s.tokens
	} else if len(s.requests) < keepRequests {
		s.requests = append(s.requests, Request{r.Method, r.URL.RequestURI(), r.Header.Clone(), body})
	}
	var step Step
	if len(*steps) > 0 {
		step, *steps = (*steps)[0], (*steps)[1:]
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}()
	e := &Exchange{Server: s, W: w, R: r, Body: body}
	if step != nil {
		step(e)
		return
	}
	e.Work()
}
