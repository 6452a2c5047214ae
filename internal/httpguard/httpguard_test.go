package httpguard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
)

func TestCheck(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16")}
	for _, c := range []struct {
		addr  string
		allow []netip.Prefix
		ok    bool
	}{
		{"93.184.216.34", nil, true},
		{"2606:2800:220:1:248:1893:25c8:1946", nil, true},
		{"127.0.0.1", nil, false},
		{"127.255.255.254", nil, false},
		{"::1", nil, false},
		{"0.0.0.0", nil, false},
		{"::", nil, false},
		{"169.254.169.254", nil, false},
		{"fd00:ec2::254", nil, false},
		{"fe80::1%eth0", nil, false},
		{"10.0.0.1", nil, false},
		{"172.16.0.1", nil, false},
		{"172.31.255.255", nil, false},
		{"172.32.0.1", nil, true},
		{"192.168.1.1", nil, false},
		{"100.64.0.1", nil, false},
		{"100.127.255.255", nil, false},
		{"100.128.0.1", nil, true},
		{"::ffff:127.0.0.1", nil, false},
		{"::ffff:93.184.216.34", nil, true},
		{"::127.0.0.1", nil, false},
		{"::ffff:0:7f00:1", nil, false},
		{"64:ff9b::7f00:1", nil, false},
		{"64:ff9b::a9fe:a9fe", nil, false},
		{"64:ff9b::5db8:d822", nil, true}, // how networks without IPv4 reach the public ones
		{"64:ff9b:1::1", nil, false},
		{"2002:7f00:1::1", nil, false},
		{"2002:a00:1::1", nil, false},
		{"2002:5db8:d822::1", nil, true},
		{"2001:0:4136:e378:8000:63bf:3fff:fdd2", nil, false},
		{"fc00::1", nil, false},
		{"fec0::1", nil, false},
		{"224.0.0.1", nil, false},
		{"ff02::1", nil, false},
		{"255.255.255.255", nil, false},
		{"240.0.0.1", nil, false},
		{"198.18.0.1", nil, false},
		{"192.0.0.8", nil, false},
		{"203.0.113.1", nil, false},
		{"10.1.2.3", private, true},
		{"10.2.2.3", private, false},
		{"::ffff:10.1.2.3", private, true},
		{"64:ff9b::a01:203", private, true},
		{"fd12::1", private, true},
	} {
		err := httpguard.Check(netip.MustParseAddr(c.addr), c.allow)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, want allowed %v", c.addr, err, c.ok)
		}
	}
	if httpguard.Check(netip.Addr{}, nil) == nil {
		t.Error("no address at all is allowed")
	}
}

// canary is a server on loopback that counts connections.
type canary struct {
	*httptest.Server
	connections atomic.Int64
}

func newCanary(t *testing.T, handler http.Handler) *canary {
	c := &canary{Server: httptest.NewUnstartedServer(handler)}
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.connections.Add(1)
		}
	}
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func (c *canary) port() string { _, p, _ := net.SplitHostPort(c.Listener.Addr().String()); return p }

func (c *canary) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate())
	return pool
}

func get(t *testing.T, g *httpguard.Guard, to string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := g.RoundTrip(r)
	if err == nil {
		_ = answer.Body.Close()
	}
	return answer, err
}

func isBlocked(t *testing.T, err error) {
	t.Helper()
	b, ok := errors.AsType[*httpguard.Blocked](err)
	if !ok || tidemill.KindOf(err) != tidemill.Validation || b.Reason() != "blocked_target" || !strings.HasPrefix(b.Error(), "blocked_target") {
		t.Errorf("got %v (%v), want a blocked target", err, tidemill.KindOf(err))
	}
}

func TestTargetsThatAreRefused(t *testing.T) {
	c := newCanary(t, http.NotFoundHandler())
	g, err := httpguard.New(httpguard.Options{Roots: c.roots()})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	port := c.port()
	for _, to := range []string{
		"https://127.0.0.1:" + port,
		"https://[::ffff:127.0.0.1]:" + port,
		"https://[64:ff9b::7f00:1]:" + port,
		"https://[::1]:" + port,
		"https://localhost:" + port,
		"https://user:secret@127.0.0.1:" + port,
		"https://93.184.216.34@127.0.0.1:" + port,
		"https://user@example.com",
		"http://127.0.0.1:" + port,
		"http://example.com",
		"ftp://example.com",
		"https://",
		"https:///path",
	} {
		_, err := get(t, g, to)
		isBlocked(t, err)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows a password", err)
		}
	}
	// Forms of 127.0.0.1 that are not addresses to us are names to DNS. If it resolves them,
	// that address is checked.
	r, _ := resolver(t, "127.0.0.1")
	names, err := httpguard.New(httpguard.Options{Roots: c.roots(), Resolver: r})
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	for _, to := range []string{"https://2130706433.test:" + port, "https://0x7f000001.test:" + port, "https://0177.0.0.1.test:" + port, "https://localhost.test.:" + port} {
		_, err := get(t, names, to)
		isBlocked(t, err)
	}
	for _, to := range []string{"https://2130706433:" + port, "https://0x7f000001:" + port, "https://0177.0.0.1:" + port, "https://127.1:" + port} {
		if _, err := get(t, names, to); err == nil {
			t.Errorf("%s is reached", to)
		}
	}
	if n := c.connections.Load(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

func TestAllowedNetworksAreReached(t *testing.T) {
	c := newCanary(t, http.NotFoundHandler())
	g, err := httpguard.New(httpguard.Options{Roots: c.roots(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if a, err := get(t, g, c.URL); err != nil || a.StatusCode != 404 {
		t.Fatalf("%v, %v", a, err)
	}
	if _, err := get(t, g, "http://127.0.0.1:"+c.port()); err == nil {
		t.Error("an allowed network does not allow http")
	}
}

// resolver answers every query for an IPv4 address with the next one of addrs, the last one
// repeatedly; without any it knows no name.
func resolver(t *testing.T, addrs ...string) (*net.Resolver, *atomic.Int64) {
	asked := new(atomic.Int64)
	answer := func(question []byte) []byte {
		var p dnsmessage.Parser
		h, err := p.Start(question)
		if err != nil {
			return nil
		}
		q, err := p.Question()
		if err != nil {
			return nil
		}
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true})
		_ = b.StartQuestions()
		_ = b.Question(q)
		_ = b.StartAnswers()
		if q.Type == dnsmessage.TypeA && len(addrs) > 0 {
			n := int(asked.Add(1)) - 1
			_ = b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0},
				dnsmessage.AResource{A: netip.MustParseAddr(addrs[min(n, len(addrs)-1)]).As4()})
		}
		out, _ := b.Finish()
		return out
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { // ends when the resolver closes its side
			defer theirs.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(theirs, size[:]); err != nil {
					return
				}
				question := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(theirs, question); err != nil {
					return
				}
				out := answer(question)
				if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() { _ = ours.Close() })
		return ours, nil
	}}, asked
}

