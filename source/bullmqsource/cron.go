package bullmqsource

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"
)

// named are the patterns that have a name in cron-parser, which BullMQ reads patterns with.
var named = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0", "@daily": "0 0 0 * * *",
	"@hourly": "0 0 * * * *", "@minutely": "0 * * * * *", "@secondly": "* * * * * *", "@weekdays": "0 0 0 * * 1-5", "@weekends": "0 0 0 * * 0,6",
}

// cron is a pattern: up to six fields, the first of six is seconds; fields that are missing in
// front are every minute, and second 0.
type cron struct{ expression *cronexpr.Expression }

func parseCron(pattern string) (cron, error) {
	text := pattern
	if n, ok := named[text]; ok {
		text = n
	}
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 6 || strings.ContainsAny(text, "@W") {
		return cron{}, fmt.Errorf("%q is no cron pattern of up to six fields", pattern)
	}
	fields = append([]string{"0", "*", "*", "*", "*", "*"}[:6-len(fields)], fields...)
	fields[5] = sundays(fields[5])
	e, err := cronexpr.Parse(strings.Join(fields, " ") + " *") // any year
	if err != nil {
		return cron{}, fmt.Errorf("%q: %w", pattern, err)
	}
	return cron{e}, nil
}

// sundays writes ranges of weekdays that end with 7 day by day: the library knows 7 as a day, but
// not as the end of a range.
func sundays(field string) string {
	parts := strings.Split(field, ",")
	for i, p := range parts {
		span, every, stepped := strings.Cut(p, "/")
		low, high, ranged := strings.Cut(span, "-")
		from, err := strconv.Atoi(low)
		step := 1
		if stepped {
			step, _ = strconv.Atoi(every)
		}
		if !ranged || high != "7" || err != nil || from < 0 || from > 7 || step < 1 {
			continue
		}
		var days []string
		for d := from; d <= 7; d += step {
			days = append(days, strconv.Itoa(d%7))
		}
		parts[i] = strings.Join(days, ",")
	}
	return strings.Join(parts, ",")
}

// next is the first time after t, in t's zone; zero: never. A time in an hour that a clock skips
// is due as long after the skip as it would have been.
func (c cron) next(t time.Time) time.Time {
	found := c.expression.Next(t)
	y, mo, d := t.Date()
	h, mi, s := t.Clock()
	wall := c.expression.Next(time.Date(y, mo, d, h, mi, s, 0, time.UTC)) // by a clock that skips nothing
	if wall.IsZero() || found.IsZero() {
		return found
	}
	y, mo, d = wall.Date()
	h, mi, s = wall.Clock()
	shown := time.Date(y, mo, d, h, mi, s, 0, t.Location())
	if shown.Hour() == h && shown.Minute() == mi {
		return found
	}
	_, before := shown.Add(-3 * time.Hour).Zone()
	skipped := wall.Add(-time.Duration(before) * time.Second).In(t.Location())
	if skipped.After(t) && skipped.Before(found) {
		return skipped
	}
	return found
}
