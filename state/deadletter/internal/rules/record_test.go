package rules_test

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

func TestALetterThatIsGoneCountsOnce(t *testing.T) {
	one, two := tidemill.Count{Delivered: 1}, tidemill.Count{Delivered: 1, Skipped: 1}
	for _, c := range []struct {
		s    tidemill.Settlement
		want tidemill.Count
	}{
		{tidemill.Settlement{Fate: tidemill.Delivered}, one},
		{tidemill.Settlement{Fate: tidemill.Skipped}, tidemill.Count{Skipped: 1}},
		{tidemill.Settlement{Fate: tidemill.Skipped, Records: one}, one},
		{tidemill.Settlement{Fate: tidemill.Skipped, Records: two}, tidemill.Count{Skipped: 1}},
		{tidemill.Settlement{Fate: tidemill.Delivered, Records: two}, one},
		{tidemill.Settlement{Fate: tidemill.Delivered, Records: tidemill.Count{Dead: 1}}, one},
	} {
		if got := rules.Ended(&c.s); got != c.want {
			t.Errorf("%+v counts %+v, want %+v", c.s, got, c.want)
		}
	}
}

func TestAShortHistoryIsDamaged(t *testing.T) {
	whole := rules.EncodeHistory([]deadletter.Failure{{At: noon, Cause: "why", Answer: []byte("no")}})
	for n := range whole {
		if h, err := rules.DecodeHistory(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(whole), h)
		}
	}
	if h, err := rules.DecodeHistory(whole); err != nil || len(h) != 1 || string(h[0].Answer) != "no" {
		t.Errorf("read as %+v, %v", h, err)
	}
}
