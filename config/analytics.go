package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/internal/httpguard"
)

// AnalyticsConfigured says whether anything says that analytics is to run: one of its own
// settings, a project, or a server that is for it alone. A Kafka is, unless windows are
// configured, which use the same one.
func (c *Loaded) AnalyticsConfigured() bool {
	if len(c.Projects) > 0 || c.ClickHouse.URL != "" || c.Kafka.Brokers != "" && !c.kafkaIsOthers() {
		return true
	}
	for path := range c.From {
		if strings.HasPrefix(path, "analytics.") && c.Given(path) {
			return true
		}
	}
	return false
}

// kafkaIsOthers says whether another system is configured that uses the common Kafka.
func (c *Loaded) kafkaIsOthers() bool {
	return slices.ContainsFunc(c.groups, func(g group) bool {
		s, ok := g.settings.(interface{ UsesKafka() bool })
		return ok && s.UsesKafka()
	})
}

// GeoIPAllow is the setting of networks that a country database may be downloaded from.
const GeoIPAllow = "analytics.geoip.allow_private"

// blocked says why the database at a URL with an address for a host would not be downloaded.
func (g *GeoIP) blocked(u *url.URL) error {
	if u == nil || g.File != "" {
		return nil
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil // a name: what it leads to is judged when it is connected to
	}
	if err := httpguard.Check(a, g.AllowPrivate); err != nil {
		return fmt.Errorf("%w; if it is meant, set %s", err, GeoIPAllow)
	}
	return nil
}
