package flow

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// Of what becomes of a message, which makes younger ones of its order wait for it.
func TestWhatComesAgainInItsLane(t *testing.T) {
	rules := policy.Default()
	rules[tidemill.NotFound] = policy.Rule{Do: policy.Skip}
	fails := func(k tidemill.Kind) func(*Task) { return func(t *Task) { t.Fail(tidemill.Fail(k, "no")) } }
	for what, c := range map[string]struct {
		becomes func(*Task)
		want    bool
	}{
		"nothing yet":                {func(*Task) {}, false},
		"delivered":                  {(*Task).Deliver, false},
		"left for an ack":            {(*Task).Defer, false},
		"handed back":                {func(t *Task) { t.Again(time.Second) }, true},
		"the destination refuses us": {fails(tidemill.Credentials), true},
		"too fast, which is no try":  {fails(tidemill.RateLimit), true},
		"a failed try":               {fails(tidemill.Timeout), false},
		"dead":                       {fails(tidemill.Validation), false},
		"skipped by a rule":          {fails(tidemill.NotFound), false},
	} {
		task := NewTask(tidemill.Message{ID: "a"})
		c.becomes(task)
		if got := comesAgain(task, rules); got != c.want {
			t.Errorf("%s: comes again is %v", what, got)
		}
	}
}
