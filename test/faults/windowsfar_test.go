//go:build servers

package faults

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// windowsService is the service of an HTTP processor: it leaves records unchanged, and can make
// requests wait.
type windowsService struct {
	*httptest.Server
	mu   sync.Mutex // guards hold
	hold chan struct{}
	came atomic.Int64
}

func newWindowsService(t testing.TB) *windowsService {
	s := &windowsService{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.came.Add(1)
		s.mu.Lock()
		hold := s.hold
		s.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"records":[]}`)
	}))
	t.Cleanup(func() { s.let(); s.Close() })
	return s
}

// wait makes requests wait from now on, until let.
func (s *windowsService) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = make(chan struct{})
}

func (s *windowsService) let() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != nil {
		close(s.hold)
		s.hold = nil
	}
}

// processor is the setting for it.
func (s *windowsService) processor() map[string]any {
	return map[string]any{"name": "asked", "on_error": "retry", "http": map[string]any{
		"url": s.URL, "timeout": "30s", "allowHttp": true, "allowPrivate": []string{"127.0.0.0/8"}}}
}

// windowsBusyIndex is in front of the real server. It answers some requests with 429 as a
// whole. Of others it passes only a part on and answers 429 for each of the rest.
type windowsBusyIndex struct {
	URL    string
	whole  atomic.Int64 // refused requests
	items  atomic.Int64 // documents
	passed atomic.Int64 // documents that were passed on
	calm   atomic.Bool  // all are passed on
	n      atomic.Int64 // bulk requests
}

func newWindowsBusyIndex(t testing.TB, to string) *windowsBusyIndex {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	b := &windowsBusyIndex{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_bulk" || b.calm.Load() {
			proxy.ServeHTTP(w, r)
			return
		}
		switch n := b.n.Add(1); {
		case n%5 == 1:
			b.whole.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"type":"circuit_breaking_exception","reason":"[parent] Data too large"},"status":429}`)
		case n%5 < 4:
			b.part(t, w, r, proxy)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	b.URL = s.URL
	return b
}

// part passes two of three documents on.
func (b *windowsBusyIndex) part(t testing.TB, w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	var through []byte
	var let []bool
	for i := 0; i+1 < len(lines); i += 2 {
		let = append(let, i/2%3 != 2)
		if let[len(let)-1] {
			through = append(append(through, lines[i]...), bytes.TrimSuffix(lines[i+1], []byte("\n"))...)
			through = append(through, '\n')
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(through)), int64(len(through))
	r.Header.Del("Accept-Encoding")
	got := httptest.NewRecorder()
	proxy.ServeHTTP(got, r)
	var said struct {
		Items []json.RawMessage `json:"items"`
	}
	if got.Code != http.StatusOK || json.Unmarshal(got.Body.Bytes(), &said) != nil {
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes())
		return
	}
	var items []string
	for _, l := range let {
		if l && len(said.Items) > 0 {
			items, said.Items = append(items, string(said.Items[0])), said.Items[1:]
			b.passed.Add(1)
			continue
		}
		b.items.Add(1)
		items = append(items, `{"index":{"status":429,"error":{"type":"rejected_execution_exception","reason":"rejected execution of coordinating operation"}}}`)
	}
	if len(said.Items) > 0 {
		t.Errorf("the server answered %d items more than it was asked", len(said.Items))
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"items":[`+strings.Join(items, ",")+`]}`)
}
