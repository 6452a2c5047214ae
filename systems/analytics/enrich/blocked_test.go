package enrich

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// An allowed site says where the database is: it must not make us ask and read an address of
// the inner network.
func TestRedirectsToPrivateAddressesAreNotFollowed(t *testing.T) {
	var asked atomic.Int64
	hidden := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer hidden.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(hidden.URL, "http://"), ":")
	for _, host := range []string{
		"127.0.0.2", "10.0.0.1", "169.254.169.254", "100.100.100.200", "168.63.129.16", "0.0.0.0", "[::]", "[::1]",
		"[::ffff:127.0.0.2]", "[::ffff:0:127.0.0.2]", "[::127.0.0.2]", "[64:ff9b::127.0.0.2]", "[64:ff9b:1::127.0.0.2]", "[2002:7f00:2::]",
		"[fd00:ec2::254]", "[fe80::1%25lo]", "[::1%25lo]", "127.0.0.2.", "user:hunter2@127.0.0.2",
	} {
		t.Run(host, func(t *testing.T) {
			target := "http://" + host + ":" + port + "/latest/meta-data?token=hunter2"
			site := httptest.NewServer(http.RedirectHandler(target, http.StatusFound))
			defer site.Close()
			g := NewGeo(GeoOptions{URL: site.URL, CacheDir: t.TempDir(), Allow: loopback, AllowBy: "geo.allow", Wait: time.Millisecond})
			err := g.Refresh(t.Context())
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("Refresh = %v, want an error without the key", err)
			}
			if strings.HasSuffix(host, ".") { // not an address to us, and not a name to DNS
				return
			}
			if tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), "blocked_target") || strings.Contains(err.Error(), "3 tries") {
				t.Errorf("Refresh = %v, want a blocked target, tried once", err)
			}
			if !strings.Contains(host, "@") && !strings.Contains(err.Error(), "set geo.allow") {
				t.Errorf("Refresh = %v, which does not say what to set", err)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the hidden server was asked %d times", n)
	}
}

func TestAPrivateSiteNeedsItsSetting(t *testing.T) {
	data := oneCountry(t, "GB")
	site := httptest.NewServer(serve(data))
	defer site.Close()
	for _, allow := range [][]netip.Prefix{nil, loopback} {
		o := GeoOptions{URL: site.URL, CacheDir: t.TempDir(), Allow: allow, AllowBy: "geo.allow", Wait: time.Millisecond}
		g := NewGeo(o)
		err := g.Refresh(t.Context())
		if allow == nil && (err == nil || !strings.Contains(err.Error(), "if it is meant, set geo.allow") || o.Check() == nil) {
			t.Errorf("not allowed: Refresh = %v, Check = %v", err, o.Check())
		}
		if allow != nil && (err != nil || o.Check() != nil) {
			t.Errorf("allowed: Refresh = %v, Check = %v", err, o.Check())
		}
	}
	if err := (GeoOptions{URL: "http://geo.example/country.mmdb"}).Check(); err != nil {
		t.Error(err)
	}
}

// A password in the URL goes as a header to its own host, and to no other.
func TestThePasswordGoesToItsHostOnly(t *testing.T) {
	data := oneCountry(t, "GB")
	var said [2]atomic.Value
	at := func(i int, then http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			said[i].Store(fmt.Sprint(user, password))
			then(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	second := at(1, serve(data))
	first := at(0, http.RedirectHandler(second.URL, http.StatusFound).ServeHTTP)
	g := NewGeo(GeoOptions{URL: strings.Replace(first.URL, "://", "://user:hunter2@", 1), CacheDir: t.TempDir(), Allow: loopback})
	if err := g.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if said[0].Load() != "userhunter2" || said[1].Load() != "" {
		t.Errorf("the hosts were told %q and %q", said[0].Load(), said[1].Load())
	}
}
