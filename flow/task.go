package flow

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
)

// Work is what a lane does with a batch. It leaves every task live (it is delivered then)
// or ended. An error fails those still live; a *tidemill.Partial fails those that it names
// by index in batch. Work obeys ctx, starts nothing that outlives Do, and keeps nothing of
// batch.
//
// Work is not typed: a wrapper (a ledger, a tracer) wraps any. A wrapper has a method
// Unwrap() Work, so that New can look inside. One Work serves one lane and is never called
// concurrently with itself.
//
// A rejected batch (an error of kind validation, business or internal, or a panic) is
// repeated in halves, to find the one message that is to blame.
type Work interface {
	Do(ctx context.Context, batch []*Task) error
}

// A Task is one message being worked on, and how it is ending. Skip, Fail, Again, Defer and
// Deliver end it; where several are called the last one counts.
type Task struct {
	tidemill.Message
	seq      uint64 // order of receipt
	lane     *lane
	run      *run // nil: of a pipeline without turns
	passed   bool // its run need not wait for it; turns.mu guards it
	state    state
	harmless bool   // a lost answer may be repeated
	deferred bool   // an ack from outside will end it
	buried   bool   // dead, and a dead letter exists already
	attempts int    // failed tries of this hand-out
	probes   int    // failed probes of this hand-out
	row      []byte // what the work made of it so far
	answer   []byte // what the destination said
	err      error
	end      tidemill.Settlement
	span     *following // of the hand-out; nil: nobody follows it
}

type state uint8

const (
	live   state = iota
	ended        // end says how
	failed       // err says why; the pipeline decides
)

// NewTask makes a live task outside an engine, for tests of Work.
func NewTask(m tidemill.Message) *Task {
	t := &Task{Message: m}
	t.begin()
	return t
}

// begin makes the task live, as it is when work first sees it.
func (t *Task) begin() {
	t.dropEmitted()
	t.set(live, nil, tidemill.Done)
	t.harmless, t.attempts, t.row, t.answer = false, 0, nil, nil
	t.end.ID, t.end.Mark, t.end.Records = t.ID, t.Mark, tidemill.Count{}
}

// Live says that nothing has ended the task so far. A task that is live when work is done
// is delivered.
func (t *Task) Live() bool { return t.state == live }

// Err is why the task failed, or nil.
func (t *Task) Err() error { return t.err }

// Outcome is the task's state: its fate if it has one, its failure if it failed. A task
// that is live, comes back or is left has neither.
func (t *Task) Outcome() (tidemill.Fate, error) {
	if t.state == ended && t.end.End == tidemill.Done {
		return t.end.Fate, nil
	}
	return tidemill.None, t.err
}

// Settlement is the end of the task's delivery so far, for wrappers and tests. It is
// meaningful once the task is ended.
func (t *Task) Settlement() tidemill.Settlement { return t.end }

// Skip ends the message on purpose, for a reason in a few fixed words.
func (t *Task) Skip(reason string) {
	t.ends(tidemill.Done)
	t.end.Fate, t.end.Cause = tidemill.Skipped, reason
}

// Deliver says that the message is durable at its destination. A stage whose effects happen
// one by one calls it after each, so that nothing repeats them; later stages do not see the
// message.
func (t *Task) Deliver() {
	t.ends(tidemill.Done)
	t.end.Fate = tidemill.Delivered
}

// Fail says why the message could not be worked on. The kind of err decides what follows.
func (t *Task) Fail(err error) {
	if err == nil {
		err = tidemill.Fail(tidemill.Internal, "failed without an error: %w", errNil)
	}
	t.set(failed, err, tidemill.Done)
	t.end.Records = tidemill.Count{}
}

var errNil = errors.New("Fail was called with nil")

// Again hands the message back, to come again after d. It does not count a try.
func (t *Task) Again(d time.Duration) {
	t.ends(tidemill.Again)
	t.end.After = max(d, 0)
}

// Defer leaves the message pending: an ack from outside will end it.
func (t *Task) Defer() {
	t.ends(tidemill.Left)
	t.deferred = true
}

// Emit adds an outgoing message. It is stored in the same transaction as the delivery where
// the source forwards, else written to the pipeline's Emits before it. It is dropped unless
// the task is delivered. An empty ID becomes the task's ID, "/" and the number of the
// message; ids must not repeat within a task, and must be the same when the task comes
// again. m belongs to the engine until the task is settled.
func (t *Task) Emit(m *tidemill.Message) { t.end.Next = append(t.end.Next, m) }

// Emitted returns the messages emitted so far.
func (t *Task) Emitted() []*tidemill.Message { return t.end.Next }

// Row keeps what the work has made of the message so far. If the message dies, its dead
// letter has the row, so that a replay need not do that again.
func (t *Task) Row(b []byte) { t.row = b }

// Answer keeps, as Row does, what the destination said; nil: it said nothing. A source that
// parks its dead messages keeps it too, beside what was said before.
func (t *Task) Answer(b []byte) { t.row, t.answer = b, append([]byte{}, b...) }

// Tally says how the records ended that one message stands for. A later Fail drops it.
func (t *Task) Tally(c tidemill.Count) { t.end.Records = c }

func (t *Task) set(s state, err error, end tidemill.End) {
	t.state, t.err, t.deferred, t.buried = s, err, false, false
	t.end.End, t.end.Fate, t.end.Cause = end, tidemill.None, ""
	t.end.After, t.end.CountTry, t.end.Kind, t.end.Answer = 0, false, tidemill.NoKind, nil
}

// ends ends the task, which has not failed.
func (t *Task) ends(end tidemill.End) { t.set(ended, nil, end) }

// giveBack ends the task without counting a try, because time is up or its turn has not
// come.
func (t *Task) giveBack(delays bool, after time.Duration) {
	t.ends(tidemill.Left)
	if delays {
		t.end.End, t.end.After = tidemill.Again, after
	}
}
