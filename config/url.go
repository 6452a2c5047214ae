package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/internal/urlsecret"
)

// URL is an address that may hold a key: user, query and what looks like a key in the path are
// not written. It may name several hosts, and a scheme may be missing.
type URL string

// UnmarshalText takes the address as it is; check says whether it can be one.
func (u *URL) UnmarshalText(b []byte) error { *u = URL(b); return nil }

// MarshalText writes the address without what may be a key.
func (u URL) MarshalText() ([]byte, error) {
	const none = "none://"
	switch text := string(u); {
	case text == "":
		return nil, nil
	case strings.Contains(text, "://"):
		return []byte(urlsecret.Show(text)), nil
	default:
		return []byte(strings.TrimPrefix(urlsecret.Show(none+text), none)), nil
	}
}

// Schemes of the addresses of servers that several settings have.
var (
	RedisSchemes    = []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel"}
	PostgresSchemes = []string{"postgres", "postgresql"}
)

// Has says whether an address is empty, or has one of these schemes and something behind it that may
// be hosts.
func (u URL) Has(schemes ...string) bool {
	scheme, rest, found := strings.Cut(string(u), "://")
	return u == "" || found && slices.Contains(schemes, scheme) && strings.Trim(rest, "/") != "" && areHosts(rest)
}

// areHosts says whether each host of a list, separated by commas, has a port that is a number, or none.
// User and password before the list end at the last @.
func areHosts(text string) bool {
	text = text[strings.LastIndexByte(text, '@')+1:]
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "/")
	for host := range strings.SplitSeq(text, ",") {
		host = strings.TrimSpace(host)
		at := strings.LastIndexByte(host, ':')
		if strings.ContainsAny(host, " \t\r\n") {
			return false
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || at < 0 || at+1 == len(host) {
			continue
		}
		if _, err := strconv.ParseUint(host[at+1:], 10, 16); err != nil {
			return false
		}
	}
	return true
}

// String is what MarshalText writes.
func (u URL) String() string {
	b, _ := u.MarshalText()
	return string(b)
}
