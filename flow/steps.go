package flow

import (
	"context"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

// An Item is a task with its decoded message. Value lives until the batch is done.
type Item[T any] struct {
	*Task
	Value T
}

// A Stage does one thing to a batch: it checks, resolves, enriches or, as the last one,
// delivers. It may end single items; those left live go on.
type Stage[T any] struct {
	Name string

	// Do works on the batch. Nil: every item still live has passed. A *tidemill.Partial
	// names (by index in batch) those that have not. Any other error means that none has
	// passed. A rejected batch (validation, business, internal, or a panic) is repeated in
	// halves, so mark effects that happen one by one with Deliver one by one.
	Do func(ctx context.Context, batch []*Item[T]) error

	// InOrder says which items have an order. At most one stage has it. Where several lanes
	// work side by side, this stage handles these items in the order in which their
	// messages were received. A call waits until all messages received before its batch
	// have been through the stage, or have ended; the other stages do not wait. An ordered
	// item that comes again waits in its lane, also where the source could delay it. It
	// goes back only at a stop, and if it was handed out too often; then younger ones may
	// come before it. Nil: no order.
	InOrder func(*Item[T]) bool

	Retry   policy.Retry  // in place, of this stage alone; the zero value: the pipeline decides
	Repeat  bool          // doing it twice is harmless: a lost answer is repeated
	Timeout time.Duration // of one call; 0: none
}

// Steps is typed work: decode, then stage after stage.
type Steps[T any] struct {
	// Decode fills the T, which is zero; or, where *T has a method Reset(), has been Reset
	// and keeps its memory. Several lanes may call Decode at once.
	Decode func(*tidemill.Message, *T) error
	Stages []Stage[T]
}

// Lane makes the work of one lane, with its own memory. Use it as Pipeline.Work.
func (s Steps[T]) Lane(env Env) Work {
	if env.Now == nil {
		env.Now = time.Now
	}
	w := &steps[T]{Steps: s, env: env, clock: alarm{slot: env.Lane, of: env.slots, now: env.Now}}
	_, w.resets = any(new(T)).(resetter)
	w.wake = make(chan struct{}, 1)
	for i := range s.Stages {
		if s.Stages[i].InOrder != nil {
			w.order = &w.Stages[i]
		}
	}
	return w
}

type resetter interface{ Reset() }

// steps is the work of one lane.
type steps[T any] struct {
	Steps[T]
	env     Env
	resets  bool
	slab    []Item[T]  // one for each task of a batch
	items   []*Item[T] // live ones
	todo    []*Item[T] // items that the current stage has still to do
	clock   alarm
	order   *Stage[T] // the one with InOrder
	wake    chan struct{}
	through []*Task // scratch of turn
}

// hasOrder says that a stage has InOrder.
func (w *steps[T]) hasOrder() bool { return w.order != nil }

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
		}
		if t.Live() {
			w.items = append(w.items, it)
		}
	}
	w.passUnordered(batch)
	for i := range w.Stages {
		if w.items = alive(w.items); w.env.Order != nil && len(w.items) < len(batch) {
			w.holdBack(batch)
			w.items = alive(w.items)
		}
		w.todo = append(w.todo[:0], w.items...)
		if st := &w.Stages[i]; st == w.order {
			w.inTurn(ctx, st, batch)
		} else {
			w.try(ctx, st, w.todo, 0)
		}
	}
	return nil
}

// passUnordered lets tasks pass that have no order or have ended.
func (w *steps[T]) passUnordered(batch []*Task) {
	if w.order == nil || w.env.turns == nil {
		return
	}
	w.through = w.through[:0]
	for i, t := range batch {
		if t.Live() && w.order.InOrder(&w.slab[i]) || comesAgain(t, w.env.Rules) {
			continue
		}
		w.through = append(w.through, t)
	}
	w.env.turns.pass(w.through)
}

// waitForOlder lets items wait for an older one of their batch that comes again.
func (w *steps[T]) waitForOlder(st *Stage[T], batch []*Task) {
	held := slices.IndexFunc(batch, func(t *Task) bool { return comesAgain(t, w.env.Rules) && w.env.turns.needs(t) })
	if held < 0 {
		return
	}
	for _, it := range w.todo {
		if it.seq > batch[held].seq && st.InOrder(it) {
			it.Again(0)
		}
	}
	w.todo = alive(w.todo)
}

// inTurn runs the stage that has an order when it is the batch's turn.
func (w *steps[T]) inTurn(ctx context.Context, st *Stage[T], batch []*Task) {
	turns := w.env.turns
	if turns == nil || batch[0].run == nil {
		w.try(ctx, st, w.todo, 0)
		return
	}
	w.waitForOlder(st, batch)
	if slices.ContainsFunc(w.todo, st.InOrder) && turns.wait(ctx, batch[0].run, w.wake) != nil {
		fail(st, w.todo, context.Cause(ctx), 0)
		return
	}
	w.try(ctx, st, w.todo, 0)
	for _, t := range batch { // items that passed before do so once
		if !comesAgain(t, w.env.Rules) {
			w.through = append(w.through, t)
		}
	}
	turns.pass(w.through)
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
		return r.Do == policy.Pause || r.Do == policy.Retrying && !r.CountTry
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
