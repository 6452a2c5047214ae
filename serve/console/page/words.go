package page

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill/serve/api"
)

// Number is a count with its digits in groups: 1,204,000.
func Number(n any) string {
	switch n := n.(type) { // what most counts are
	case nil:
		return ""
	case int:
		return grouped(strconv.Itoa(n))
	case int64:
		return grouped(strconv.FormatInt(n, 10))
	case uint64:
		return grouped(strconv.FormatUint(n, 10))
	}
	v := reflect.Indirect(reflect.ValueOf(n))
	if !v.IsValid() {
		return ""
	}
	return grouped(fmt.Sprint(v.Interface()))
}

// grouped is a number with a comma before each three digits.
func grouped(s string) string {
	digits, rest, fraction := strings.Cut(s, ".")
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if fraction {
		digits += "." + rest
	}
	return sign + digits
}

// rate is how many a second, with as many digits as say something.
func rate(f float64) string {
	if f > 0 && f < 10 {
		return fmt.Sprintf("%.2g", f)
	}
	return Number(int64(f + .5))
}

// Age is a duration in words: 3 min, 2 h 5 min, 4 days.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		if m := int(d.Minutes()) % 60; m > 0 {
			return fmt.Sprintf("%d h %d min", int(d.Hours()), m)
		}
		return fmt.Sprintf("%d h", int(d.Hours()))
	case d < 48*time.Hour:
		return "1 day"
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// size is a count of bytes in words: 812 KiB, 1.4 GiB.
func size(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 || f >= 10 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// Span is the time between two steps, in seconds, as short as it may be: 12 ms, 3.4 s, 2 h 5 min.
func Span(seconds *float64) string {
	d := time.Duration(*seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return Age(d)
}

// cutAt is how many bytes of a text a list shows.
const cutAt = 200

// Cut is a text as a list shows it.
func Cut(s string) string {
	if len(s) <= cutAt {
		return s
	}
	n := cutAt
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tone is how a state looks beside its word: a class of the style sheet, which has a shape and a
// colour for each.
func tone(state string) string {
	switch strings.ToLower(state) {
	case "running", "there", "ok", "closed", "completed", "done", "delivered", "balanced", "open for jobs", "accepted", "applied":
		return "good"
	case "paused", "draining", "retrying", "delayed", "warn", "half-open", "replaying", "stopping", "held", "scheduled":
		return "warn"
	case "failed", "gone", "refused", "unknown", "dead", "fail", "open", "unbalanced", "not known", "stopped", "unread":
		return "bad"
	case "leased", "processing", "started", "starting", "in flight":
		return "busy"
	}
	return "idle"
}

// Moment is a time as pages show it: both where it is and how far away.
type Moment struct {
	ISO, At, Ago string
}

// When is a time on this page; a nil pointer and the zero time are none.
func (v *Visit) When(t any) *Moment {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *time.Time:
		if t != nil {
			at = *t
		}
	}
	if at.IsZero() {
		return nil
	}
	here, form := at.In(v.Zone), "2 Jan 15:04:05"
	if here.Year() != v.At.In(v.Zone).Year() {
		form = "2 Jan 2006 15:04:05"
	}
	m := &Moment{ISO: at.UTC().Format(time.RFC3339Nano), At: here.Format(form)}
	if d := v.At.Sub(at); d < time.Second && d > -time.Second {
		m.Ago = "now"
	} else if d < 0 {
		m.Ago = "in " + Age(-d)
	} else {
		m.Ago = Age(d) + " ago"
	}
	return m
}

// Words is a name of the API as people read it.
func Words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Many counts things in words.
func Many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Number(n) + " " + what + "s"
}

// StateOf is the state of a queue in a word.
func StateOf(q *api.Queue) string {
	switch {
	case q.Paused:
		return "paused"
	case q.Closed:
		return "draining"
	}
	return "running"
}

// State is the state of a queue in a word.
func (v *View) State(q *api.Queue) string { return StateOf(q) }

// Fact is something with its name, and what it means.
type Fact struct{ Name, Value, Help string }
