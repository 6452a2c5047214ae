package httpguard

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
)

// proxied refuses a request that a proxy would take to a forbidden target. The proxy decides in
// the end, as it resolves the name and connects. A name is refused here if its form is
// internal, or if our own resolver gives a forbidden address. The proxy judges a name that we
// cannot resolve. Hosts in NO_PROXY are connected to directly, and checked as all others.
func (g *Guard) proxied(r *http.Request) error {
	if g.pool.Proxy == nil {
		return nil
	}
	if proxy, err := g.pool.Proxy(r); err != nil || proxy == nil {
		return nil // RoundTrip says what is wrong
	}
	host := r.URL.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // CheckURL has
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.wait)
	defer cancel()
	found, err := g.resolver.LookupNetIP(ctx, "ip", host)
	for _, a := range found {
		if err := g.check(a); err != nil {
			return err
		}
	}
	if err != nil && inner(host) {
		return blocked(&Blocked{Target: host, Why: "a name of an inner network, which the proxy would resolve", Set: "NO_PROXY"})
	}
	return nil
}

// inner reports whether the form of a name is not of the public internet: numbers that some
// resolvers take for an address (2130706433, 0x7f.1), a name without a dot, and the zones that
// are reserved or that clouds use for their metadata.
func inner(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == host || last == "" || last[0] >= '0' && last[0] <= '9' {
		return true
	}
	for _, zone := range []string{".local", ".localhost", ".internal", ".home.arpa", ".in-addr.arpa", ".ip6.arpa", ".lan", ".corp", ".intranet"} {
		if strings.HasSuffix(host, zone) {
			return true
		}
	}
	return false
}
