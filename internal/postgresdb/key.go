package postgresdb

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// hashed marks keys of texts that PostgreSQL cannot store unchanged.
const hashed = "~bytes:"

// Key is the stored form of a name of any bytes, in a text column of at most so many
// characters, 71 or more. It is the name itself if the column can hold it, and whole is nil.
// Otherwise (NUL, not UTF-8, too long) it is "~bytes:" and the SHA-256 of the name in hex, and
// whole is the name, for a bytes column beside it. A name that begins like that is stored so
// too: two names never share a key.
func Key(name string, most int) (key string, whole []byte) {
	if len(name) <= most || utf8.RuneCountInString(name) <= most {
		if utf8.ValidString(name) && !strings.Contains(name, "\x00") && !strings.HasPrefix(name, hashed) {
			return name, nil
		}
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:]), []byte(name)
}

// Name is the inverse of Key.
func Name(key string, whole []byte) string {
	if whole != nil {
		return string(whole)
	}
	return key
}
