package httpsink_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/sink/httpsink"
)

func TestHTTP2(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[fmt.Sprint(r.ProtoMajor, r.Header.Get("Idempotency-Key"))]++
		mu.Unlock()
		switch r.Header.Get("Idempotency-Key") {
		case "held":
			<-r.Context().Done()
		case "big":
			w.Header().Set("X-Big", strings.Repeat("x", 1<<20))
		case "dies":
			panic(http.ErrAbortHandler)
		case "endless":
			for {
				if _, err := w.Write(make([]byte, 1<<15)); err != nil {
					return
				}
			}
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	via := guard(t, httpguard.Options{Roots: pool})
	sink, err := httpsink.New(via, httpsink.Options{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	hasty, err := httpsink.New(via, httpsink.Options{URL: server.URL, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := sink.Write(t.Context(), []*tidemill.Message{message(fmt.Sprint("m", i))}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	kindOf(t, hasty.Write(t.Context(), []*tidemill.Message{message("held")}), tidemill.Unknown)
	kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("big")}), tidemill.Unknown)
	kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("dies")}), tidemill.Unknown)
	if err := sink.Write(t.Context(), []*tidemill.Message{message("endless")}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, id := range []string{"m0", "m49", "held", "big", "dies", "endless"} {
		if seen["2"+id] != 1 {
			t.Errorf("%s was sent %d times by HTTP/2", id, seen["2"+id])
		}
	}
}

// Names that cannot be found are an outage, not a message's fault.
func TestNamesThatAreNotFound(t *testing.T) {
	down := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no DNS today") }}
	sink, err := httpsink.New(guard(t, httpguard.Options{Resolver: down}), httpsink.Options{URL: "https://partner.example.test", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r := kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Partner); !strings.Contains(r.Error(), "nothing was sent") {
		t.Error(r)
	}
}
