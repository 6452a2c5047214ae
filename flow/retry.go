package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// try runs one stage over todo until each of its items has passed or ended, with the
// stage's retry in place. failed is how many tries of these items failed before.
func (w *steps[T]) try(ctx context.Context, st *Stage[T], todo []*Item[T], failed int) {
	for paced := 0; ; {
		if todo = alive(todo); len(todo) == 0 {
			return
		}
		if ctx.Err() != nil {
			fail(st, todo, context.Cause(ctx), failed)
			return
		}
		err := w.call(ctx, st, todo)
		if err == nil {
			return
		}
		if ctx.Err() != nil { // time was up: the error may come only from that
			fail(st, alive(todo), err, failed)
			return
		}
		burnt, after := false, time.Duration(0)
		if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
			todo, burnt, after = w.partly(st, todo, partly, failed)
			if len(todo) == 0 {
				return
			}
		} else {
			todo = alive(todo)
			err = st.kind(err)
			kind := tidemill.KindOf(err)
			if rejected(kind) && len(todo) > 1 { // find the one message to blame: halves, in order
				half := len(todo) / 2
				w.try(ctx, st, todo[:half], failed)
				w.try(ctx, st, todo[half:], failed)
				return
			}
			var again bool
			if again, burnt = w.again(st, kind, failed); !again {
				fail(st, todo, err, failed+1)
				return
			}
			after = wish(err)
		}
		var d time.Duration
		if burnt {
			failed++
			d = st.Retry.Wait(failed, w.random())
		} else {
			if paced++; after == 0 {
				d = max(st.Retry.Wait(min(paced, paceGrows), w.random()), paceAtLeast)
			}
		}
		w.clock.wait(ctx, max(d, after, time.Millisecond))
	}
}

// Waits are not counted where a destination asks for less without saying how long: they
// must not be short, and must not grow for ever.
const (
	paceAtLeast = time.Second
	paceGrows   = 6
)

// partly ends the items that a Partial names and that are not tried again, and returns
// those that are, in order: only these are not durable.
func (w *steps[T]) partly(st *Stage[T], todo []*Item[T], p *tidemill.Partial, failed int) (again []*Item[T], burnt bool, after time.Duration) {
	errs := make([]error, len(todo))
	for _, f := range p.Failed {
		if f.Index < 0 || f.Index >= len(todo) { // then no index can be trusted
			fail(st, todo, tidemill.Fail(tidemill.Internal, "message %d of a batch of %d failed: %w", f.Index, len(todo), st.kind(f.Err)), failed+1)
			return nil, false, 0
		}
		errs[f.Index] = st.kind(f.Err)
	}
	for i, err := range errs {
		if err == nil || !todo[i].Live() {
			continue
		}
		more, burns := w.again(st, tidemill.KindOf(err), failed)
		if !more {
			fail(st, todo[i:i+1], err, failed+1)
			continue
		}
		again = append(again, todo[i])
		burnt, after = burnt || burns, max(after, wish(err))
	}
	return again, burnt, after
}

// again says whether a failure of that kind is tried again in place, and whether that
// counts a try.
func (w *steps[T]) again(st *Stage[T], k tidemill.Kind, failed int) (again, burns bool) {
	if st.Retry.Tries == 0 || rejected(k) {
		return false, false
	}
	r := ruleOf(w.env.Rules, k, st.Repeat)
	if r.Do != policy.Retrying {
		return false, false
	}
	_, more := st.Retry.Next(failed, 0)
	return more || !r.CountTry, r.CountTry
}

// call is one call of a stage.
func (w *steps[T]) call(ctx context.Context, st *Stage[T], items []*Item[T]) (err error) {
	if st.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, st.Timeout)
		defer cancel()
	}
	n, start := len(items), time.Time{}
	if w.env.Observe != nil {
		start = w.env.Now()
	}
	defer func() {
		if p := recover(); p != nil {
			err = panicked(w.env.Log, st.Name, p)
		}
		if w.env.Observe != nil {
			w.env.Observe(st.Name, n, w.env.Now().Sub(start), err)
		}
	}()
	return st.Do(ctx, items)
}

func (w *steps[T]) random() float64 {
	if w.env.Rand == nil {
		return 0
	}
	return w.env.Rand.Float64()
}

// kind makes a missed deadline an unknown outcome where the stage may not be repeated.
func (st *Stage[T]) kind(err error) error {
	if err == nil {
		return tidemill.Fail(tidemill.Internal, "failed without an error")
	}
	if _, named := errors.AsType[*tidemill.Error](err); !named && !st.Repeat && tidemill.KindOf(err) == tidemill.Timeout {
		return &tidemill.Error{Kind: tidemill.Unknown, Err: err}
	}
	return err
}

// fail ends the items still live. An error's text begins with the stage's name.
func fail[T any](st *Stage[T], items []*Item[T], err error, tries int) {
	if st.Name != "" {
		err = fmt.Errorf("%s: %w", st.Name, err)
	}
	for _, it := range items {
		if it.Live() {
			it.Fail(err)
			it.harmless, it.attempts = st.Repeat, tries
		}
	}
}

// rejected kinds mean that nothing of a batch was done and that repeating it whole is
// useless: one of its messages is to blame.
func rejected(k tidemill.Kind) bool {
	return k == tidemill.Validation || k == tidemill.Business || k == tidemill.Internal
}

// ruleOf finds the rule of a kind; a lost answer that may be repeated counts as a timeout.
func ruleOf(t policy.Table, k tidemill.Kind, harmless bool) policy.Rule {
	if k == tidemill.Unknown && harmless {
		k = tidemill.Timeout
	}
	return t.For(k)
}

// unasked says that the destination had no part in a failure.
func unasked(err error) bool {
	e, ok := errors.AsType[*tidemill.Error](err)
	return ok && e.Unasked
}

// wish is the wait that the destination asks for, within bounds.
func wish(err error) time.Duration {
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		return min(max(e.After, 0), time.Hour)
	}
	return 0
}

// panicked makes a failure of our own out of a panic.
func panicked(log *slog.Logger, where string, p any) error {
	if log != nil {
		// Logged when code of the product, of a handler or of a step panicked; the messages it worked
		// on fail with kind internal.
		// To do: report it with its stack, or mend the handler; the messages are retried, and become
		// dead letters.
		log.Error("a panic was caught", "where", where, "panic", p, "stack", string(debug.Stack()))
	}
	if err, ok := p.(error); ok {
		return tidemill.Fail(tidemill.Internal, "panic: %w", err)
	}
	return tidemill.Fail(tidemill.Internal, "panic: %v", p)
}
