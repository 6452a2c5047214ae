package nearest

import (
	"strings"
	"testing"
)

func TestTheNearestNameIsFound(t *testing.T) {
	names := []string{"", "system", "state", "site", "since", "perSecond"}
	for word, want := range map[string]string{
		"sytem": "system", "SYSTEM": "system", "persecond": "perSecond", "stat": "state", "sit": "site", "state": "state",
		"sicne": "since", "queue": "", "x": "", "": "", strings.Repeat("system", 1000): "",
	} {
		if got := To(word, names); got != want {
			t.Errorf("%.40q means %q, want %q", word, got, want)
		}
	}
	if a, b := Said("sytem", names), Said("queue", names); a != `; did you mean "system"?` || b != "" {
		t.Errorf("said %q and %q", a, b)
	}
}
