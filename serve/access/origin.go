package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/request"
)

// sameSite keeps pages of other sites out. What no browser sends passes.
func (g *Guard) sameSite(r *http.Request) error {
	if err := g.safe.Check(r); err != nil {
		return operation.Refuse(http.StatusForbidden, "this request comes from another site's page")
	}
	return nil
}

// ourPage lets a request that a cookie stands for change something only where a page of ours sent
// it: the browser says so, by one header or the other.
func ourPage(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "same-origin":
		return nil
	case site == "":
		if o, err := url.Parse(r.Header.Get("Origin")); err == nil && o.Host != "" && strings.EqualFold(o.Host, r.Host) {
			return nil
		}
	}
	return operation.Refuse(http.StatusForbidden, "this request does not come from a page of this instance")
}

// openTo says why nobody can log in by a request, or be logged in; nil: they can.
func (g *Guard) openTo(r *http.Request) error {
	host := hostOf(r)
	if _, err := netip.ParseAddr(host); err != nil && !config.Loopback(host) && !slices.ContainsFunc(g.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return operation.Refuse(http.StatusForbidden, "%.100q is no name of the console: add it to console.hosts", host)
	}
	if !request.HTTPS(r, g.o.Trusted) && local(r) != nil {
		return operation.Refuse(http.StatusForbidden, "a session needs https, except on this machine: set up TLS in a proxy that http.trust_proxy names")
	}
	return nil
}

// hostOf is the name that a request was sent to, without the port.
func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

// local lets in programs on this machine: a page in a browser is kept out by its origin, a name
// that was made to point here by the Host it was asked for, and what a proxy on this machine
// passes on by the headers that say so.
func local(r *http.Request) error {
	for name := range r.Header {
		if forwarding[name] || strings.HasPrefix(name, "X-Forwarded") {
			return operation.Refuse(http.StatusForbidden, "this request came through a proxy (it has %s), so its sender may be anybody: run without --no-auth", name)
		}
	}
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !config.Loopback(remote) || !config.Loopback(hostOf(r)) {
		return operation.Refuse(http.StatusForbidden, "with --no-auth the API answers callers on this machine only")
	}
	return nil
}

// forwarding are headers that proxies add, beside those that begin with X-Forwarded.
var forwarding = map[string]bool{
	"Forwarded": true, "Via": true, "X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "X-Original-Forwarded-For": true,
	"X-Original-Host": true, "X-Envoy-External-Address": true, "True-Client-Ip": true, "Cf-Connecting-Ip": true, "Fastly-Client-Ip": true, "Fly-Client-Ip": true,
	"X-Appengine-User-Ip": true, "X-Azure-Clientip": true, "Cdn-Loop": true, "Proxy-Connection": true,
}
