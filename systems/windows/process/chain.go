package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Step is a processor and what its failures mean.
type Step struct {
	Processor Processor
	OnError   OnError
	Kind      record.Kind // it sees only these records; zero: all
}

// Options tune a chain; the zero value is ready to use.
type Options struct {
	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // nil: time.Now
}

// Chain runs processors in order. It is safe for concurrent use.
type Chain struct {
	steps []*step
	read  *counters
	o     Options
}

type step struct {
	Step
	counters *counters
}

// New makes a chain. Without steps records are read, and nothing else happens to them.
func New(steps []Step, o Options) (*Chain, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Chain{o: o, read: &counters{}}
	names := map[string]bool{Reading: true}
	for i, s := range steps {
		switch {
		case s.Processor == nil:
			return nil, fmt.Errorf("process chain: step %d has no processor", i+1)
		case s.Processor.Name() == "" || names[s.Processor.Name()]:
			return nil, fmt.Errorf("process chain: step %d is called %q: want a name of its own, other than %q", i+1, s.Processor.Name(), Reading)
		case s.OnError > Dead:
			return nil, fmt.Errorf("process chain: step %s: what its failures mean is none of pass, retry, dead", s.Processor.Name())
		case s.Kind != 0 && s.Kind.Fields() == 0:
			return nil, fmt.Errorf("process chain: step %s: %s is no kind of records", s.Processor.Name(), s.Kind)
		}
		names[s.Processor.Name()] = true
		c.steps = append(c.steps, &step{s, &counters{}})
	}
	return c, nil
}

// Counting is a chain whose steps go on counting where those of another chain are that have their names.
func (c *Chain) Counting(other *Chain) *Chain {
	c.read = other.read
	for _, s := range c.steps {
		for _, was := range other.steps {
			if was.Processor.Name() == s.Processor.Name() {
				s.counters = was.counters
			}
		}
	}
	return c
}

// Reading is the name of the step that reads stored records.
const Reading = "read"

// Failed is the error of a page that a processor with OnError Retry failed at: nothing more of
// the batch may be sent, and the batch has to be tried again.
type Failed struct {
	Processor string
	Err       error
}

func (f *Failed) Error() string { return "processor " + f.Processor + ": " + f.Err.Error() }
func (f *Failed) Unwrap() error { return f.Err }

// Alone reports whether the processor's service is left alone and saw none of the failed
// records, and for how long.
func (f *Failed) Alone() (after time.Duration, alone bool) {
	failed := []tidemill.Failed{{Err: f.Err}}
	if partial, ok := errors.AsType[*tidemill.Partial](f.Err); ok {
		failed = partial.Failed
	}
	for _, one := range failed {
		e, ok := errors.AsType[*tidemill.Error](one.Err)
		if !ok || !errors.Is(e, ErrAlone) {
			return 0, false
		}
		after = max(after, e.After)
	}
	return after, true
}

// Run is a chain at work on one batch.
type Run struct {
	chain   *Chain
	batch   string
	workers []Worker
	failed  error

	shown []*Item // reused
	at    []int
	saved []record.Record // of the shown items, as they were before
}

// Begin starts a batch. A Run is for one goroutine.
func (c *Chain) Begin(batch string) *Run {
	r := &Run{chain: c, batch: batch, workers: make([]Worker, len(c.steps))}
	for i, s := range c.steps {
		r.workers[i] = s.Processor.Begin(batch)
	}
	return r
}

// Page reads the items' records and sends them through the chain. Afterwards each item has its
// Fate. An error, a *Failed or the context's, concerns the batch: begin it anew. Items may be
// reused for the next page.
func (r *Run) Page(ctx context.Context, items []Item) error {
	if r.failed != nil {
		return r.failed
	}
	r.read(items)
	for i, s := range r.chain.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.step(ctx, s, r.workers[i], items); err != nil {
			r.failed = err // the workers' memory is now useless
			return err
		}
	}
	return nil
}

