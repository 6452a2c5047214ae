package flow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// ends runs one message through a pipeline for a minute, and returns each of its
// settlements, its dead letter, and the stats.
func ends(t *testing.T, p flow.Pipeline, traits tidemill.Traits, work each) string {
	t.Helper()
	var b strings.Builder
	synctest.Test(t, func(t *testing.T) {
		src, dead := newSource(traits).add(tidemill.Message{ID: "m"}), &letters{}
		p.Name, p.Source, p.Work, p.Rand = "p", src, work.work, rand.New(rand.NewPCG(1, 2))
		if !traits.Parks {
			p.Dead = dead
		}
		e, stop := start(t, p)
		rest(time.Minute - 1)
		s := e.Stats()
		if err := stop(); err != nil {
			t.Error(err)
		}
		var last string
		times := 0
		tell := func(line string) {
			if line != last {
				if times > 1 {
					fmt.Fprintf(&b, " ×%d", times)
				}
				if line != "" && last != "" {
					b.WriteString(", ")
				}
				b.WriteString(line)
				last, times = line, 0
			}
			times++
		}
		for _, end := range src.ends {
			line := end.Fate.String()
			switch end.End {
			case tidemill.Again:
				line = "again " + end.After.String()
				if end.CountTry {
					line += " burnt"
				}
			case tidemill.Left:
				line = "left"
			}
			if end.Kind != tidemill.NoKind {
				line += fmt.Sprintf(" (%v: %s)", end.Kind, end.Cause)
			} else if end.Cause != "" {
				line += " (" + end.Cause + ")"
			}
			tell(line)
		}
		tell("")
		if l, ok := dead.put["m"]; ok {
			fmt.Fprintf(&b, "; letter (%v: %s) of %d tries", l.Kind, l.Cause, l.Tries)
		}
		fmt.Fprintf(&b, "; %v", s.Failures)
		if !s.FailedAt.IsZero() {
			fmt.Fprintf(&b, ", last %q %v ago", s.Failure, time.Since(s.FailedAt).Round(time.Second))
		}
		fmt.Fprintf(&b, "; retried %d, returned %d, left %d, awaited %d, breaker %v", s.Retried, s.Returned, s.Left, s.Awaited, s.Breaker)
	})
	return b.String()
}

