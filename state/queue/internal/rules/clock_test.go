package rules

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/queue"
)

func TestARateAndAClockThatStepsBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	l := queue.Limit{PerSecond: 10, Burst: 5}
	spent := Spend(l, 0, 5, now)
	for _, c := range []struct {
		name string
		ago  time.Duration
		want int
	}{
		{"the burst is used up", 0, 0},
		{"a clock that steps back a little lets none go before their time", 50 * time.Millisecond, 0},
		{"one that steps back an hour does not hold all back for so long", time.Hour, 5},
	} {
		if n, _ := Allow(l, 0, 10, spent, now.Add(-c.ago)); n != c.want {
			t.Errorf("%s: %d may go, want %d", c.name, n, c.want)
		}
	}
	before := now.Add(-time.Hour)
	if n, at := Allow(l, 0, 10, Spend(l, spent, 5, before), before); n != 0 || at.Sub(before) > time.Second {
		t.Errorf("after five an hour before %d may go, or from %v on; want none, for a tenth of a second", n, at.Sub(before))
	}
}