func (r *Run) read(items []Item) {
	dead := uint64(0)
	for i := range items {
		it := &items[i]
		it.Fate, it.Why, it.Fault = tidemill.None, "", tidemill.NoKind
		if err := record.Decode(it.Kind, it.Raw, &it.Record); err != nil {
			it.Refuse(err)
			dead++
		}
	}
	r.chain.read.records.Add(uint64(len(items)))
	r.chain.read.dead.Add(dead)
}

// step shows a page to one processor.
func (r *Run) step(ctx context.Context, s *step, w Worker, items []Item) error {
	r.shown, r.at = r.shown[:0], r.at[:0]
	for i := range items {
		if it := &items[i]; it.Fate == tidemill.None && (s.Kind == 0 || s.Kind == it.Kind) {
			r.shown, r.at = append(r.shown, it), append(r.at, i)
		}
	}
	if len(r.shown) == 0 {
		return nil
	}
	for len(r.saved) < len(r.shown) {
		r.saved = append(r.saved, record.Record{})
	}
	for i, it := range r.shown {
		r.saved[i].CopyFrom(&it.Record)
	}
	start := r.chain.o.Now()
	err := guarded(ctx, w, r.shown)
	s.counters.took.Add(int64(r.chain.o.Now().Sub(start)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		if err := r.fail(ctx, s, err, items); err != nil {
			return err
		}
	}
	s.counters.count(items, r.at)
	return nil
}

// guarded turns a panic into an error, so that one record cannot end the process.
func guarded(ctx context.Context, w Worker, items []*Item) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = tidemill.Fail(tidemill.Internal, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.Page(ctx, items)
}

// fail applies the step's OnError to the items that it failed at.
func (r *Run) fail(ctx context.Context, s *step, err error, items []Item) error {
	name := s.Processor.Name()
	failed := make(map[int]error, len(r.at)) // by the index among the shown items
	if partial, ok := errors.AsType[*tidemill.Partial](err); ok {
		for _, f := range partial.Failed {
			if f.Index < 0 || f.Index >= len(r.at) {
				return &Failed{name, tidemill.Fail(tidemill.Internal, "it says that it failed at item %d of %d", f.Index, len(r.at))}
			}
			failed[f.Index] = f.Err
		}
	} else {
		for i := range r.at {
			failed[i] = err
		}
	}
	s.counters.failed.Add(uint64(len(failed)))
	if s.OnError == Retry {
		return &Failed{name, err}
	}
	for i, at := range r.at {
		err, bad := failed[i]
		if !bad {
			continue
		}
		it := &items[at]
		it.Record.CopyFrom(&r.saved[i])
		it.Fate, it.Why, it.Fault = tidemill.None, "", tidemill.NoKind
		if s.OnError == Dead {
			it.Refuse(fmt.Errorf("processor %s: %w", name, err))
		}
	}
	// Logged when a processor failed for records of a batch; `then` says what becomes of them: `skip`,
	// `dead`.
	// To do: see whether its service is well, or correct its expression: one that fails mostly meets a
	// null.
	r.chain.o.Log.WarnContext(ctx, "a processor failed", "processor", name, "batch", r.batch, "count", len(failed), "then", s.OnError.String(), "error", err)
	return nil
}

// End ends the batch and returns the results of its processors. The error is of a processor
// with OnError Retry; other failures are logged and counted.
func (r *Run) End(ctx context.Context) ([]Result, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	var all []Result
	for i, w := range r.workers {
		e, ok := w.(Ender)
		if !ok {
			continue
		}
		s := r.chain.steps[i]
		results, err := e.End(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
		case s.OnError == Retry:
			return nil, &Failed{s.Processor.Name(), err}
		default:
			s.counters.failed.Add(1)
			// Logged when a processor failed to say its result of a batch; the records go on without.
			// To do: see whether its service is well, or correct its expression.
			r.chain.o.Log.WarnContext(ctx, "a processor failed at the end of a batch", "processor", s.Processor.Name(), "batch", r.batch, "error", err)
			continue
		}
		for _, result := range results {
			result.Processor, result.Batch = s.Processor.Name(), r.batch
			all = append(all, result)
		}
	}
	return all, nil
}
