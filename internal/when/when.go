// Package when reads times and durations as people write them: in flags, settings and the API.
package when

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Forms are the texts that Start and End read, in words.
const Forms = "2026-01-31T12:00:00Z, 2026-01-31 (UTC), or how long ago: 24h, 7d"

// Start reads the beginning of a span: RFC 3339, a day in UTC, which is its first instant, or
// an age, which is that long before now.
func Start(text string, now time.Time) (time.Time, error) {
	t, _, err := read(text, now)
	return t, err
}

// End reads the exclusive end of a span: as Start does, but a day is the first instant of the
// next one, so that all of it is in the span.
func End(text string, now time.Time) (time.Time, error) {
	t, day, err := read(text, now)
	if day {
		t = t.AddDate(0, 0, 1)
	}
	return t, err
}

// Day reports whether a text is a day.
func Day(text string) bool {
	_, day, err := read(text, time.Time{})
	return day && err == nil
}

func read(text string, now time.Time) (t time.Time, day bool, err error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, true, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), false, nil
	}
	if age, err := Duration(text); err == nil && age >= 0 && !strings.HasPrefix(text, "-") {
		return now.UTC().Add(-age), false, nil
	}
	return t, false, fmt.Errorf("%q is no time: write %s", text, Forms)
}

// Duration reads a Go duration, which may begin with days: 7d, 1d12h, 90m. A day is 24 hours.
func Duration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration: write 500ms, 5s, 10m, 24h or 7d", text)
	sign, rest := time.Duration(1), text
	if after, ok := strings.CutPrefix(text, "-"); ok {
		sign, rest = -1, after
	}
	days, rest, ok := strings.Cut(rest, "d")
	if !ok {
		days, rest = "0", days
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "0123456789.") != "" || n > math.MaxInt64/float64(24*time.Hour) {
		return 0, bad
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest != "" || !ok {
		more, err := time.ParseDuration(rest)
		if err != nil || ok && (more < 0 || d+more < d || strings.HasPrefix(rest, "+")) || sign < 0 && (more < 0 || strings.HasPrefix(rest, "+")) {
			return 0, bad
		}
		d += more
	}
	return sign * d, nil
}
