package httpguard_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemill/tidemill/internal/httpguard"
)

// An allowed server redirects by name. Each name leads elsewhere every time it is resolved, so
// that a check before the connection would see another address.
func TestRedirectsToNamesAreJudgedWhereTheyLead(t *testing.T) {
	hidden := newCanary(t, http.NotFoundHandler())
	for _, name := range []string{"metadata.google.internal", "public.example", "2130706433.example", "localhost.example."} {
		for _, leads := range []string{"127.0.0.2", "169.254.169.254", "100.64.0.1", "0.0.0.0", "192.168.0.1"} {
			open := newCanary(t, http.RedirectHandler("https://"+name+":"+hidden.port(), http.StatusTemporaryRedirect))
			pool := open.roots()
			pool.AddCert(hidden.Certificate())
			r, _ := resolver(t, leads)
			g, err := httpguard.New(httpguard.Options{Roots: pool, Resolver: r, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			answer, err := httpguard.Following(g).Get(open.URL)
			if err == nil {
				_ = answer.Body.Close()
				t.Fatalf("%s, which is %s, is asked", name, leads)
			}
			isBlocked(t, errors.Unwrap(err))
		}
	}
	if n := hidden.connections.Load(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

// A proxy resolves names itself, and connects to the result.
func TestAProxyIsNotAskedForInnerNames(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	knows, _ := resolver(t, "10.0.0.5") // of every name
	public, _ := resolver(t, "93.184.216.34")
	nothing, _ := resolver(t)
	for _, c := range []struct {
		host string
		by   *net.Resolver // the resolver here
		ok   bool
	}{
		{"public.example", knows, false},
		{"public.example", public, true},
		{"public.example", nothing, true}, // for the proxy to judge
		{"metadata.google.internal", nothing, false},
		{"METADATA.google.internal.", nothing, false},
		{"metadata", nothing, false},
		{"printer.local", nothing, false},
		{"2130706433", nothing, false},
		{"0x7f.1", nothing, false},
		{"0177.0.0.1", nothing, false},
		{"127.0.0.1", nothing, false},
		{"[::ffff:10.0.0.1]", nothing, false},
	} {
		o := httpguard.Options{Plain: true, Proxy: true, Resolver: c.by}
		if c.host != "127.0.0.1" {
			o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} // the proxy's
		}
		g, err := httpguard.New(o)
		if err != nil {
			t.Fatal(err)
		}
		g.UseProxy(at)
		before := asked.Load()
		_, err = get(t, g, "http://"+c.host+"/")
		if (err == nil) != c.ok || c.ok != (asked.Load() > before) {
			t.Errorf("%s: %v, asked %v; want allowed %v", c.host, err, asked.Load() > before, c.ok)
		}
		if !c.ok && err != nil {
			isBlocked(t, err)
			if !strings.Contains(err.Error(), "if it is meant, set ") {
				t.Errorf("%s: %v does not say what to set", c.host, err)
			}
		}
		g.Close()
	}
}