// What becomes of a message, as a page to read.
func TestHowAMessageEnds(t *testing.T) {
	var b strings.Builder
	delays, parks := tidemill.Traits{Delays: true}, tidemill.Traits{Parks: true}
	twice := flow.Pipeline{Retry: policy.Retry{Tries: 2, Base: time.Second, Factor: 2}, PauseFor: 25 * time.Second}
	once := flow.Pipeline{PauseFor: 25 * time.Second}
	for k := tidemill.Validation; k <= tidemill.Unknown; k++ {
		fail := func(context.Context, *flow.Task) error { return tidemill.Fail(k, "no") }
		fmt.Fprintf(&b, "%v, two tries more: %s\n%v, of a source that cannot delay: %s\n", k, ends(t, twice, delays, fail), k, ends(t, once, parks, fail))
	}
	// What comes again comes after the cool-down: before it, it depends on whether it was asked for already.
	breaks := flow.Pipeline{Breaker: policy.Breaker{Fails: 1, Open: 16 * time.Second, Jitter: -1}, Retry: policy.Retry{Base: 17 * time.Second}, Rules: policy.Table{tidemill.Validation: {Do: policy.Retrying, Blames: true}}}
	for _, c := range []struct {
		name   string
		p      flow.Pipeline
		traits tidemill.Traits
		work   each
	}{
		{"nothing said", once, delays, func(context.Context, *flow.Task) error { return nil }},
		{"delivered", once, delays, func(_ context.Context, t *flow.Task) error { t.Deliver(); return nil }},
		{"skipped", once, delays, func(_ context.Context, t *flow.Task) error { t.Skip("consent"); return nil }},
		{"to come again", once, delays, func(_ context.Context, t *flow.Task) error { t.Again(25 * time.Second); return nil }},
		{"deferred", once, delays, func(_ context.Context, t *flow.Task) error { t.Defer(); return nil }},
		{"skipped by the rules", flow.Pipeline{Rules: policy.Table{tidemill.Validation: {Do: policy.Skip}}}, delays,
			func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "no") }},
		{"a probe that burns nothing", breaks, delays, func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "no") }},
		{"a probe where hand-outs are not counted", flow.Pipeline{Breaker: breaks.Breaker, Retry: breaks.Retry, Rules: breaks.Rules, Handouts: -1}, delays,
			func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Validation, "no") }},
		{"a probe where tries are counted", flow.Pipeline{Breaker: breaks.Breaker, Retry: policy.Retry{Tries: 2, Base: 17 * time.Second}}, delays,
			func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Timeout, "no") }},
		{"the least retry", flow.Pipeline{Breaker: breaks.Breaker, Retry: policy.Retry{Tries: 1, Base: 17 * time.Second}}, delays,
			func(context.Context, *flow.Task) error { return tidemill.Fail(tidemill.Timeout, "no") }},
	} {
		fmt.Fprintf(&b, "%s: %s\n", c.name, ends(t, c.p, c.traits, c.work))
	}
	const page = `validation, two tries more: dead (validation: no); letter (validation: no) of 1 tries; map[validation:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
validation, of a source that cannot delay: dead (validation: no); map[validation:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
not_found, two tries more: again 1s burnt (not_found: no), again 2s burnt (not_found: no), dead (not_found: no); letter (not_found: no) of 3 tries; map[not_found:3], last "no" 57s ago; retried 2, returned 0, left 0, awaited 0, breaker closed
not_found, of a source that cannot delay: dead (not_found: no); map[not_found:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
business, two tries more: dead (business: no); letter (business: no) of 1 tries; map[business:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
business, of a source that cannot delay: dead (business: no); map[business:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
timeout, two tries more: again 1s burnt (timeout: no), again 2s burnt (timeout: no), dead (timeout: no); letter (timeout: no) of 3 tries; map[timeout:3], last "no" 57s ago; retried 2, returned 0, left 0, awaited 0, breaker closed
timeout, of a source that cannot delay: dead (timeout: no); map[timeout:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
rate_limit, two tries more: again 1s (rate_limit: no) ×60; map[rate_limit:60], last "no" 1s ago; retried 0, returned 60, left 0, awaited 0, breaker closed
rate_limit, of a source that cannot delay: left; map[rate_limit:60], last "no" 1s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
partner_error, two tries more: again 1s burnt (partner_error: no), again 2s burnt (partner_error: no), dead (partner_error: no); letter (partner_error: no) of 3 tries; map[partner_error:3], last "no" 57s ago; retried 2, returned 0, left 0, awaited 0, breaker closed
partner_error, of a source that cannot delay: dead (partner_error: no); map[partner_error:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
credentials, two tries more: again 25s (credentials: no) ×3; map[credentials:3], last "no" 10s ago; retried 0, returned 3, left 0, awaited 0, breaker open
credentials, of a source that cannot delay: left; map[credentials:3], last "no" 10s ago; retried 0, returned 0, left 0, awaited 0, breaker open
transient, two tries more: again 1s burnt (transient: no), again 2s burnt (transient: no), dead (transient: no); letter (transient: no) of 3 tries; map[transient:3], last "no" 57s ago; retried 2, returned 0, left 0, awaited 0, breaker closed
transient, of a source that cannot delay: dead (transient: no); map[transient:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
internal, two tries more: again 1s burnt (internal: no), again 2s burnt (internal: no), dead (internal: no); letter (internal: no) of 3 tries; map[internal:3], last "no" 57s ago; retried 2, returned 0, left 0, awaited 0, breaker closed
internal, of a source that cannot delay: dead (internal: no); map[internal:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
unknown, two tries more: dead (unknown: no); letter (unknown: no) of 1 tries; map[unknown:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
unknown, of a source that cannot delay: dead (unknown: no); map[unknown:1], last "no" 1m0s ago; retried 0, returned 0, left 0, awaited 0, breaker closed
nothing said: delivered; map[]; retried 0, returned 0, left 0, awaited 0, breaker closed
delivered: delivered; map[]; retried 0, returned 0, left 0, awaited 0, breaker closed
skipped: skipped (consent); map[]; retried 0, returned 0, left 0, awaited 0, breaker closed
to come again: again 25s ×3; map[]; retried 0, returned 3, left 0, awaited 0, breaker closed
deferred: left; map[]; retried 0, returned 0, left 1, awaited 1, breaker closed
skipped by the rules: skipped (validation: no); map[validation:1]; retried 0, returned 0, left 0, awaited 0, breaker closed
a probe that burns nothing: again 17s (validation: no), again 20s burnt (validation: no) ×3; map[validation:4], last "no" 3s ago; retried 3, returned 1, left 0, awaited 0, breaker open
a probe where hand-outs are not counted: again 17s (validation: no), again 20s (validation: no) ×3; map[validation:4], last "no" 3s ago; retried 0, returned 4, left 0, awaited 0, breaker open
a probe where tries are counted: again 17s burnt (timeout: no), again 34s burnt (timeout: no), dead (timeout: no); letter (timeout: no) of 3 tries; map[timeout:3], last "no" 9s ago; retried 2, returned 0, left 0, awaited 0, breaker open
the least retry: again 17s burnt (timeout: no), dead (timeout: no); letter (timeout: no) of 2 tries; map[timeout:2], last "no" 43s ago; retried 1, returned 0, left 0, awaited 0, breaker half-open
`
	if b.String() != page {
		t.Errorf("got\n%s\nwant\n%s", b.String(), page)
	}
}

