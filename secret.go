package tidemill

import "log/slog"

// A Secret never prints: not by fmt, not by slog, not as text or JSON, not as an unexported
// field of what is printed. Reveal is the one way to its value, and easy to find in a review.
type Secret struct {
	_     [0]func() // == would compare pointers: it does not compile
	value *string   // nil: none. fmt asks unexported fields for no String, and follows no pointer in them
}

const redacted = "[secret]"

// NewSecret hides a value.
func NewSecret(v string) Secret {
	if v == "" {
		return Secret{}
	}
	return Secret{value: &v}
}

// Reveal returns the value.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero says whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// Equal says whether two are the same.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText takes the value from configuration.
func (s *Secret) UnmarshalText(b []byte) error { *s = NewSecret(string(b)); return nil }
