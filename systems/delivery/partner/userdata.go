package partner

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/tidemill/tidemill"
)

// Email normalises an address: trimmed and lower-cased, nothing else, as partners compare
// hashes of exactly that. A text without @ is not an address.
func Email(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	return s, strings.Contains(s, "@")
}

// Digits leaves the digits 0 to 9 of a text.
func Digits(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, s)
}

// Phone normalises a number to E.164, with its plus, where it has its country code (+49…,
// 0049…) or the country (ISO 3166) is known; else to its digits. A number that is too short or
// too long is refused.
//
// It knows calling codes and trunk prefixes, not every numbering plan: a national number of
// more than ten digits that begins with its country's calling code is taken for an
// international one.
func Phone(s, country string) (string, bool) {
	s = strings.TrimSpace(s)
	digits := Digits(s)
	code, known := callingCodes[strings.ToUpper(strings.TrimSpace(country))]
	switch {
	case strings.HasPrefix(s, "+"):
	case strings.HasPrefix(digits, "00"):
		digits = digits[2:]
	case !known:
		return digits, len(digits) >= 7 && len(digits) <= 15
	case strings.HasPrefix(digits, code) && len(digits) > 10: // international, the plus left out
	default:
		digits = code + withoutTrunk(digits, strings.ToUpper(strings.TrimSpace(country)))
	}
	return "+" + digits, len(digits) >= 7 && len(digits) <= 15
}

// withoutTrunk drops the prefix that is dialled only inside the number's country.
func withoutTrunk(digits, country string) string {
	switch country {
	case "IT", "SM", "VA", "ES", "PT", "DK", "NO", "PL", "CZ", "GR", "SG", "HK": // it is part of the number, or does not exist
		return digits
	case "HU":
		return strings.TrimPrefix(digits, "06")
	case "RU", "KZ", "LT":
		if len(digits) > 8 {
			return strings.TrimPrefix(digits, "8")
		}
		return digits
	}
	return strings.TrimPrefix(digits, "0")
}

// Hash is SHA-256 in lower-case hex. A text of 64 hex digits is such a hash already: it is only
// lower-cased.
func Hash(s string) string {
	if hashed(s) {
		return strings.ToLower(s)
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func hashed(s string) bool {
	if len(s) != 64 {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

// EmailHash is the hash that partners expect: of the normalised address, unsalted.
func EmailHash(s string) (string, bool) {
	if t := strings.TrimSpace(s); hashed(t) {
		return Hash(t), true
	}
	s, ok := Email(s)
	return Hash(s), ok
}

// PhoneHash is the hash of the number in E.164, plus included.
func PhoneHash(s, country string) (string, bool) {
	if t := strings.TrimSpace(s); hashed(t) {
		return Hash(t), true
	}
	s, ok := Phone(s, country)
	return Hash(s), ok
}

// SiteHash is the site's own hash of a normalised value. Without the salt it cannot be found by
// trying values. A value that is a hash already stays as it is.
func SiteHash(normalised string, salt tidemill.Secret) string {
	if hashed(normalised) {
		return strings.ToLower(normalised)
	}
	return Hash(normalised + salt.Reveal())
}
