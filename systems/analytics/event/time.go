package event

import (
	"strconv"
	"strings"
	"time"
)

const (
	firstSecond = -62135596800 // 0001-01-01T00:00:00Z
	lastSecond  = 253402300799 // 9999-12-31T23:59:59Z
	// Numbers from here on are milliseconds: as seconds they would be past the year 5138,
	// as milliseconds they are after March 1973.
	firstMilli = 100_000_000_000
)

// ParseTime reads an event's time: RFC 3339 with Z or an offset and any fraction;
// YYYY-MM-DD hh:mm:ss with or without a fraction, which is UTC; or Unix seconds or
// milliseconds. Its year is 1 to 9999 in UTC, which the result is in.
func ParseTime(s string) (time.Time, error) {
	if t, ok := parseTime(s); ok {
		return t, nil
	}
	return time.Time{}, noTime("timestamp", s)
}

func noTime(field, s string) error {
	return invalid(field, "%.60q is no time; allowed are RFC 3339 (2006-01-02T15:04:05.999Z), YYYY-MM-DD hh:mm:ss[.fff] in UTC, and Unix seconds or milliseconds, in the years 1 to 9999", s)
}

func parseTime(s string) (time.Time, bool) {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return time.Time{}, false
	}
	if len(s) < 19 || s[4] != '-' || s[7] != '-' {
		return parseUnix(s)
	}
	return parseDate(s)
}

func parseDate(s string) (t time.Time, ok bool) {
	if s[10] != 'T' && s[10] != 't' && s[10] != ' ' || s[13] != ':' || s[16] != ':' {
		return t, false
	}
	ok = true
	num := func(from, to, low, high int) (n int) {
		for _, ch := range []byte(s[from:to]) {
			n = n*10 + int(ch-'0')
			ok = ok && '0' <= ch && ch <= '9'
		}
		ok = ok && low <= n && n <= high
		return n
	}
	year, month := num(0, 4, 0, 9999), num(5, 7, 1, 12)
	day := num(8, 10, 1, 31)
	hour, minute, second := num(11, 13, 0, 23), num(14, 16, 0, 59), num(17, 19, 0, 60)
	if !ok {
		return t, false
	}
	nanos, rest, ok := fraction(s[19:])
	if !ok {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if day > 28 && t.Day() != day && time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return t, false // the month is not that long
	}
	switch n := len(rest); {
	case n == 0, rest == "Z", rest == "z":
	case (rest[0] == '+' || rest[0] == '-') && (n == 6 && rest[3] == ':' || n == 5):
		at := len(s) - n
		off := time.Duration(num(at+1, at+3, 0, 23))*time.Hour + time.Duration(num(len(s)-2, len(s), 0, 59))*time.Minute
		if rest[0] == '+' {
			off = -off
		}
		t = t.Add(off)
	default:
		return t, false
	}
	if ok = ok && inRange(t.Unix()); !ok {
		return time.Time{}, false
	}
	return t, true
}

// fraction reads the digits behind a dot or comma, if present.
func fraction(s string) (nanos int, rest string, ok bool) {
	if s == "" || s[0] != '.' && s[0] != ',' {
		return 0, s, true
	}
	i, scale := 1, 100_000_000
	for ; i < len(s) && '0' <= s[i] && s[i] <= '9'; i++ {
		nanos += int(s[i]-'0') * scale
		scale /= 10
	}
	return nanos, s[i:], i > 1
}

func parseUnix(s string) (t time.Time, ok bool) {
	digits := strings.TrimPrefix(s, "-")
	end := strings.IndexAny(digits, ".eE")
	if end < 0 {
		end = len(digits)
	}
	n, err := strconv.ParseUint(digits[:end], 10, 48)
	if err != nil {
		return t, false
	}
	nanos, rest, ok := fraction(digits[end:])
	if !ok {
		return t, false
	}
	if rest != "" { // an exponent: some encoders write large numbers so
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil || f > lastSecond*1000 {
			return t, false
		}
		n = uint64(f)
		nanos = int((f - float64(n)) * 1e9)
	}
	whole, part := int64(n), int64(nanos)
	if s != digits {
		whole, part = -whole, -part
	}
	if n >= firstMilli {
		t = time.UnixMilli(whole).Add(time.Duration(part / 1000))
	} else {
		t = time.Unix(whole, part)
	}
	if !inRange(t.Unix()) {
		return time.Time{}, false
	}
	return t.UTC(), true
}

func inRange(unix int64) bool { return firstSecond <= unix && unix <= lastSecond }

// when reads a field's time; ok is false if it has none.
func (d *decoder) when(v []byte, field string) (t time.Time, ok bool, err error) {
	s := d.characters(v)
	switch {
	case len(v) > 0 && s == nil:
		return t, false, invalid(field, "%s; a time is a text or a number", describe(v))
	case len(s) == 0:
		return t, false, nil
	}
	if t, ok = parseTime(string(s)); !ok {
		return t, false, noTime(field, string(s))
	}
	return t, true, nil
}

// hint is when for times that only help to correct another: an unreadable one is ignored.
func (d *decoder) hint(v []byte) time.Time {
	t, _ := parseTime(string(d.characters(v)))
	return t
}
