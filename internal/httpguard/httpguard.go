// Package httpguard makes HTTP requests to addresses that others chose. Use it for every
// request to a configured URL. It refuses targets that are not on the public internet, and
// checks the connected address itself, after DNS and at every connection. It follows no
// redirect and uses no proxy of the environment. It requires https with TLS 1.2 or newer,
// verified. Everything that it keeps or reads ahead has a limit.
//
//	guard, err := httpguard.New(httpguard.Options{})
//	answer, err := guard.RoundTrip(request)
//
// The body of an answer is not limited here: its reader has to do that.
package httpguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/tidemill/tidemill"
)

// Options tune a Guard; the zero value reaches the public internet by https only.
type Options struct {
	Allow []netip.Prefix // may be reached though not public
	Plain bool           // http is allowed too
	Proxy bool           // use the proxy of the environment, at Allow's addresses only. It resolves names itself: see proxied

	// Names of the settings of Allow and Plain, for errors; empty: allowPrivate and allowHttp.
	AllowBy, PlainBy string

	Certificates []tls.Certificate // shown to servers that ask for one (mTLS)
	Roots        *x509.CertPool    // trusted certificate authorities; nil: the system's

	Dial        time.Duration // to connect, and again for TLS; 0 means 5s
	Connections int           // open at once to one host, further requests wait; 0 means 100
	Idle        time.Duration // after which an unused connection is closed; 0 means 4s: before servers close it, which would lose a request
	MaxHeader   int64         // bytes of an answer's header; 0 means 64 KiB
	Resolver    *net.Resolver // nil: the system's
}

// Guard is an http.RoundTripper. It is safe for concurrent use.
type Guard struct {
	plain            bool
	allow            []netip.Prefix
	allowBy, plainBy string
	resolver         *net.Resolver
	wait             time.Duration // for an answer of the resolver
	pool             *http.Transport
}

// New checks the options and makes a Guard. It connects to nothing.
func New(o Options) (*Guard, error) {
	if o.Dial < 0 || o.Connections < 0 || o.Idle < 0 || o.MaxHeader < 0 {
		return nil, errors.New("http guard: a negative time or number")
	}
	for _, p := range o.Allow {
		if !p.IsValid() {
			return nil, errors.New("http guard: an allowed network is no prefix such as 10.1.0.0/16")
		}
	}
	def(&o.Dial, 5*time.Second)
	def(&o.Connections, 100)
	def(&o.Idle, 4*time.Second)
	def(&o.MaxHeader, 64<<10)
	def(&o.AllowBy, "allowPrivate")
	def(&o.PlainBy, "allowHttp")
	g := &Guard{plain: o.Plain, allow: o.Allow, allowBy: o.AllowBy, plainBy: o.PlainBy, resolver: o.Resolver, wait: o.Dial}
	dialer := &net.Dialer{Timeout: o.Dial, KeepAlive: 15 * time.Second, Resolver: o.Resolver, ControlContext: g.control}
	g.pool = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &counted{Conn: c}, nil
		},
		TLSHandshakeTimeout: o.Dial,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.Roots, Certificates: o.Certificates},
		ForceAttemptHTTP2:   true,
		// A ping finds a dead connection, not the requests that share it.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		MaxConnsPerHost:        o.Connections,
		MaxIdleConnsPerHost:    o.Connections,
		MaxIdleConns:           4 * o.Connections,
		IdleConnTimeout:        o.Idle,
		ExpectContinueTimeout:  time.Second,
		DisableCompression:     true, // an inflated answer would have no limit
		MaxResponseHeaderBytes: o.MaxHeader,
	}
	if o.Proxy {
		g.pool.Proxy = http.ProxyFromEnvironment
	}
	return g, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// control checks each address before it is connected to.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return blocked(&Blocked{Target: "the target", Why: "not reached by TCP and an IP address"})
	}
	return g.check(at.Addr())
}

// check is Check with the setting that would allow the address.
func (g *Guard) check(a netip.Addr) error {
	err := Check(a, g.allow)
	if b, ok := errors.AsType[*Blocked](err); ok && a.IsValid() {
		b.Set = g.allowBy
	}
	return blocked(err)
}

func blocked(err error) error {
	if err == nil {
		return nil
	}
	return &tidemill.Error{Kind: tidemill.Validation, Err: err}
}

// CheckURL refuses a URL that is never a target, whatever it resolves to: another scheme than
// https, user information, no host, a literal address that Check refuses. Use it to check
// configuration early; RoundTrip checks again.
func (g *Guard) CheckURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme == "http" && !g.plain:
		return blocked(&Blocked{Target: fmt.Sprintf("scheme %q", u.Scheme), Why: "not https", Set: g.plainBy})
	case u.Scheme != "https" && u.Scheme != "http":
		return blocked(&Blocked{Target: fmt.Sprintf("scheme %.20q", u.Scheme), Why: "not https"})
	case u.User != nil:
		return blocked(&Blocked{Target: host, Why: "given with user information in its URL"})
	case host == "" || u.Opaque != "":
		return blocked(&Blocked{Target: "a URL", Why: "without a host"})
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return g.check(a)
	}
	return nil
}

// RoundTrip sends one request, once. A forbidden target is a tidemill.Error of kind
// validation around a *Blocked; other errors are those of net/http.
func (g *Guard) RoundTrip(r *http.Request) (*http.Response, error) {
	err := g.CheckURL(r.URL)
	if err == nil {
		err = g.proxied(r)
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	answer, err := g.pool.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusSwitchingProtocols { // nobody asked for that, and such a body obeys no deadline
		_ = answer.Body.Close()
		answer.Body = http.NoBody
	}
	return answer, err
}

// Close ends idle connections; those in use end with their request.
func (g *Guard) Close() { g.pool.CloseIdleConnections() }
