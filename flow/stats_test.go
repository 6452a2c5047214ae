package flow

import (
	"reflect"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// To which numbers the source's answer to one end adds, after three errors in a row.
func TestWhatAnEndCountsAs(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	const ours, outside = 0, 1
	for _, c := range []struct {
		why  string
		from int // whose end it is
		end  tidemill.Settlement
		want Stats
	}{
		{"no answer is no end", ours, tidemill.Settlement{Outcome: tidemill.Unanswered, Fate: tidemill.Dead}, Stats{Errors: 3}},
		{"only what is done ends a row of errors", ours, tidemill.Settlement{Outcome: tidemill.Applied, Fate: tidemill.Dead},
			Stats{Settled: tidemill.Count{Dead: 1}, LastDone: now}},
		{"an ack", outside, tidemill.Settlement{Outcome: tidemill.Applied, Fate: tidemill.Delivered},
			Stats{Settled: tidemill.Count{Delivered: 1}, Acked: 1, LastDone: now}},
		{"an ack that came too late", outside, tidemill.Settlement{Outcome: tidemill.Stale, Fate: tidemill.Delivered}, Stats{Stale: 1, Errors: 3}},
		{"an end that came too late", ours, tidemill.Settlement{Outcome: tidemill.Stale, Fate: tidemill.Delivered}, Stats{Stale: 1, Errors: 3}},
		{"left for an ack that was faster", ours, tidemill.Settlement{Outcome: tidemill.Stale, End: tidemill.Left}, Stats{Errors: 3}},
		{"left from outside, too late", outside, tidemill.Settlement{Outcome: tidemill.Stale, End: tidemill.Left}, Stats{Stale: 1, Errors: 3}},
		{"left", ours, tidemill.Settlement{Outcome: tidemill.Applied, End: tidemill.Left}, Stats{Left: 1, Errors: 3}},
		{"a failed try", ours, tidemill.Settlement{Outcome: tidemill.Applied, End: tidemill.Again, CountTry: true}, Stats{Retried: 1, Errors: 3}},
		{"handed back unburnt", ours, tidemill.Settlement{Outcome: tidemill.Applied, End: tidemill.Again}, Stats{Returned: 1, Errors: 3}},
	} {
		s := stats{s: Stats{Errors: 3}}
		s.told(now, []tidemill.Settlement{c.end}, c.from)
		if !reflect.DeepEqual(s.s, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.why, s.s, c.want)
		}
	}
}
