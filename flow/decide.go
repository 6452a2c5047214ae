package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// screen runs before the work. It ends messages that were handed out too often and messages
// that have a dead letter already: the dead letter is the fate, even if the settlement was
// lost.
func (l *lane) screen(ctx context.Context) {
	e := l.e
	again := 0
	for _, t := range l.batch {
		if t.Handed > 1 {
			again++
		}
	}
	if again == 0 {
		return
	}
	if e.p.Dead != nil && !e.traits.Parks {
		l.screenDead(ctx, again)
	}
	for _, t := range l.batch {
		if t.Live() && t.Handed-t.Tries > e.p.Handouts {
			t.ends(tidemill.Done)
			t.end.Fate, t.end.Kind = tidemill.Dead, tidemill.Internal
			t.end.Cause = fmt.Sprintf("handed out %d times, %d tries failed: it seems to kill whoever works on it", t.Handed, t.Tries)
			// Logged when a message came many more times than it was tried, as one does that kills the
			// process; it becomes a dead letter.
			// To do: look at it with `tidemill dead show`; find out why the process ended, and replay
			// it then.
			e.p.Log.Error("a message was handed out too often", "pipeline", e.p.Name, "message", t.ID, "handed", t.Handed)
		}
	}
}

// screenDead ends the messages that have a dead letter.
func (l *lane) screenDead(ctx context.Context, again int) {
	e := l.e
	tasks, ids, marks := make([]*Task, 0, again), make([]string, 0, again), make([]tidemill.Mark, 0, again)
	for _, t := range l.batch {
		if t.Handed > 1 {
			tasks, ids, marks = append(tasks, t), append(ids, t.ID), append(marks, t.Mark)
		}
	}
	for wrong := 1; ; wrong++ {
		dead, err := e.p.Dead.Has(ctx, e.p.Name, ids, marks)
		if err == nil && len(dead) != len(ids) {
			err = fmt.Errorf("asked for %d messages, got %d answers", len(ids), len(dead))
		}
		if err == nil {
			for i, t := range tasks {
				if dead[i] {
					t.ends(tidemill.Done)
					t.end.Fate, t.end.Cause, t.buried = tidemill.Dead, "it has a dead letter", true
				}
			}
			return
		}
		if !l.again(ctx, "ask for dead letters", err, wrong) {
			for _, t := range tasks {
				t.giveBack(e.traits.Delays, 0)
			}
			return
		}
	}
}

// again waits after an error that is to be repeated until it passes, and returns false
// when time is up.
func (l *lane) again(ctx context.Context, doing string, err error, wrong int) bool {
	if ctx.Err() == nil {
		l.e.trouble(doing, err)
		l.clock.wait(ctx, l.e.p.Backoff.Wait(wrong, l.rand.Float64()))
	}
	return ctx.Err() == nil
}

// judge decides how each message of an attempt ends, and reports to the breaker. Messages
// that are to be tried again and cannot go back to the source are made live; judge returns
// how long they have to wait.
func (l *lane) judge(ctx context.Context, todo []*Task, pass policy.Pass) time.Duration {
	e := l.e
	var all results
	failures, timeUp := false, ctx.Err() != nil
	for _, t := range todo {
		switch {
		case t.state == live:
			t.state, t.end.Fate = ended, tidemill.Delivered
			all.ok++
		case t.end.Fate == tidemill.Delivered, t.end.End == tidemill.Left: // ended by the work: a failed task has neither
			all.ok++
		case t.state == failed && timeUp: // does not count as a failure
			t.giveBack(e.traits.Delays, 0)
		case t.state == failed:
			rule := l.decide(t, pass.Probe) // sets the kind
			all.add(rule, t.end.Kind, t.err)
			failures = true
		}
		if t.end.Fate == tidemill.Delivered && len(t.end.Next) > 0 {
			l.name(t)
		}
	}
	if failures {
		l.countFailures()
	}
	now := e.p.Now()
	news, wake, held := e.gate.leave(now, pass, all, l.rand.Float64())
	if news {
		state, until, _ := e.gate.look(now)
		stands := state.String()
		if state == policy.Closed && !until.IsZero() {
			stands = "held" // the destination asked for less, or is full
		}
		if stands == policy.Closed.String() {
			// Logged when the breaker of a pipeline closes: everything passes again.
			e.p.Log.Info("the breaker closed", "pipeline", e.p.Name, "state", stands)
		} else {
			// Logged when the breaker of a pipeline opens (`open`), lets one batch try (`half_open`), or lets
			// nothing pass for a while because the destination asked for less or is full (`held`).
			// To do: see what `why` says about the destination; when it answers again, the breaker closes
			// by itself.
			e.p.Log.Warn("the breaker lets nothing pass", "pipeline", e.p.Name, "state", stands, "until", until, "why", all.why)
		}
	}
	switch {
	case wake:
		e.gateChanged()
	case held:
		signal(e.tending)
	}
	wait := time.Duration(0)
	for _, t := range todo {
		if t.end.End == tidemill.Again && (e.holds || !timeUp && e.turns != nil && e.turns.needs(t)) {
			wait = max(wait, t.end.After, time.Millisecond)
			t.begin()
		}
	}
	return wait
}

