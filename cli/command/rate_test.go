package command

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
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if n, every := r.Slice(); n != want.n || (every-want.every).Abs() > time.Millisecond {
			t.Errorf("%s: %d every %v, want %d every %v", text, n, every, want.n, want.every)
		}
	}
	for _, text := range []string{"", "s", "50/d", "-1/s", "0", "50/s/s", "1e3/s", "2000000/s"} {
		if err := new(Rate).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as a rate", text)
		}
	}
}
