package config

import "strings"

// AnalyticsConfigured says whether anything says that analytics is to run: one of its own
// settings, a project, or a server that is for it alone. A Kafka is, unless windows are
// configured, which use the same one.
func (c *Loaded) AnalyticsConfigured() bool {
	if len(c.Projects) > 0 || c.ClickHouse.URL != "" || c.Kafka.Brokers != "" && !c.Windows.Configured() {
		return true
	}
	for path := range c.From {
		if strings.HasPrefix(path, "analytics.") && c.Given(path) {
			return true
		}
	}
	return false
}
