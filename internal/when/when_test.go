package when

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTimes(t *testing.T) {
	for text, want := range map[string][2]string{
		"24h":                       {"2026-02-28T12:00:00Z", ""},
		"7d":                        {"2026-02-22T12:00:00Z", ""},
		"1d12h":                     {"2026-02-28T00:00:00Z", ""},
		"90m":                       {"2026-03-01T10:30:00Z", ""},
		"0s":                        {"2026-03-01T12:00:00Z", ""},
		"2026-01-31":                {"2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		"2026-01-31T12:00:00Z":      {"2026-01-31T12:00:00Z", ""},
		"2026-01-31T12:00:00.5Z":    {"2026-01-31T12:00:00.5Z", ""},
		"2026-01-31T12:00:00+01:00": {"2026-01-31T11:00:00Z", ""},
	} {
		if want[1] == "" {
			want[1] = want[0]
		}
		start, err := Start(text, noon)
		end, err2 := End(text, noon)
		if err != nil || err2 != nil || start.Format(time.RFC3339Nano) != want[0] || end.Format(time.RFC3339Nano) != want[1] {
			t.Errorf("%s begins %v (%v) and ends %v (%v), want %v", text, start, err, end, err2, want)
		}
	}
	for _, text := range []string{"", "soon", "-5h", "-2d", "7", "2026-02-30", "2026-1-1", "2026-01-31 12:00:00", "1700000000", "7days", "dd", "d", "1e3d", "in 2h"} {
		if got, err := Start(text, noon); err == nil || !strings.Contains(err.Error(), Forms) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "1d12h30m": 36*time.Hour + 30*time.Minute, "-1d": -24 * time.Hour, "-1d1h": -25 * time.Hour,
		"500ms": 500 * time.Millisecond, "-5m": -5 * time.Minute, "0": 0, "0s": 0, "1h30m": 90 * time.Minute, "+5s": 5 * time.Second,
	} {
		if got, err := Duration(text); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "7", "7D", "1h1d", "1d-1h", "--1d", "1d1d", "+1d", "1e3d", "200000d", "106751d24h", "day", "-+5s"} {
		if got, err := Duration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
