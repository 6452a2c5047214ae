package config

import "net/url"

// URL is an address that may hold a key: what stands before the host and after the path
// is not written.
type URL string

// UnmarshalText takes the address as it is; check says whether it can be one.
func (u *URL) UnmarshalText(b []byte) error { *u = URL(b); return nil }

// MarshalText writes the address without what may be a key.
func (u URL) MarshalText() ([]byte, error) {
	p, err := url.Parse(string(u))
	if err != nil {
		return []byte("[secret]"), nil
	}
	text := (&url.URL{Scheme: p.Scheme, Host: p.Host, Path: p.Path}).String()
	if p.User != nil || p.RawQuery != "" || p.Fragment != "" || p.Opaque != "" {
		text += "?[secret]"
	}
	return []byte(text), nil
}

// String is what MarshalText writes.
func (u URL) String() string {
	b, _ := u.MarshalText()
	return string(b)
}
