// Package once makes work happen once for each key, with a ledger. Use it where the
// destination has no key of its own to tell a repetition by: purchases, partner calls,
// handlers of the user's.
//
//	guard := once.Guard{Ledger: l, Key: func(m *tidemill.Message) string { return m.Tenant + "/" + m.ID }}
//	p := flow.Pipeline{Name: "s2s", Source: source, Work: guard.Around(steps.Lane)}
//
// For each message the guard begins an entry, does the rest of the work, and ends the
// entry. What holds when the process dies:
//
//	before begin           nothing happened: it comes again and is done
//	between begin and end  it may have happened: it comes again and is held for a person,
//	                       or is done again where repeating is harmless (Repeat)
//	after end              it happened: it comes again and is delivered without being done
package once

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/ledger"
)

// Duplicate is the reason of a skip: the work of another message's key was done already.
const Duplicate = "duplicate"

// A Guard wraps work so that its effect happens once for each key. Ledger and Key are
// required. The work must neither Emit (emitted messages would be lost when the message
// comes again) nor Defer (the ack would not reach the ledger).
type Guard struct {
	Ledger ledger.Ledger

	// Key names the work that a message asks for: at most ledger.MaxKey bytes. A message
	// whose key is empty or too long fails (validation).
	Key func(*tidemill.Message) string

	// Only says which messages are guarded; the others are worked on with them, without an
	// entry. Nil: all are guarded.
	Only func(*tidemill.Message) bool

	// Anew says that a message asks for work to be done although it was done, or is held: a
	// replay that a person asked for. Nil: never.
	Anew func(*tidemill.Message) bool

	// Repeat says that doing the work twice is harmless, as the delivering stage says by
	// its own Repeat: a lost answer, or a try that was cut off, is repeated. Without it the
	// entry is held, and the message fails (unknown).
	Repeat bool

	// Lease is how long others are kept off while the work runs. Choose twice the longest
	// time that a batch takes; 0 means 1 minute. Work is not begun when half of the lease is
	// over: the message comes again. A message whose work is already running comes again
	// after a quarter of it.
	Lease time.Duration

	// Result is what the ledger keeps of finished work; nil: nothing.
	Result func(*flow.Task) []byte

	// Bare keeps the payloads of messages out of the ledger.
	Bare bool
}

// Around wraps the work of each lane. It panics if the guard has no Ledger or no Key.
func (g Guard) Around(work func(flow.Env) flow.Work) func(flow.Env) flow.Work {
	if g.Ledger == nil || g.Key == nil {
		panic("once: a guard needs a Ledger and a Key")
	}
	if g.Lease <= 0 {
		g.Lease = ledger.DefaultLease
	}
	return func(env flow.Env) flow.Work {
		call := rand.Uint64
		if env.Rand != nil {
			call = env.Rand.Uint64
		}
		return &guarded{Guard: g, next: work(env), now: env.Now, call: call, log: cmp.Or(env.Log, slog.New(slog.DiscardHandler))}
	}
}

// guarded is the work of one lane.
type guarded struct {
	Guard
	next flow.Work
	now  func() time.Time
	call func() uint64 // a random number
	log  *slog.Logger

	asked time.Time // the earliest time at which entries of the batch were begun: their leases last from then

	jobs []*job          // scratch: one for each live task that is guarded
	free []*flow.Task    // scratch: the live tasks that are not guarded
	run  []*flow.Task    // scratch: those that are worked on
	es   []*ledger.Entry // scratch: of a call
}

// job is a task with its entry.
type job struct {
	task   *flow.Task
	entry  ledger.Entry
	holder string
	first  *job // the first job of the batch with the same key; nil: this is the first
}

// Unwrap returns the work that is guarded.
func (w *guarded) Unwrap() flow.Work { return w.next }

// Do begins, works, and ends.
func (w *guarded) Do(ctx context.Context, batch []*flow.Task) error {
	defer w.forget()
	w.prepare(batch)
	if err := w.begin(ctx); err != nil {
		err = tidemill.Fail(tidemill.Transient, "begin in the ledger: %w", err)
		for _, j := range w.jobs {
			j.task.Fail(err)
		}
		w.jobs = w.jobs[:0]
	}
	w.run = w.run[:0]
	var running []*job
	for _, j := range w.jobs {
		if j.first == nil && w.admit(j) {
			w.run, running = append(w.run, j.task), append(running, j)
		}
	}
	err := w.work(ctx, running)
	for _, j := range w.jobs {
		if j.first != nil {
			w.follow(j)
		}
	}
	return err
}

// forget drops everything of the batch.
func (w *guarded) forget() {
	clear(w.jobs[:cap(w.jobs)])
	clear(w.free[:cap(w.free)])
	clear(w.run[:cap(w.run)])
	clear(w.es[:cap(w.es)])
}

// prepare makes a job of each live task.
func (w *guarded) prepare(batch []*flow.Task) {
	w.jobs, w.free = w.jobs[:0], w.free[:0]
	byKey := make(map[string]*job, len(batch))
	for _, t := range batch {
		if !t.Live() {
			continue
		}
		if w.Only != nil && !w.Only(&t.Message) {
			w.free = append(w.free, t)
			continue
		}
		j := &job{task: t, holder: position(t.Mark)}
		j.entry = ledger.Entry{Key: w.Key(&t.Message), Tenant: t.Tenant, Type: t.Type, Holder: j.holder}
		if !w.Bare {
			j.entry.Payload = t.Payload
		}
		if err := j.entry.Check(); err != nil {
			t.Fail(err)
			continue
		}
		if j.first = byKey[j.entry.Key]; j.first == nil {
			byKey[j.entry.Key] = j
		}
		w.jobs = append(w.jobs, j)
	}
}