// countFailures adds the failures since the last time to the stats.
func (l *lane) countFailures() {
	l.e.stats.failed(&l.failures, l.failure, l.e.p.Now())
	clear(l.failures[:])
	l.failure = ""
}

// probesAtMost is how often a message that cannot go back to its source probes a broken
// destination before its failures count as its own. So in an outage hardly any message
// dies, and a message that breaks the destination by itself does not stop the lane for
// ever.
const probesAtMost = 20

// decide turns a failure into an end, by the one table, and returns its rule. A failed probe is
// a try like any other where tries are counted and its message goes back to the source: another
// message probes next, and a message that always fails ends. Otherwise the failure is the
// destination's, not the message's.
func (l *lane) decide(t *Task, probe bool) policy.Rule {
	e, err := l.e, t.err
	kind := tidemill.KindOf(err)
	rule := ruleOf(e.p.Rules, kind, t.harmless)
	rule.Blames = rule.Blames && !unasked(err)
	t.attempts = max(t.attempts, 1)
	l.failures[min(kind, tidemill.Unknown)]++
	t.set(ended, err, tidemill.Done)
	t.end.Kind, t.end.Cause, t.end.Answer = kind, err.Error(), t.answer
	if rule.Do != policy.Skip {
		l.failure = t.end.Cause
	}
	switch rule.Do {
	case policy.Skip:
		t.end.Fate = tidemill.Skipped
	case policy.Pause:
		t.end.End, t.end.After = tidemill.Again, e.p.PauseFor
		if e.gate.trip(e.p.Now(), e.p.PauseFor, t.end.Cause) {
			// Logged when the destination does not accept our credentials; the pipeline rests, and
			// tries again after a while.
			// To do: correct the user, password, key or rights that the error names; then it goes on
			// by itself.
			e.p.Log.Error("paused: the destination refuses us", "pipeline", e.p.Name, "kind", kind.String(), "error", t.end.Cause, "again_in", e.p.PauseFor)
			e.gateChanged()
		}
	case policy.Retrying:
		d, more := e.p.Retry.Next(t.Tries, l.rand.Float64())
		probe = probe && rule.Blames
		counts := rule.CountTry && e.p.Retry.Tries > 0 && !e.holds
		switch {
		case probe && counts && more:
			t.end.End, t.end.After, t.end.CountTry = tidemill.Again, max(d, wish(err), e.gate.nextProbe()), true
		case probe && !counts && (!e.holds || t.probes < probesAtMost):
			t.probes++
			t.end.End = tidemill.Again
			t.end.CountTry = e.p.Retry.Tries == 0 && e.p.Handouts != unlimited // costs no budget, and tells Handouts that the message killed nothing
			if !e.holds {
				t.end.After = e.gate.nextProbe()
			}
		case !rule.CountTry:
			t.end.End, t.end.After = tidemill.Again, max(e.p.Retry.Wait(1, l.rand.Float64()), wish(err), paceAtLeast)
		case more:
			t.end.End, t.end.After, t.end.CountTry = tidemill.Again, max(d, wish(err)), true
		default:
			t.end.Fate = tidemill.Dead
		}
	default:
		t.end.Fate = tidemill.Dead
	}
	return rule
}
