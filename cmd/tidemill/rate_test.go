package main

import (
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]struct {
		n     int
		every time.Duration
	}{
		"50": {50, time.Second}, "50/s": {50, time.Second}, "50/m": {1, 1200 * time.Millisecond}, "90/m": {2, 4 * time.Second / 3}, "3600/h": {1, time.Second}, "2/h": {1, 30 * time.Minute},
	} {
		var r rate
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if n, every := r.slice(); n != want.n || (every-want.every).Abs() > time.Millisecond {
			t.Errorf("%s: %d every %v, want %d every %v", text, n, every, want.n, want.every)
		}
	}
	for _, text := range []string{"", "s", "50/d", "-1/s", "0", "50/s/s", "1e3/s", "2000000/s"} {
		if err := new(rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as a rate", text)
		}
	}
}

func TestAgesAreTimes(t *testing.T) {
	for text, want := range map[string]string{"24h": "2026-02-28T12:00:00Z", "7d": "2026-02-22T12:00:00Z", "90m": "2026-03-01T10:30:00Z", "": "", "2026-01-31": "2026-01-31", "soon": "soon", "-5h": "-5h", "-2d": "-2d"} {
		if got := moment(text, day); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
