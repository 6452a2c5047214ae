package request_test

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

func TestMinutes(t *testing.T) {
	var m request.Minutes
	now := time.Date(2026, 11, 21, 19, 0, 20, 0, time.UTC)
	next := now.Add(40 * time.Second)
	admit := func(name string, n int, want bool) {
		t.Helper()
		if ok, until := m.Admit(name, n, 10, now); ok != want || !until.Equal(now.Truncate(time.Minute).Add(time.Minute)) {
			t.Errorf("%d of %s: %v until %v", n, name, ok, until)
		}
	}
	admit("a", 8, true)
	admit("a", 3, false)
	admit("b", 10, true)
	admit("a", 2, true)
	admit("a", 1, false)
	m.Return("a", 2, next)
	admit("a", 2, true)
	m.Return("a", 5, now) // of another minute
	m.Return("c", 5, next)
	admit("a", 1, false)
	now = next
	admit("a", 25, true) // more than a minute's, and its first
	admit("a", 1, false)
}
