package gdelttest

import (
	"crypto/md5" //nolint:gosec // what the lists have
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Server publishes files as GDELT does: /masterfilelist.txt names all of them.
type Server struct {
	URL string

	mu    sync.Mutex
	files map[string][]byte
	order []string
	lies  map[string]string // false lines of the list
	asked map[string]int
}

// NewServer starts a server on loopback; it ends with the test.
func NewServer(t testing.TB) *Server {
	s := &Server{files: map[string][]byte{}, lies: map[string]string{}, asked: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// List is the URL of the list.
func (s *Server) List() string { return s.URL + "/masterfilelist.txt" }

// Publish adds files, under their names.
func (s *Server) Publish(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.order, name) {
		s.order = append(s.order, name)
	}
	s.files[name] = content
}

// Lie makes the list say something else about a file; empty: the truth again.
func (s *Server) Lie(name, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lies[name] = line
}

// Withdraw answers 404 for a file that stays listed.
func (s *Server) Withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = nil
}

// Asked is how often a path was requested.
func (s *Server) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	var answer []byte
	if r.URL.Path == "/masterfilelist.txt" {
		answer = []byte(s.list())
	} else {
		answer = s.files[strings.TrimPrefix(r.URL.Path, "/")]
	}
	s.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(answer)
}

func (s *Server) list() string {
	var b strings.Builder
	for _, name := range s.order {
		if line := s.lies[name]; line != "" {
			b.WriteString(line + "\n")
			continue
		}
		content := s.files[name]
		fmt.Fprintf(&b, "%d %x %s/%s\n", len(content), md5.Sum(content), s.URL, name) //nolint:gosec // what the lists have
	}
	return b.String()
}
