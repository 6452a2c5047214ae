package giveway

import (
	"testing"
	"time"
)

func TestTheIdleTimeOfAllCores(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  10132153 290696 3084719 46828483 16683 0 25195 0 175628 0\ncpu0 1 2 3 4 5\n": (46828483 + 16683) * tick,
		"cpu  1 2 3 4 5\n":   9 * tick,
		"cpu  0 0 0 0 0 0\n": -1,
		"cpu  1 2 3 4\n":     -1,
		"cpu0 1 2 3 4 5\n":   -1,
		"cpu  1 2 3 x 5\n":   -1,
		"cpu  1 2 3 4 5":     -1,
		"":                   -1,
	} {
		if got, ok := idleOf([]byte(stat)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: idle for %v, %v, want %v", stat, got, ok, want)
		}
	}
	if idle, ok := Idle(); ok && idle <= 0 { // a sandbox may not tell
		t.Errorf("this machine has been idle for %v, %v", idle, ok)
	}
}
