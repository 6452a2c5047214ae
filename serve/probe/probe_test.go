package probe

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestProbes(t *testing.T) {
	running := false
	p := New(func() bool { return running }, func() time.Time { return time.Unix(0, 0) })
	mux := http.NewServeMux()
	p.Register(mux)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	check := func(path string, status int, body string) {
		t.Helper()
		if s, b := get(path); s != status || b != body {
			t.Errorf("%s: %d %s, want %d %s", path, s, b, status, body)
		}
	}
	check("/live", 200, "alive")
	check("/ready", 503, "not_ready")
	check("/health", 503, `{"status":"unhealthy","message":"it is not running","timestamp":"1970-01-01T00:00:00Z"}`)
	running = true
	check("/ready", 200, "ready")
	if s, _ := get("/healthz"); s != 503 {
		t.Error("healthy before anybody looked")
	}
	p.Set(nil)
	for _, path := range []string{"/health", "/healthz", "/heathz"} {
		check(path, 200, `{"status":"healthy","timestamp":"1970-01-01T00:00:00Z"}`)
	}
	p.Set(errors.New("Redis: connection refused"))
	check("/heathz", 503, `{"status":"unhealthy","message":"Redis: connection refused","timestamp":"1970-01-01T00:00:00Z"}`)
}
