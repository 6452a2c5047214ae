package definition

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// How far from now a number in a property with a name of time may be to count as unix
// seconds: half a year back, ten years ahead.
const (
	secondsBack  = 15_768_000
	secondsAhead = 315_360_000
)

// TypeOf detects the type of one value, raw JSON, of a property: empty where it has none
// (null, objects, arrays) or is not JSON.
func TypeOf(key string, raw []byte, now time.Time) Type {
	key = strings.ToLower(key)
	if alwaysText(key) {
		return String
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case 't', 'f':
		return Boolean
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil && len(text) == 0 {
			return ""
		}
		return typeOfText(string(text))
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		n, err := strconv.ParseFloat(string(raw), 64)
		if err == nil && namesTime(key) && n >= float64(now.Unix()-secondsBack) && n <= float64(now.Unix()+secondsAhead) {
			return DateTime
		}
		return Numeric
	}
	return ""
}

// alwaysText is for names whose values are always text.
func alwaysText(key string) bool {
	for _, p := range [...]string{"utm_", "$initial_utm_", "$feature/", "$survey_response"} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return key == "$feature_flag_response"
}

// namesTime is for names whose values may be times.
func namesTime(key string) bool {
	for _, p := range [...]string{"time", "date", "_at", "-at", "createdat", "updatedat"} { // timestamp contains time
		if strings.Contains(key, p) {
			return true
		}
	}
	return false
}

func typeOfText(s string) Type {
	switch t := strings.TrimFunc(s, blank); {
	case t == "true" || t == "false" || t == "TRUE" || t == "FALSE":
		return Boolean
	case dateLike(s, t):
		return DateTime // whatever the name
	case number(t):
		return Numeric
	}
	return String
}

// dateLike takes a text and its trimmed form. It checks shapes, not calendars.
func dateLike(s, trimmed string) bool {
	if fits(s, "dddd-dd-dd") {
		if r, _ := utf8.DecodeRuneInString(s[10:]); r == 'T' || blank(r) {
			return true
		}
	}
	t := trimmed
	if !fits(t, "dddd/2d/3d") && !fits(t, "2d/3d/dddd") {
		return false
	}
	t = t[10:]
	return t == "" || (t[0] == ' ' || t[0] == 'T') && fits(t[1:], "dd:dd:dd")
}

// fits says whether s begins with the pattern: d is a digit, 2 and 3 a digit up to that, /
// one of - and /, anything else itself.
func fits(s, pattern string) bool {
	if len(s) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		c := s[i]
		var ok bool
		switch p := pattern[i]; p {
		case 'd':
			ok = '0' <= c && c <= '9'
		case '2', '3':
			ok = '0' <= c && c <= p
		case '/':
			ok = c == '-' || c == '/'
		default:
			ok = c == p
		}
		if !ok {
			return false
		}
	}
	return true
}

// number says whether JavaScript's Number reads t, trimmed, as one.
func number(t string) bool {
	if len(t) > 2 && t[0] == '0' {
		switch t[1] {
		case 'x', 'X':
			return only(t[2:], "0123456789abcdefABCDEF")
		case 'o', 'O':
			return only(t[2:], "01234567")
		case 'b', 'B':
			return only(t[2:], "01")
		}
	}
	if t != "" && (t[0] == '+' || t[0] == '-') {
		t = t[1:]
	}
	if t == "Infinity" {
		return true
	}
	mantissa, exponent, hasExponent := strings.Cut(strings.Replace(t, "E", "e", 1), "e")
	if hasExponent {
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if exponent == "" || !only(exponent, digits) {
			return false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	return whole+fraction != "" && only(whole, digits) && only(fraction, digits)
}

const digits = "0123456789"

// only says whether s has only characters of set.
func only(s, set string) bool {
	for i := range len(s) {
		if strings.IndexByte(set, s[i]) < 0 {
			return false
		}
	}
	return true
}

// blank is what JavaScript trims.
func blank(r rune) bool {
	switch {
	case '\t' <= r && r <= '\r', r == ' ', r == 0xa0, r == 0x1680, 0x2000 <= r && r <= 0x200a,
		r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000, r == 0xfeff:
		return true
	}
	return false
}
