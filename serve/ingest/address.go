package ingest

import (
	"net/http"
	"net/netip"
	"strings"
)

// address is the sender's: of the connection, or, where that is a trusted proxy's, the
// last one in X-Forwarded-For that is not. Empty: not known.
func (h *Handler) address(r *http.Request) string {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return ""
	}
	if !h.trusted(peer) {
		return peer.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseAddress(strings.TrimSpace(hops[i]))
		if !ok {
			break // nobody we trust wrote this
		}
		if peer = hop; !h.trusted(hop) {
			break
		}
	}
	return peer.String()
}

func (h *Handler) trusted(a netip.Addr) bool {
	for _, p := range h.o.TrustProxy {
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

// serverAgents begin the User-Agents of libraries that run on servers, which speak for
// many persons: neither their address nor their User-Agent is a person's.
var serverAgents = []string{
	"posthog-node", "posthog-edge", "posthog-python", "posthog-ruby", "posthog-php", "posthog-go", "posthog-java",
	"posthog-dotnet", "posthog-elixir", "posthog-rs",
	"analytics-node", "analytics-python", "analytics-ruby", "analytics-go", "analytics-java", "analytics-php",
	"analytics-rust", "analytics-csharp", "analytics.net",
	"node", "undici", "axios", "got", "deno", "bun", "go-http-client", "python", "aiohttp", "java", "apache-httpclient",
	"ruby", "faraday", "php", "guzzlehttp", "curl", "wget", "libcurl", "reqwest", "hyper",
}

// fromServer says whether a User-Agent is a server's.
func fromServer(agent string) bool {
	name := agent
	if i := strings.IndexAny(agent, "/ ("); i >= 0 {
		name = agent[:i]
	}
	name = strings.ToLower(name)
	for _, s := range serverAgents {
		if rest, ok := strings.CutPrefix(name, s); ok && (rest == "" || rest[0] == '-' || rest[0] == '_') {
			return true
		}
	}
	return false
}