// A name that was public at the first check and is loopback when we connect: each connection is
// checked by its real address.
func TestNamesThatFlip(t *testing.T) {
	c := newCanary(t, http.NotFoundHandler())
	r, asked := resolver(t, "127.0.0.1", "169.254.169.254", "10.0.0.5", "127.0.0.1")
	g, err := httpguard.New(httpguard.Options{Roots: c.roots(), Resolver: r})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	u, _ := url.Parse("https://flip.example.test:" + c.port())
	if err := g.CheckURL(u); err != nil { // the check beforehand finds nothing wrong
		t.Fatal(err)
	}
	for range 4 {
		_, err := get(t, g, u.String())
		isBlocked(t, err)
	}
	if asked.Load() < 4 {
		t.Errorf("%d questions for 4 connections: an old answer was used", asked.Load())
	}
	if n := c.connections.Load(); n != 0 {
		t.Errorf("the canary saw %d connections", n)
	}
}

func TestAFlipAfterAGoodConnection(t *testing.T) {
	public := newCanary(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
	public.TLS.NextProtos = []string{"http/1.1"}
	// 127.0.0.2 plays the public address; the canary of 127.0.0.1 must stay unseen.
	r, _ := resolver(t, "127.0.0.1", "127.0.0.2")
	g, err := httpguard.New(httpguard.Options{Roots: public.roots(), Resolver: r, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	to := "https://example.com:" + public.port() // the name that httptest's certificate has
	if _, err := get(t, g, to); err != nil {
		t.Fatal(err)
	}
	g.Close()
	_, err = get(t, g, to)
	isBlocked(t, err)
	if n := public.connections.Load(); n != 1 {
		t.Errorf("%d connections, want the first one only", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	hidden := newCanary(t, http.NotFoundHandler())
	open := newCanary(t, http.RedirectHandler(hidden.URL, http.StatusFound))
	pool := open.roots()
	pool.AddCert(hidden.Certificate())
	g, err := httpguard.New(httpguard.Options{Roots: pool, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if a, err := get(t, g, open.URL); err != nil || a.StatusCode != http.StatusFound || hidden.connections.Load() != 0 {
		t.Fatalf("%v, %v; %d connections to where it redirects", a, err, hidden.connections.Load())
	}
}

func TestServersAreVerified(t *testing.T) {
	c := newCanary(t, http.NotFoundHandler())
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	g, _ := httpguard.New(httpguard.Options{Allow: allow})
	defer g.Close()
	if _, err := get(t, g, c.URL); err == nil {
		t.Error("an unknown certificate is believed")
	}
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10} //nolint:gosec // what must be refused
	old.StartTLS()
	defer old.Close()
	pool := x509.NewCertPool()
	pool.AddCert(old.Certificate())
	g, _ = httpguard.New(httpguard.Options{Allow: allow, Roots: pool})
	defer g.Close()
	if _, err := get(t, g, old.URL); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

func TestEnvironmentProxyIsNotAsked(t *testing.T) {
	c := newCanary(t, http.NotFoundHandler())
	proxy := newCanary(t, http.NotFoundHandler())
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("https_proxy", proxy.URL)
	r, _ := resolver(t, "127.0.0.1")
	g, err := httpguard.New(httpguard.Options{Roots: c.roots(), Resolver: r, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if a, err := get(t, g, "https://example.com:"+c.port()); err != nil || a.StatusCode != 404 || proxy.connections.Load() != 0 {
		t.Fatalf("%v, %v; %d connections to the proxy", a, err, proxy.connections.Load())
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	for name, o := range map[string]httpguard.Options{
		"a negative time":   {Dial: -1},
		"a negative number": {Connections: -1},
		"no prefix":         {Allow: []netip.Prefix{{}}},
	} {
		if _, err := httpguard.New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{"https://example.com/a", "https://a@b", "https://[::1]", "//x", "https://127.0.0.1.", "https://１２７.0.0.1"} {
		f.Add(s)
	}
	g, err := httpguard.New(httpguard.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		if g.CheckURL(u) == nil && (u.Scheme != "https" || u.User != nil || u.Hostname() == "") {
			t.Errorf("%q is taken", s)
		}
	})
}
