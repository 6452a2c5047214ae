package analyticssystem

import (
	"fmt"
	"net"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

func checkGeo(s enrich.GeoStatus) preflight.Finding {
	switch {
	case s.Source == "":
		return system.Finding("countries", preflight.OK, "no database: countries stay empty", "")
	case s.Err != nil:
		return system.Finding("countries", preflight.Warn, s.Err.Error(), "events go on, with the old database or without countries")
	case !s.Loaded():
		return system.Finding("countries", preflight.Warn, s.Source+": not loaded yet", "")
	}
	return system.Finding("countries", preflight.OK, s.Source, "")
}

func (w *wiring) checkProjects() preflight.Finding {
	for _, p := range w.Config.Projects {
		if len(p.Key.Reveal()) < 16 {
			return system.Finding("keys", preflight.Warn, fmt.Sprintf("the key of project %s has fewer than 16 characters", p.Name), "take a long random one where others can reach the address")
		}
	}
	host := w.Config.Listen
	if config.Loopback(hostOf(host)) {
		return system.Finding("keys", preflight.OK, "kept as hashes; the address is this machine's alone", "")
	}
	return system.Finding("keys", preflight.OK, "kept as hashes; the API needs its key", "")
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
