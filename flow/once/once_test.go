package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

// book is a ledger that can be made to fail.
type book struct {
	ledger.Store
	begin error
	lose  int                 // answers of Begin, the next ones
	stall func(ledger.Begin)  // how long it is until it begins; nil: at once
	end   func(try int) error // nil: it works
	begun []ledger.Entry      // the first entry of each Begin
	tries int
}

func (b *book) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if len(es) > 0 {
		b.begun = append(b.begun, *es[0])
	} else {
		b.begun = append(b.begun, ledger.Entry{})
	}
	if b.begin != nil {
		return b.begin
	}
	if b.stall != nil {
		b.stall(o)
	}
	if b.lose > 0 {
		b.lose--
		lost := make([]*ledger.Entry, len(es))
		for i, e := range es {
			x := *e
			lost[i] = &x
		}
		if err := b.Store.Begin(ctx, lost, o); err != nil {
			return err
		}
		return errors.New("the answer was lost")
	}
	return b.Store.Begin(ctx, es, o)
}

func (b *book) End(ctx context.Context, es []*ledger.Entry) error {
	b.tries++
	if b.end != nil {
		if err := b.end(b.tries); err != nil {
			return err
		}
	}
	return b.Store.End(ctx, es)
}

// world is a ledger and a destination that counts effects by key.
type world struct {
	t       *testing.T
	book    *book
	effects map[string]int
	guard   once.Guard
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, book: &book{Store: tableledger.Memory(tableledger.Options{})}, effects: map[string]int{}}
	w.guard = once.Guard{Ledger: w.book, Key: func(m *tidemill.Message) string { return m.ID }, Lease: time.Minute}
	return w
}

// does is work with an effect for each message; then is what comes of it.
func (w *world) does(then func(ctx context.Context, t *flow.Task)) func(flow.Env) flow.Work {
	return func(flow.Env) flow.Work {
		return work(func(ctx context.Context, batch []*flow.Task) error {
			if len(batch) == 0 {
				w.t.Error("it is asked to do nothing")
			}
			for _, t := range batch {
				w.effects[t.ID]++
				if then != nil {
					then(ctx, t)
				}
			}
			return nil
		})
	}
}

type work func(ctx context.Context, batch []*flow.Task) error

func (w work) Do(ctx context.Context, batch []*flow.Task) error { return w(ctx, batch) }

// at is the message of that id at a position.
func at(id string, lo uint64) *flow.Task {
	return flow.NewTask(tidemill.Message{ID: id, Tenant: "t", Type: "order", Payload: []byte("payload"), Mark: tidemill.Mark{Hi: 1, Lo: lo}})
}

// do runs tasks through a new lane, as after a restart.
func (w *world) do(then func(ctx context.Context, t *flow.Task), tasks ...*flow.Task) {
	w.t.Helper()
	if err := w.guard.Around(w.does(then))(flow.Env{}).Do(w.t.Context(), tasks); err != nil {
		w.t.Fatalf("Do: %v", err)
	}
}

// entry is the ledger's entry of a key.
func (w *world) entry(key string) ledger.Entry {
	w.t.Helper()
	for e, err := range w.book.Range(context.Background(), ledger.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if e.Key == key {
			return *e
		}
	}
	return ledger.Entry{}
}

// check compares how a task ended, how often its effect happened, and what the ledger says.
func (w *world) check(t *flow.Task, want string, effects int, state ledger.State) {
	w.t.Helper()
	if got := how(t); got != want {
		w.t.Errorf("%s at %d ended as %q, want %q", t.ID, t.Mark.Lo, got, want)
	}
	if got := w.effects[t.ID]; got != effects {
		w.t.Errorf("%s happened %d times, want %d", t.ID, got, effects)
	}
	if e := w.entry(t.ID); e.State != state {
		w.t.Errorf("the ledger says of %s: %v (%s), want %v", t.ID, e.State, e.Err, state)
	}
}

// how is a task's end in words.
func how(t *flow.Task) string {
	fate, err := t.Outcome()
	s := t.Settlement()
	switch {
	case t.Live():
		return "live"
	case err != nil:
		return tidemill.KindOf(err).String()
	case s.End == tidemill.Again:
		return "again in " + s.After.String()
	case s.End == tidemill.Left:
		return "left"
	case fate == tidemill.Skipped:
		return "skipped: " + s.Cause
	}
	return fate.String()
}

func failing(err error) func(context.Context, *flow.Task) {
	return func(_ context.Context, t *flow.Task) { t.Fail(err) }
}

var refused = tidemill.Fail(tidemill.Partner, "answered 500")

