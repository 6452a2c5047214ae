package config

import "strings"

// URL is an address that may hold a key: what stands before the host and after the path
// is not written. It may name several hosts, and a scheme may be missing.
type URL string

// UnmarshalText takes the address as it is; check says whether it can be one.
func (u *URL) UnmarshalText(b []byte) error { *u = URL(b); return nil }

// MarshalText writes the address without what may be a key.
func (u URL) MarshalText() ([]byte, error) {
	scheme, rest, found := strings.Cut(string(u), "://")
	if !found {
		scheme, rest = "", string(u)
	}
	rest, behind, more := cutAny(rest, "?#")
	host, path, slash := cutAny(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host, more = host[at+1:], true
	}
	if strings.ContainsAny(path, "@\\") || strings.Contains(scheme+behind, "@") { // a key with a slash, a ? or a # in it
		return []byte("[secret]"), nil
	}
	text := host
	if found {
		text = scheme + "://" + host
	}
	if slash {
		text += "/" + path
	}
	if more {
		text += "?[secret]"
	}
	return []byte(text), nil
}

// cutAny cuts at the first of some characters.
func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// String is what MarshalText writes.
func (u URL) String() string {
	b, _ := u.MarshalText()
	return string(b)
}
