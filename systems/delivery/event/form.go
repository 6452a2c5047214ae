package event

import (
	"time"
	"unicode"
	"unicode/utf8"
)

// form is what a text has to look like.
type form struct {
	min, max int64 // characters
	words    string
	pattern  string // the same as a regular expression, for Schema
	format   string // of JSON Schema, where there is one
	fits     func(b []byte) bool
}

var (
	site = form{1, 100, "1 to 100 of A-Z, a-z, 0-9, _ and -", `^[A-Za-z0-9_-]{1,100}$`, "",
		func(b []byte) bool { return all(b, func(c byte) bool { return alnum(c) || c == '_' || c == '-' }) }}
	typeName = form{1, 100, "a type's name", `^[A-Za-z0-9_.-]{1,100}$`, "",
		func(b []byte) bool {
			return all(b, func(c byte) bool { return alnum(c) || c == '_' || c == '-' || c == '.' })
		}}
	hex64 = form{64, 64, "64 hexadecimal digits (a SHA-256)", `^[0-9a-fA-F]{64}$`, "",
		func(b []byte) bool { return len(b) == 64 && all(b, hexadecimal) }}
	country = form{2, 2, "two capital letters", `^[A-Z]{2}$`, "",
		func(b []byte) bool { return len(b) == 2 && all(b, capital) }}
	currency = form{3, 3, "three capital letters", `^[A-Z]{3}$`, "",
		func(b []byte) bool { return len(b) == 3 && all(b, capital) }}
	digits = form{1, 10, "1 to 10 digits", `^[0-9]{1,10}$`, "",
		func(b []byte) bool { return len(b) <= 10 && all(b, digit) }}
	tcfVersion = form{3, 3, "2.2, or another version 2.x", `^2\.[0-9]$`, "",
		func(b []byte) bool { return len(b) == 3 && b[0] == '2' && b[1] == '.' && digit(b[2]) }}
	version = form{1, 32, "a version such as 1.0.0", `^[0-9]{1,6}(\.[0-9]{1,6}){0,2}$`, "",
		func(b []byte) bool { _, ok := major(b); return ok }}
	printable = form{1, 255, "1 to 255 printable characters", `^[^\p{C}\p{Zl}\p{Zp}]{1,255}$`, "",
		func(b []byte) bool { return CheckKey(string(b)) }}
	uuidText = form{36, 36, "a UUID", `^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, "uuid", isUUID}
	instant  = form{20, 64, "a time as in RFC 3339, not before 1970, such as 2026-11-21T19:00:00.000Z",
		`^(19[7-9][0-9]|[2-9][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]{1,30})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`, "date-time",
		func(b []byte) bool { _, ok := parseTime(b); return ok }}
)

func all(b []byte, ok func(byte) bool) bool {
	for _, c := range b {
		if !ok(c) {
			return false
		}
	}
	return len(b) > 0
}

func digit(c byte) bool       { return '0' <= c && c <= '9' }
func capital(c byte) bool     { return 'A' <= c && c <= 'Z' }
func alnum(c byte) bool       { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }
func hexadecimal(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isUUID(b []byte) bool {
	if len(b) != 36 {
		return false
	}
	for i, c := range b {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !hexadecimal(c) {
				return false
			}
		}
	}
	return true
}

// IsID says whether a text may be an event's id: a UUID.
func IsID(s string) bool { return isUUID([]byte(s)) }

// CheckKey reports whether a text may be an idempotency key: 1 to 255 printable characters,
// space included.
func CheckKey(key string) bool {
	if key == "" || len(key) > 255*utf8.UTFMax || utf8.RuneCountInString(key) > 255 || !utf8.ValidString(key) {
		return false
	}
	for _, c := range key {
		if !unicode.IsPrint(c) && !unicode.Is(unicode.Zs, c) {
			return false
		}
	}
	return true
}

// lower makes a text with the letters A to Z in lower case.
func lower(v []byte) string {
	for i, c := range v {
		if capital(c) {
			b := append([]byte(nil), v...)
			for j := i; j < len(b); j++ {
				if capital(b[j]) {
					b[j] |= 0x20
				}
			}
			return string(b)
		}
	}
	return string(v)
}

// major is the first number of a version of one to three.
func major(b []byte) (n int, ok bool) {
	first, part, size := 0, 1, 0
	for _, c := range b {
		switch {
		case c == '.':
			if part++; size == 0 || part > 3 {
				return 0, false
			}
			size = 0
		case digit(c):
			if size++; size > 6 {
				return 0, false
			}
			if part == 1 {
				first = first*10 + int(c-'0')
			}
		default:
			return 0, false
		}
	}
	return first, size > 0
}

// parseTime reads RFC 3339, in capitals and with up to 30 decimals; nine count. A leap second
// is the second after it. Times begin in 1970, as partners count from then.
func parseTime(b []byte) (time.Time, bool) {
	if len(b) < len("2006-01-02T15:04:05Z") || b[4] != '-' || b[7] != '-' || b[10] != 'T' || b[13] != ':' || b[16] != ':' {
		return time.Time{}, false
	}
	y1, ok1 := two(b[0:])
	y2, ok2 := two(b[2:])
	month, ok3 := two(b[5:])
	day, ok4 := two(b[8:])
	hour, ok5 := two(b[11:])
	minute, ok6 := two(b[14:])
	second, ok7 := two(b[17:])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7) || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, false
	}
	year := y1*100 + y2
	if year < 1970 {
		return time.Time{}, false
	}
	if day > 28 && day > time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day() {
		return time.Time{}, false
	}
	b = b[19:]
	nano := 0
	if b[0] == '.' {
		i, unit := 1, 100_000_000
		for ; i < len(b) && digit(b[i]); i++ {
			nano += int(b[i]-'0') * unit
			unit /= 10
		}
		if i == 1 || i > 31 || i == len(b) {
			return time.Time{}, false
		}
		b = b[i:]
	}
	offset := 0
	switch {
	case len(b) == 1 && b[0] == 'Z':
	case len(b) == 6 && (b[0] == '+' || b[0] == '-') && b[3] == ':':
		h, ok1 := two(b[1:])
		m, ok2 := two(b[4:])
		if !ok1 || !ok2 || h > 23 || m > 59 {
			return time.Time{}, false
		}
		if offset = (h*60 + m) * 60; b[0] == '-' {
			offset = -offset
		}
	default:
		return time.Time{}, false
	}
	return time.Date(year, time.Month(month), day, hour, minute, second-offset, nano, time.UTC), true
}

// two reads two digits.
func two(b []byte) (int, bool) {
	if !digit(b[0]) || !digit(b[1]) {
		return 0, false
	}
	return int(b[0]-'0')*10 + int(b[1]-'0'), true
}