func TestWorkHappensOnceForAKey(t *testing.T) {
	w := newWorld(t)
	w.guard.Result = func(t *flow.Task) []byte { return []byte("result of " + t.ID) }
	first, second := at("a", 1), at("a", 2)
	w.do(nil, first)
	w.check(first, "live", 1, ledger.Done)
	w.do(nil, second)
	w.check(second, "skipped: duplicate", 1, ledger.Done)
	if e := w.entry("a"); string(e.Result) != "result of a" || string(e.Payload) != "payload" || e.Tenant != "t" || e.Type != "order" || e.Tries != 1 || e.Holder != "0/1/1" {
		t.Errorf("entry %+v", e)
	}
}

func TestAMessageThatDidItsWorkBeforeACrashIsDelivered(t *testing.T) {
	w := newWorld(t)
	w.do(nil, at("a", 1)) // and its settlement was lost
	again := at("a", 1)
	w.do(nil, again)
	w.check(again, "delivered", 1, ledger.Done)
}

func TestACrashBetweenWorkAndEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		repeat  bool
		want    string
		effects int
		state   ledger.State
	}{
		{"is held for a person where repeating could do harm", false, "unknown", 1, ledger.Held},
		{"is repeated where that is harmless", true, "live", 2, ledger.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.guard.Repeat = c.repeat
			ctx, crash := context.WithCancel(t.Context())
			w.book.end = func(int) error { crash(); return errors.New("the process is gone") }
			if err := w.guard.Around(w.does(nil))(flow.Env{}).Do(ctx, []*flow.Task{at("a", 1)}); err != nil {
				t.Fatal(err)
			}
			w.book.end = nil
			other := at("a", 2)
			w.do(nil, other)
			w.check(other, "again in 15s", 1, ledger.Running)
			again := at("a", 1)
			w.do(nil, again)
			w.check(again, c.want, c.effects, c.state)
			if !c.repeat && !unasked(again) {
				t.Errorf("%v blames who was not asked", again.Err())
			}
		})
	}
}

// unasked says whether the destination is free of blame for a failure.
func unasked(t *flow.Task) bool {
	e, ok := errors.AsType[*tidemill.Error](t.Err())
	return ok && e.Unasked
}

func TestAGuardNeedsALedgerAndAKey(t *testing.T) {
	whole := newWorld(t).guard
	for _, g := range []once.Guard{{Ledger: whole.Ledger}, {Key: whole.Key}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", g)
				}
			}()
			g.Around(nil)
		}()
	}
}

// A message is known again by its position after an update too, and calls by numbers of the
// lane's own chance, as simulation repeats them.
func TestHowAMessageAndACallAreNamed(t *testing.T) {
	w := newWorld(t)
	task := flow.NewTask(tidemill.Message{ID: "a", Mark: tidemill.Mark{Shard: 12, Hi: 34, Lo: 56}})
	if err := w.guard.Around(w.does(nil))(flow.Env{Rand: rand.New(rand.NewPCG(1, 2))}).Do(t.Context(), []*flow.Task{task}); err != nil {
		t.Fatal(err)
	}
	if e, call := w.book.begun[0], rand.New(rand.NewPCG(1, 2)).Uint64(); e.Holder != "12/34/56" || e.Call != call {
		t.Errorf("holder %q, call %d; want 12/34/56 and %d", e.Holder, e.Call, call)
	}
}

func TestWhatIsHeldStaysHeldUntilItIsAskedForAnew(t *testing.T) {
	w := newWorld(t)
	lost := at("a", 1)
	w.do(failing(tidemill.Fail(tidemill.Unknown, "answer lost")), lost)
	w.check(lost, "unknown", 1, ledger.Held)
	for _, task := range []*flow.Task{at("a", 1), at("a", 2)} {
		w.do(nil, task)
		w.check(task, "unknown", 1, ledger.Held)
		if !strings.Contains(task.Err().Error(), "answer lost") {
			t.Errorf("failed with %q, want the cause of the hold", task.Err())
		}
		if !unasked(task) {
			t.Errorf("%v blames who was not asked", task.Err())
		}
	}
	w.guard.Anew = func(m *tidemill.Message) bool { return m.Mark.Lo >= 10 }
	replay := at("a", 10)
	w.do(nil, replay)
	w.check(replay, "live", 2, ledger.Done)
	w.do(nil, at("a", 10)) // handed out again after a crash: not anew
	again := at("a", 10)
	w.do(nil, again)
	w.check(again, "delivered", 2, ledger.Done)
	next := at("a", 11) // another replay of what is done
	w.do(nil, next)
	w.check(next, "live", 3, ledger.Done)
	one, two := at("a", 12), at("a", 13) // both decided on, in one batch
	w.do(nil, one, two)
	w.check(one, "live", 4, ledger.Done)
	w.check(two, "again in 0s", 4, ledger.Done)
}

func TestAReplayThatIsHeldAgainIsNotRepeatedByItself(t *testing.T) {
	w := newWorld(t)
	w.guard.Anew = func(*tidemill.Message) bool { return true }
	w.do(failing(tidemill.Fail(tidemill.Unknown, "answer lost")), at("a", 1))
	again := at("a", 1) // its settlement was lost
	w.do(nil, again)
	w.check(again, "unknown", 1, ledger.Held)
}

