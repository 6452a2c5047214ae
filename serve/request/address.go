package request

import (
	"net/http"
	"net/netip"
	"strings"
)

// Address is the sender's: of the connection, or, where that is a trusted proxy's, the
// last one in X-Forwarded-For that is not. The zero address: not known.
func Address(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok || !among(trusted, peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseAddress(strings.TrimSpace(hops[i]))
		if !ok {
			break // nobody we trust wrote this
		}
		if peer = hop; !among(trusted, hop) {
			break
		}
	}
	return peer
}

// HTTPS says whether the sender uses TLS: with us, or, as a trusted proxy says in
// X-Forwarded-Proto, with that.
func HTTPS(r *http.Request, trusted []netip.Prefix) bool {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") != "https" {
		return r.TLS != nil
	}
	peer, ok := parseAddress(r.RemoteAddr)
	return ok && among(trusted, peer)
}

func among(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseAddress reads an address with or without a port.
func parseAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		a = ap.Addr()
	}
	return a.Unmap().WithZone(""), true
}
