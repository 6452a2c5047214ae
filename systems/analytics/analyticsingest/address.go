package analyticsingest

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/tidemill/tidemill/serve/request"
)

// address is the sender's as text; empty: not known.
func address(r *http.Request, trusted []netip.Prefix) string {
	if a := request.Address(r, trusted); a.IsValid() {
		return a.String()
	}
	return ""
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
