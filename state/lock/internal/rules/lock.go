// Package rules is what the backends of locks share: which locks they refuse, and how an owner is
// named.
package rules

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// Check refuses a lock without a name, or for no time: it could never be held.
func Check(name string, d time.Duration) error {
	if name == "" {
		return errors.New("a lock needs a name")
	}
	if d <= 0 {
		return fmt.Errorf("lock %q for %v: it must be held for some time", name, d)
	}
	return nil
}

// NewOwner makes an owner from 16 random bytes.
func NewOwner(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("take random bytes for the owner of a lock: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
