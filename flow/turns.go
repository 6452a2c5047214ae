package flow

import (
	"context"
	"sync"
	"sync/atomic"
)

// turns keep the order of a stage that several lanes share (Stage.InOrder). Messages are
// dealt in runs. A run is at most a batch of messages received one after the other; one lane
// works on it without other messages between. A run has its turn when all messages of older
// runs have passed: they have been through the stage, or do not take part in it, or have
// left the engine.
type turns struct {
	mu   sync.Mutex // guards all below, and the fields of runs
	open []*run     // runs whose messages have not all passed, or that get more; the oldest first
}

// A run is a group of messages that one lane gets together.
type run struct {
	lane   *lane
	closed atomic.Bool // nothing is added any more
	dealt  int
	passed int
	gone   bool          // all messages have passed
	waiter chan struct{} // the lane that waits for its turn
}

// deal gives tasks to lanes, run by run. A run ends when it is a batch, or when its lane has
// begun to work on it.
func (ts *turns) deal(e *Engine, tasks []*Task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range tasks {
		var r *run
		if n := len(ts.open); n > 0 {
			r = ts.open[n-1]
		}
		if r == nil || r.closed.Load() {
			r = &run{lane: e.pick(t)}
			ts.open = append(ts.open, r)
		}
		r.dealt++
		if r.dealt >= e.p.Batch {
			r.closed.Store(true)
		}
		t.run, t.passed, t.lane = r, false, r.lane
		r.lane.load.Add(1)
		r.lane.in.TryPut(t) // every slot has room
	}
}

// pass notes that no message waits for tasks any more.
func (ts *turns) pass(tasks []*Task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range tasks {
		if t.run != nil && !t.passed {
			t.passed = true
			t.run.passed++
		}
	}
	ts.advance()
}

// advance gives the next run its turn.
func (ts *turns) advance() {
	n := 0
	for ; n < len(ts.open); n++ {
		r := ts.open[n]
		if !r.closed.Load() || r.passed < r.dealt {
			break
		}
		r.gone = true
	}
	if n == 0 {
		return
	}
	ts.open = append(ts.open[:0], ts.open[n:]...)
	clear(ts.open[len(ts.open):cap(ts.open)])
	if len(ts.open) > 0 {
		r := ts.open[0]
		signal(r.lane.wake)
		if r.waiter != nil {
			signal(r.waiter)
		}
	}
}

// needs says that a task has not passed its place in the order yet, so it waits in its lane:
// if it left the engine, younger ones would pass it.
func (ts *turns) needs(t *Task) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return !t.passed
}

// has says whether a run has its turn.
func (ts *turns) has(r *run) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return r.gone || ts.open[0] == r
}

// wait returns when a run has its turn, or with ctx's error when ctx ends. wake is the
// caller's own, and has room for one. A lane that waits here does not count as idle: a
// hanging stage must be seen although others wait for it.
func (ts *turns) wait(ctx context.Context, r *run, wake chan struct{}) error {
	ts.mu.Lock()
	r.waiter = wake
	ts.mu.Unlock()
	for !ts.has(r) {
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