// What a probe comes to decides how the breaker stands: it closes by what was delivered or
// is left for an ack, and not by what says nothing of the destination.
func TestWhatClosesABreaker(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*flow.Task)
		want policy.State
	}{
		"nothing said":  {func(*flow.Task) {}, policy.Closed},
		"delivered":     {(*flow.Task).Deliver, policy.Closed},
		"deferred":      {(*flow.Task).Defer, policy.Closed},
		"skipped":       {func(t *flow.Task) { t.Skip("consent") }, policy.HalfOpen},
		"to come again": {func(t *flow.Task) { t.Again(time.Hour) }, policy.HalfOpen},
		"refused":       {func(t *flow.Task) { t.Fail(tidemill.Fail(tidemill.Validation, "no")) }, policy.HalfOpen},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(tidemill.Traits{Parks: true, Delays: true}).add(messages(2)...)
			e, stop := start(t, flow.Pipeline{Name: "p", Source: src, Breaker: policy.Breaker{Fails: 1, Open: 16 * time.Second, Jitter: -1},
				Work: each(func(_ context.Context, t *flow.Task) error {
					if t.ID == "1" {
						return tidemill.Fail(tidemill.Timeout, "no")
					}
					c.then(t)
					return nil
				}).work})
			rest(time.Minute)
			if s := e.Stats(); s.Breaker != c.want {
				t.Errorf("%s: %v, want %v; %v", name, s.Breaker, c.want, src.fates())
			}
			_ = stop()
		})
	}
}

// A panic of what takes messages in ends the system as an error does.
func TestASystemEndsByAPanicOfWhatTakesIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := flow.NewSystem(flow.SystemParts{Name: "s", Listeners: []flow.Listener{func(context.Context) error { panic("oh") }}})
		if err := s.Run(t.Context()); tidemill.KindOf(err) != tidemill.Internal || !strings.Contains(fmt.Sprint(err), "panic: oh") {
			t.Errorf("it ended with %v", err)
		}
	})
}

// mute answers nothing to what is settled.
type mute struct{ *memorySource }

func (mute) Settle(context.Context, []tidemill.Settlement) error { return nil }

func TestASourceThatAnswersNothingIsInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, stop := start(t, flow.Pipeline{Name: "p", Source: mute{newSource(tidemill.Traits{Parks: true}).add(messages(1)...)}, Work: nothing.work})
		rest(time.Minute)
		_ = stop()
		if err := e.Stats().Last; err == nil || !strings.Contains(err.Error(), "without an answer") {
			t.Errorf("the last error is %v", err)
		}
	})
}
