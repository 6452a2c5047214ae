package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// Fingerprint tells what has these parts from what has others. It is the same in every process.
func Fingerprint(parts ...[]byte) string {
	var b []byte
	for _, p := range parts {
		b = AppendString(b, p)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