// position names the holder: the message by its position at the source, which is the same
// at every hand-out. A message without a position has no holder.
func position(m tidemill.Mark) string {
	if m.At(tidemill.Mark{}) {
		return ""
	}
	b := strconv.AppendUint(make([]byte, 0, 24), uint64(m.Shard), 10)
	b = strconv.AppendUint(append(b, '/'), m.Hi, 10)
	return string(strconv.AppendUint(append(b, '/'), m.Lo, 10))
}

// begin opens the entries. Those to be done anew it opens a second time: not at first, so
// that a replay which did its work before a crash is recognised too.
func (w *guarded) begin(ctx context.Context) error {
	w.es = w.es[:0]
	for _, j := range w.jobs {
		if j.first == nil {
			w.es = append(w.es, &j.entry)
		}
	}
	if len(w.es) == 0 {
		return nil
	}
	if err := w.open(ctx, ledger.Begin{Lease: w.Lease}); err != nil || w.Anew == nil {
		return err
	}
	w.es = w.es[:0]
	for _, j := range w.jobs {
		e := &j.entry
		if j.first == nil && (e.State == ledger.Done || e.State == ledger.Held) && !j.own() && w.Anew(&j.task.Message) {
			e.Holder = j.holder
			w.es = append(w.es, e)
		}
	}
	if len(w.es) == 0 {
		return nil
	}
	return w.open(ctx, ledger.Begin{Lease: w.Lease, Anew: true})
}

// beginTries is how often a begin is sent, 350 ms in all: a broken connection is replaced
// by then.
const beginTries = 4

// open begins entries, and sends the same call again where that fails: a lost answer must
// not look like a try that was cut off when the message comes again.
func (w *guarded) open(ctx context.Context, o ledger.Begin) error {
	call := w.call()
	for _, e := range w.es {
		e.Call = call
	}
	for try, wait := 1, firstWait; ; try, wait = try+1, 2*wait {
		if !o.Anew {
			w.asked = w.clock()
		}
		err := w.Ledger.Begin(ctx, w.es, o)
		if err == nil || ctx.Err() != nil || try == beginTries {
			return err
		}
		_ = sleep.For(ctx, wait)
	}
}

// own says whether the entry belongs to this message.
func (j *job) own() bool { return j.holder != "" && j.entry.Holder == j.holder }

// admit says whether the work is to be done, or ends the task.
func (w *guarded) admit(j *job) bool {
	t, e := j.task, &j.entry
	switch e.State {
	case ledger.Fresh:
		return true
	case ledger.Done:
		if j.own() {
			t.Deliver() // before a crash
		} else {
			t.Skip(Duplicate)
		}
	case ledger.Held:
		t.Fail(held(e))
	default:
		t.Again(w.Lease / 4)
	}
	return false
}

// held is the failure of a task whose work is held: the destination is not asked.
func held(e *ledger.Entry) error {
	return &tidemill.Error{Kind: tidemill.Unknown, Err: errors.New("held in the ledger: " + e.Err), Unasked: true}
}

// follow ends a task whose work an earlier task of the batch asked for too.
func (w *guarded) follow(j *job) {
	switch j.first.entry.State {
	case ledger.Done:
		if w.Anew != nil && w.Anew(&j.task.Message) {
			j.task.Again(0) // it asks to do the work once more
			return
		}
		j.task.Skip(Duplicate)
	case ledger.Held:
		j.task.Fail(held(&j.first.entry))
	default:
		j.task.Again(w.Lease / 4)
	}
}

// errBroken is the failure of work that began before and never ended. It blames the process
// that was cut off, not the destination.
var errBroken = errors.New("an earlier try was cut off: it may have happened")

// work does the work of the jobs that were admitted and writes how it ended.
func (w *guarded) work(ctx context.Context, running []*job) (err error) {
	began := w.clock()
	n := 0
	for i, j := range running {
		switch {
		case j.entry.Broken && !w.Repeat:
			j.task.Fail(&tidemill.Error{Kind: tidemill.Unknown, Err: errBroken, Unasked: true})
		case max(began.Sub(w.asked), began.Round(0).Sub(w.asked.Round(0))) >= w.Lease/2: // the process stood still, or the machine slept; nothing happened so far
			j.task.Again(w.Lease / 4)
		default:
			w.run[n] = w.run[i]
			n++
		}
	}
	w.run = w.run[:n]
	w.run = append(w.run, w.free...)
	panicked := true
	defer func() {
		if panicked { // the engine repeats in halves: the try was not cut off
			err = errors.New("a panic in the work")
		}
		w.end(ctx, running, err, began)
	}()
	if len(w.run) > 0 {
		err = w.next.Do(ctx, w.run)
	}
	panicked = false
	if partly, ok := errors.AsType[*tidemill.Partial](err); ok { // its indexes are those of our batch, not of the engine's
		err = nil
		for _, f := range partly.Failed {
			if f.Index < 0 || f.Index >= len(w.run) {
				err = tidemill.Fail(tidemill.Internal, "message %d of a batch of %d failed: %w", f.Index, len(w.run), f.Err)
				continue
			}
			w.run[f.Index].Fail(f.Err)
		}
	}
	return err
}
