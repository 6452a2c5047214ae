package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/state/project"
)

// check refuses values that cannot work, each with the place it came from.
func (c *Loaded) check(fs []Field) error {
	var errs []error
	byPath := map[string]*Field{}
	for _, f := range fs {
		byPath[f.Path] = &f
	}
	ok := func(good bool, path string) {
		if f := byPath[path]; !good {
			errs = append(errs, fmt.Errorf("%s (from %s): %s", path, c.From[path], Invalid(f, f.Allow)))
		}
	}
	between := func(v, low, high int, path string) { ok(v >= low && v <= high, path) }
	const many = 1 << 40

	ok(c.Data != "", "data")
	c.checkListen(ok, func(err error) { errs = append(errs, err) })
	for _, path := range []string{"log.level", "log.format", "admin.rates.reads", "admin.rates.reads_burst", "admin.rates.changes", "admin.rates.changes_burst", "admin.rates.dear", "admin.rates.dear_of_all"} {
		ok(byPath[path].limits.allow(byPath[path].value), path)
	}
	c.LogFiles.check(ok)
	c.Console.check(byPath, ok)
	errs = append(errs, c.checkProviders()...)
	ok(c.Dead.Keep == 0 || c.Dead.Keep >= time.Hour, "dead_letters.keep")
	c.Telemetry.check(ok)
	ok(c.HTTP.MaxBody >= 1<<10 && c.HTTP.MaxBody <= 40<<20, "http.max_body")
	ok(c.HTTP.BodyTimeout >= time.Second, "http.body_timeout")
	between(c.HTTP.Connections, 1, many, "http.connections")
	between(c.HTTP.PerAddress, -1, many, "http.connections_per_address")
	_, err := c.HTTP.Proxies()
	ok(err == nil, "http.trust_proxy")

	c.checkServers(ok)
	for _, g := range c.groups {
		if !g.Late {
			errs = append(errs, g.settings.Check())
		}
	}
	for i, p := range c.Projects {
		if err := project.CheckKey(p.Key.Reveal()); err != nil {
			errs = append(errs, fmt.Errorf("project %q: %w", p.Name, err))
		}
		for _, q := range c.Projects[:i] {
			if p.Key.Equal(q.Key) && project.ID(p.Name) != project.ID(q.Name) {
				errs = append(errs, fmt.Errorf("projects %q and %q have the same key", q.Name, p.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// checkServers refuses addresses that no server can have. What only the server itself can
// tell is said when it is connected to.
func (c *Loaded) checkServers(ok func(good bool, path string)) {
	scheme := func(u URL, path string, schemes ...string) {
		ok(u.Has(schemes...), path)
	}
	scheme(c.Redis.URL, "redis.url", RedisSchemes...)
	scheme(c.Postgres.URL, "postgres.url", PostgresSchemes...)
	scheme(c.ClickHouse.URL, "clickhouse.url", "http", "https")
	if strings.Contains(string(c.Kafka.Brokers), "://") {
		scheme(c.Kafka.Brokers, "kafka.brokers", "kafka", "kafka+tls")
	} else {
		ok(areHosts(string(c.Kafka.Brokers)), "kafka.brokers")
	}
	ok(c.Kafka.OnLost == "stop" || c.Kafka.OnLost == "continue", "kafka.on_lost")
	ok(c.Kafka.Partitions >= 1 && c.Kafka.Partitions <= 10_000, "kafka.partitions")
	ok(c.Postgres.Connections >= 2 && c.Postgres.Connections <= 1000, "postgres.connections")
	word := func(r rune) bool {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	ok(c.ClickHouse.Database != "" && strings.TrimFunc(c.ClickHouse.Database, word) == "", "clickhouse.database")
}

// checkListen refuses addresses that are none, and those that others can reach without a key
// for the API.
func (c *Loaded) checkListen(ok func(bool, string), fail func(error)) {
	_, err := netip.ParseAddr(c.Ports)
	ok(c.Ports == "" || err == nil, "ports_address")
	for _, path := range []string{"listen", "admin.listen"} {
		address := c.Listen
		if path == "admin.listen" {
			if address = c.Admin.Listen; address == "" {
				continue
			}
		}
		host, port, err := net.SplitHostPort(address)
		n, perr := strconv.Atoi(port)
		if path != "listen" && n != 0 && address == c.Listen {
			fail(fmt.Errorf("%s (from %s): %s is the address of listen too: want another", path, c.From[path], address))
		}
		ok(err == nil && perr == nil && n >= 0 && n < 65536, path)
		if length := len(c.Admin.Key.Reveal()); err == nil && !Loopback(host) && length < LeastKey {
			why := "is needed"
			if length > 0 {
				why = fmt.Sprintf("needs %d characters or more, and has %d", LeastKey, length)
			}
			fail(fmt.Errorf("%s (from %s): %s can be reached from other machines, so admin.key (TIDEMILL_TOKEN) %s; or listen on 127.0.0.1", path, c.From[path], address, why))
		}
	}
}

// Proxies are the networks of TrustProxy.
func (h *HTTP) Proxies() ([]netip.Prefix, error) {
	var ps []netip.Prefix
	for _, s := range h.TrustProxy {
		if !strings.Contains(s, "/") {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return nil, err
			}
			ps = append(ps, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// CheckNoAuth refuses to run an API that asks for no token where others could reach it, or where
// it has one.
func (c *Loaded) CheckNoAuth() error {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil || !Loopback(host):
		return fmt.Errorf("--no-auth: listen (from %s) is %s, which can be reached from other machines: listen on 127.0.0.1", c.From["listen"], c.Listen)
	case !c.Admin.Key.IsZero():
		return fmt.Errorf("--no-auth: admin.key is set (from %s): take one of the two away", c.From["admin.key"])
	}
	return nil
}

// Loopback says whether a host name or address is this machine alone.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