func TestALostAnswerIsRepeatedWhereThatIsHarmless(t *testing.T) {
	w := newWorld(t)
	w.guard.Repeat = true
	lost, again := at("a", 1), at("a", 1)
	w.do(failing(tidemill.Fail(tidemill.Unknown, "answer lost")), lost)
	w.check(lost, "unknown", 1, ledger.Failed)
	w.do(nil, again)
	w.check(again, "live", 2, ledger.Done)
}

func TestAFailureIsWrittenAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	failed := at("a", 1)
	w.do(failing(refused), failed)
	w.check(failed, "partner_error", 1, ledger.Failed)
	if e := w.entry("a"); e.Err != "answered 500" {
		t.Errorf("the ledger says %q", e.Err)
	}
	again := at("a", 1)
	w.do(nil, again)
	w.check(again, "live", 2, ledger.Done)
}

func TestWhatTheWorkDecidesStays(t *testing.T) {
	for _, c := range []struct {
		name  string
		then  func(context.Context, *flow.Task)
		want  string
		state ledger.State
	}{
		{"delivered one by one", func(_ context.Context, t *flow.Task) { t.Deliver() }, "delivered", ledger.Done},
		{"skipped: nothing happened, and a replay may do it", func(_ context.Context, t *flow.Task) { t.Skip("consent") }, "skipped: consent", ledger.Failed},
		{"to come again", func(_ context.Context, t *flow.Task) { t.Again(time.Second) }, "again in 1s", ledger.Failed},
		{"an ack from outside decides", func(_ context.Context, t *flow.Task) { t.Defer() }, "left", ledger.Running},
		{"emitting would be lost at a redelivery", func(_ context.Context, t *flow.Task) { t.Emit(&tidemill.Message{}) }, "internal", ledger.Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			task := at("a", 1)
			w.do(c.then, task)
			w.check(task, c.want, 1, c.state)
		})
	}
}

func TestTimeIsUp(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancelCause(t.Context())
	tasks := []*flow.Task{at("done", 1), at("refused", 2), at("cut", 3), at("caused", 4), at("unnamed", 5), at("lost", 6)}
	err := w.guard.Around(w.does(func(ctx context.Context, t *flow.Task) {
		switch t.ID {
		case "done":
			t.Deliver()
		case "refused":
			t.Fail(refused)
			stop(flow.ErrGrace)
		case "cut":
			t.Fail(fmt.Errorf("post: %w", ctx.Err()))
		case "caused":
			t.Fail(fmt.Errorf("post: %w", context.Cause(ctx)))
		case "unnamed":
			t.Fail(errors.New("the line was closed"))
		case "lost":
			t.Fail(tidemill.Fail(tidemill.Unknown, "post: %w", ctx.Err()))
		}
	}))(flow.Env{}).Do(ctx, tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.State{ledger.Done, ledger.Failed, ledger.Running, ledger.Running, ledger.Running, ledger.Held} {
		if e := w.entry(tasks[i].ID); e.State != want {
			t.Errorf("%s: the ledger says %v, want %v", tasks[i].ID, e.State, want)
		}
	}
}

func TestOnlySomeAreGuarded(t *testing.T) {
	w := newWorld(t)
	w.guard.Only = func(m *tidemill.Message) bool { return m.ID != "free" }
	first, free := at("a", 1), at("free", 2)
	w.do(nil, first, free)
	w.check(first, "live", 1, ledger.Done)
	w.check(free, "live", 1, 0)
	second, again := at("a", 3), at("free", 4)
	w.do(nil, again, second)
	w.check(second, "skipped: duplicate", 1, ledger.Done)
	w.check(again, "live", 2, 0)
	calls, ends := len(w.book.begun), w.book.tries
	w.do(nil, at("free", 7))
	w.do(nil, at("a", 8), at("free", 9))
	if len(w.book.begun) != calls+1 || w.book.tries != ends {
		t.Errorf("%d calls to begin and %d to end, want one for the guarded one and none", len(w.book.begun)-calls, w.book.tries-ends)
	}
	w.effects["free"] = 2
	w.book.begin = tidemill.Fail(tidemill.Validation, "the ledger's own trouble")
	third, more := at("b", 5), at("free", 6)
	w.do(nil, third, more)
	w.check(third, "transient", 0, 0)
	w.check(more, "live", 3, 0)
}

// TestPayloadsAreKeptOrNot: by Bare.
func TestPayloadsAreKeptOrNot(t *testing.T) {
	w := newWorld(t)
	w.do(nil, at("kept", 1))
	w.guard.Bare = true
	w.do(nil, at("bare", 2))
	if e := w.entry("kept"); string(e.Payload) != "payload" {
		t.Errorf("the payload is %q", e.Payload)
	}
	if e := w.entry("bare"); e.State != ledger.Done || e.Payload != nil {
		t.Errorf("of a bare guard: %+v", e)
	}
}
