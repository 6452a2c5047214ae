package endpoint_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project/tableproject"
)

// asked is a request of the smallest endpoint: it answers who shows a key.
type asked struct{ endpoint.Exchange }

func (x *asked) answer() *request.Problem {
	if p := x.Authenticate(request.Key(x.R)); p != nil {
		return p
	}
	x.JSON(http.StatusOK, []byte("{}"))
	return nil
}

func open(t *testing.T, o endpoint.Options, l *endpoint.Limits) http.Handler {
	t.Helper()
	h, err := endpoint.New(endpoint.Protocol[*asked]{
		Name: "a test", New: func() *asked { return new(asked) }, Help: "it is at /", Defaults: endpoint.Limits{Body: 1 << 20},
		Find: func(*asked) *endpoint.Route[*asked] {
			return &endpoint.Route[*asked]{Allow: "POST", Do: (*asked).answer}
		},
		Least: func(l *endpoint.Limits) int64 { return int64(l.Body) },
	}, &o, l)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Keys are slowed as tokens are, and by whom a trusted proxy asks for.
func TestWrongKeysAreSlowedByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, endpoint.Options{Projects: tableproject.Memory(), TrustProxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, &endpoint.Limits{})
		try := func(client string) time.Duration {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
			r.RemoteAddr = "10.1.2.3:4"
			r.Header.Set("X-API-Key", "nobodys-key-nobodys-key")
			r.Header.Set("X-Forwarded-For", client)
			begun := time.Now()
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
				t.Fatalf("a wrong key is answered %d", w.Code)
			}
			return time.Since(begun)
		}
		for range request.GuessesFree {
			if took := try("192.0.2.1"); took != 0 {
				t.Fatalf("one of the first took %v", took)
			}
		}
		if took := try("192.0.2.1"); took != request.GuessPause {
			t.Errorf("one too many took %v, want %v", took, request.GuessPause)
		}
		if took := try("192.0.2.2"); took != 0 {
			t.Errorf("another client of the same proxy waits %v", took)
		}
	})
}

func TestEverythingHasALimit(t *testing.T) {
	var l endpoint.Limits
	open(t, endpoint.Options{}, &l)
	if want := (endpoint.Limits{Body: 1 << 20, Ratio: 100, Memory: 1 << 20, Time: 30 * time.Second, Requests: 2000}); l != want {
		t.Errorf("the limits are %+v, want %+v", l, want)
	}
}
