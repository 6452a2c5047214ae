package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
)

// Grace is how long a handler is waited for after its context has ended.
const Grace = 2 * time.Second

// A Runner calls handlers and returns whatever they do: they may return, panic, end their
// goroutine or hang. One Runner serves one caller, one call after the other.
//
// A handler that does not heed its context is abandoned a Grace after the context has ended.
// While it goes on the Runner abandons no other, but waits: so at most one handler hangs per
// Runner.
type Runner struct {
	Log *slog.Logger // nil: discarded

	// Before is asked immediately before each call of a handler, also for a part of Run's
	// calls. Its error becomes that of all events of the call, which is not made. Nil: all
	// calls are made.
	Before func(ctx context.Context, s *Spec, calls []*Call) error

	left <-chan result // the abandoned call; nil: none
}

// A Panic is the failure of a handler that panicked, or ended its goroutine.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("the handler panicked: %v", p.Value) }

// errExit is the Value of a Panic where a handler ended its goroutine.
var errExit = errors.New("it ended its goroutine (runtime.Goexit)")

// result is how a call ended.
type result struct {
	err  error
	over bool // it returned; else it exited
}

// Run calls the handler with the calls, in as many parts as needed, and returns the error of
// each; nil: all are done. Each error has a kind, unless ctx has ended.
func (r *Runner) Run(ctx context.Context, s *Spec, calls []*Call) []error {
	errs := make([]error, len(calls))
	bad := false
	for at := 0; at < len(calls); at += s.Many {
		end := min(at+s.Many, len(calls))
		bad = r.part(ctx, s, calls[at:end], errs[at:end]) || bad
	}
	if !bad {
		return nil
	}
	return errs
}

// part makes one call, or several for parts of it, and reports whether anything failed.
func (r *Runner) part(ctx context.Context, s *Spec, calls []*Call, errs []error) (bad bool) {
	err := error(nil)
	if r.Before != nil {
		if err = r.Before(ctx, s, calls); err != nil {
			for i := range errs {
				errs[i] = err
			}
			return true
		}
	}
	if err = r.call(ctx, s, calls); err == nil {
		return false
	}
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok {
		if err = r.partly(ctx, s, partly, errs); err == nil {
			return len(partly.Failed) > 0
		}
	}
	err = r.judge(ctx, s, err)
	if len(calls) > 1 && ctx.Err() == nil && ofEvents(tidemill.KindOf(err)) {
		half := len(calls) / 2
		bad = r.part(ctx, s, calls[:half], errs[:half])
		return r.part(ctx, s, calls[half:], errs[half:]) || bad
	}
	for i := range errs {
		errs[i] = err
	}
	return true
}

// partly applies a handler's errors of single events; an error: they make no sense.
func (r *Runner) partly(ctx context.Context, s *Spec, p *tidemill.Partial, errs []error) error {
	for _, f := range p.Failed {
		if f.Index < 0 || f.Index >= len(errs) || f.Err == nil {
			return tidemill.Fail(tidemill.Internal, "it named event %d of %d: %v", f.Index, len(errs), f.Err)
		}
	}
	for _, f := range p.Failed {
		errs[f.Index] = r.judge(ctx, s, f.Err)
	}
	return nil
}

// ofEvents reports whether a kind says something about events, not about what they need.
func ofEvents(k tidemill.Kind) bool {
	return k == tidemill.Validation || k == tidemill.NotFound || k == tidemill.Business || k == tidemill.Internal
}

// judge gives a failure its kind.
func (r *Runner) judge(ctx context.Context, s *Spec, err error) error {
	if _, ok := errors.AsType[*tidemill.Error](err); !ok && ctx.Err() != nil {
		return err // the end of ctx: not a failure
	}
	if !strings.HasPrefix(err.Error(), s.Name+": ") {
		err = fmt.Errorf("%s: %w", s.Name, err)
	}
	return named(err)
}

// call makes one call.
func (r *Runner) call(ctx context.Context, s *Spec, calls []*Call) error {
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	done := make(chan result, 1)
	go handle(within, s.Handler, calls, done)
	select {
	case res := <-done:
		return res.err
	case <-within.Done():
	}
	grace := time.NewTimer(Grace)
	defer grace.Stop()
	select {
	case res := <-done:
		return r.late(ctx, s, res)
	case <-grace.C:
	}
	if r.left != nil {
		select {
		case <-r.left:
		case res := <-done:
			return r.late(ctx, s, res)
		}
	}
	r.left = done
	// Logged when a handler goes on long after its time is over; its event fails, and the call runs
	// beside the next ones.
	// To do: mend the handler: it must return when its context ends.
	r.log().Error("a handler does not heed its context: it is left behind", "handler", s.Name, "event", calls[0].Event.ID, "type", calls[0].Event.Type, "count", len(calls))
	return r.late(ctx, s, result{err: within.Err()})
}

// late is the failure of a call that took too long, unless it succeeded after all.
func (r *Runner) late(ctx context.Context, s *Spec, res result) error {
	if res.err == nil || ctx.Err() != nil {
		return res.err
	}
	if e, ok := errors.AsType[*tidemill.Error](res.err); ok && e.Kind != tidemill.Unknown {
		return res.err
	}
	return tidemill.Fail(tidemill.Timeout, "it did not end within %v: %w", s.Timeout, res.err)
}

func (r *Runner) log() *slog.Logger {
	if r.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return r.Log
}

// handle runs the handler in a goroutine of its own, and always sends its result.
func handle(ctx context.Context, h Handler, calls []*Call, done chan<- result) {
	var res result
	defer func() {
		if p := recover(); p != nil {
			res.err = &tidemill.Error{Kind: tidemill.Internal, Err: &Panic{p, debug.Stack()}}
		} else if !res.over {
			res.err = &tidemill.Error{Kind: tidemill.Internal, Err: &Panic{errExit, debug.Stack()}}
		}
		done <- res
	}()
	res.err = h.Handle(ctx, calls)
	res.over = true
}
