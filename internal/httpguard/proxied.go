package httpguard

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
)

// proxied refuses a request that a proxy would take to where it may not go. The proxy's word
// is final, as it resolves the name and connects; here a name is refused that is an inner one
// by its form, or leads to a forbidden address when we ask for it. What cannot be resolved
// here is the proxy's to judge. NO_PROXY names hosts that are connected to from here, and
// checked as all others.
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

// inner says whether a name is none of the public internet by its form: numbers that some
// resolvers take for an address (2130706433, 0x7f.1), one without a dot, and the zones that
// are set aside or that clouds use for their metadata.
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
