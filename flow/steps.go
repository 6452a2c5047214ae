package flow

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// An Item is a task with what its message decodes to. Value lives until the batch is done.
type Item[T any] struct {
	*Task
	Value T
}

// A Stage does one thing to a batch: it checks, resolves, enriches or, as the last one,
// delivers. It may end single items; those left live go on.
type Stage[T any] struct {
	Name string

	// Do works on the batch. Nil: every item still live has passed. A *tidemill.Partial
	// names (by index in batch) those that have not. Any other error means that none has;
	// a batch that is rejected (validation, business, internal, or a panic) is repeated in
	// halves, so effects that go one by one are to be marked with Deliver one by one.
	Do func(ctx context.Context, batch []*Item[T]) error

	Retry   policy.Retry  // in place, of this stage alone; the zero value: the pipeline decides
	Repeat  bool          // doing it twice is harmless: a lost answer is repeated
	Timeout time.Duration // of one call; 0: none
}

// Steps is typed work: decode, then stage after stage.
type Steps[T any] struct {
	// Decode fills the T, which is zero; or, where *T has a method Reset(), which has been
	// Reset and keeps its memory. Decode may be called by several lanes at once.
	Decode func(*tidemill.Message, *T) error
	Stages []Stage[T]
}

// Lane makes the work of one lane, with memory of its own. It is what Pipeline.Work wants.
func (s Steps[T]) Lane(env Env) Work {
	if env.Now == nil {
		env.Now = time.Now
	}
	if env.Rules == nil {
		env.Rules = policy.Default()
	}
	w := &steps[T]{Steps: s, env: env, clock: alarm{slot: env.Lane, of: env.slots, now: env.Now}}
	_, w.resets = any(new(T)).(resetter)
	return w
}

type resetter interface{ Reset() }

// steps is the work of one lane.
type steps[T any] struct {
	Steps[T]
	env    Env
	resets bool
	slab   []Item[T]  // one for each task of a batch
	items  []*Item[T] // live ones
	todo   []*Item[T] // those the current stage has still to do
	clock  alarm
}

// repeatsInPlace says that a stage has a retry: New refuses a second layer of retries.
func (w *steps[T]) repeatsInPlace() bool {
	for i := range w.Stages {
		if w.Stages[i].Retry.Tries != 0 {
			return true
		}
	}
	return false
}

// Do decodes the batch and takes it from stage to stage.
func (w *steps[T]) Do(ctx context.Context, batch []*Task) error {
	if len(w.slab) < len(batch) {
		w.slab = make([]Item[T], max(len(batch), min(2*len(w.slab), w.env.Batch)))
	}
	w.items = w.items[:0]
	for i, t := range batch {
		if !t.Live() {
			continue
		}
		it := &w.slab[i]
		it.Task = t
		if err := w.decode(it); err != nil {
			t.Fail(err)
			continue
		}
		if t.Live() {
			w.items = append(w.items, it)
		}
	}
	for i := range w.Stages {
		if w.items = alive(w.items); w.env.Order != nil && len(w.items) < len(batch) {
			w.holdBack(batch)
			w.items = alive(w.items)
		}
		if len(w.items) == 0 {
			return nil
		}
		w.todo = append(w.todo[:0], w.items...)
		w.try(ctx, &w.Stages[i], w.todo, 0)
	}
	return nil
}

func (w *steps[T]) decode(it *Item[T]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(w.env.Log, "decode", p)
		}
	}()
	if w.resets {
		any(&it.Value).(resetter).Reset()
	} else {
		var zero T
		it.Value = zero
	}
	return w.Decode(&it.Message, &it.Value)
}

// holdBack makes messages wait for an older one of the same order that comes again.
func (w *steps[T]) holdBack(batch []*Task) {
	var held map[uint64]bool
	for _, t := range batch {
		switch {
		case comesAgain(t, w.env.Rules):
			if held == nil {
				held = make(map[uint64]bool)
			}
			held[w.env.Order(&t.Message)] = true
		case held != nil && t.Live() && held[w.env.Order(&t.Message)]:
			t.Again(0)
		}
	}
}

// comesAgain says whether the lane will work on the task again by itself.
func comesAgain(t *Task, rules policy.Table) bool {
	if t.state == failed {
		r := rules.For(tidemill.KindOf(t.err))
		return r.Do == policy.Pause || r.Do == policy.Retrying && !r.Burns
	}
	return t.state == ended && t.end.End == tidemill.Again
}

func alive[T any](items []*Item[T]) []*Item[T] {
	n := 0
	for _, it := range items {
		if it.Live() {
			items[n] = it
			n++
		}
	}
	return items[:n]
}
