package tidemill

import "log/slog"

// A Secret never prints: not by fmt, not by slog, not as text or JSON. Reveal is the one
// way to its value, and easy to find in a review.
type Secret struct{ value string }

const redacted = "[secret]"

// NewSecret hides a value.
func NewSecret(v string) Secret { return Secret{v} }

// Reveal returns the value.
func (s Secret) Reveal() string { return s.value }

// IsZero says whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == "" }

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText takes the value from configuration.
func (s *Secret) UnmarshalText(b []byte) error { s.value = string(b); return nil }
