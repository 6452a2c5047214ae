package recent_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/recent"
)

func TestTheLatestAreRemembered(t *testing.T) {
	c := recent.New[string, int](2)
	*c.Of("a") = 1
	*c.Of("b") = 2
	if n := *c.Of("a"); n != 1 {
		t.Errorf("a is %d", n)
	}
	*c.Of("c") = 3 // b was used longest ago
	for key, want := range map[string]int{"a": 1, "c": 3} {
		if n, known := c.Get(key); !known || *n != want {
			t.Errorf("%s is %v", key, n)
		}
	}
	if n := *c.Of("b"); n != 0 {
		t.Errorf("b is remembered: %d", n)
	}
}
