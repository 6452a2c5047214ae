package httpguard

import (
	"fmt"
	"net/netip"
)

// ReasonBlockedTarget is the reason of every Blocked, as dead letters store it.
const ReasonBlockedTarget = "blocked_target"

// Blocked is the error of a target that may not be reached. It is wrapped in a tidemill.Error
// of kind validation: a retry does not help.
type Blocked struct {
	Target string // host or address, without secrets
	Why    string // in a few words
	Set    string // the setting that allows it; empty: none
}

func (b *Blocked) Error() string {
	text := fmt.Sprintf("%s: %s is %s", ReasonBlockedTarget, b.Target, b.Why)
	if b.Set != "" {
		text += "; if it is meant, set " + b.Set
	}
	return text
}

// Reason is ReasonBlockedTarget.
func (b *Blocked) Reason() string { return ReasonBlockedTarget }

// forbidden are the networks outside the public internet. The standard library calls many of
// them global unicast, hence this table: the special-purpose registries of IANA, and deprecated
// networks that are still routed somewhere.
var forbidden = []struct {
	net netip.Prefix
	why string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a carrier's own network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's own address"}, // Azure's, for its virtual machines
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local or metadata address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "an address with a special purpose"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address of documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay of 6to4"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address of benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address of documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address of documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved or broadcast address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("::/96"), "an unspecified or v4-compatible address"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "a translated address"}, // stateless translation, RFC 2765
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an address of a local translator"},
	{netip.MustParsePrefix("100::/64"), "a discarded address"},
	{netip.MustParsePrefix("2001::/23"), "an address with a special purpose"}, // Teredo and others
	{netip.MustParsePrefix("2001:db8::/32"), "an address of documentation"},
	{netip.MustParsePrefix("3fff::/20"), "an address of documentation"},
	{netip.MustParsePrefix("5f00::/16"), "an address of segment routing"},
	{netip.MustParsePrefix("fc00::/7"), "a private or metadata address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// embedded is the IPv4 address that a translator or tunnel would reach by way of a.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// Check refuses an address that is not on the public internet, unless allow holds it. An
// address that embeds another (mapped, NAT64, 6to4) is checked by that one.
func Check(a netip.Addr, allow []netip.Prefix) error {
	if !a.IsValid() {
		return &Blocked{Target: "the target", Why: "no IP address"}
	}
	plain := a.Unmap().WithZone("") // a prefix holds no address with a zone
	if v4, ok := embedded(plain); ok {
		for _, p := range allow {
			if p.Contains(plain) {
				return nil
			}
		}
		plain = v4
	}
	for _, p := range allow {
		if p.Contains(plain) {
			return nil
		}
	}
	for _, f := range forbidden {
		if f.net.Contains(plain) {
			return &Blocked{Target: a.String(), Why: f.why}
		}
	}
	return nil
}
