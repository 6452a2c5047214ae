package deadlettertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var settleCases = []testcase{
	{name: "ends a letter that was delivered or skipped", reason: "the books: put = held + replayed + discarded", do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.replay(t, deadletter.Filter{Max: 2}, 2)
		s := f.Store.Open("p")
		ms := receive(t, s, 2)
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[1], skipped, tidemill.Applied)
		settle(t, s, ms[0], delivered, tidemill.Stale)
		settle(t, s, ms[1], dead, tidemill.Stale)
		if got := f.one(t); got.ID != "id2" {
			t.Errorf("left: %s", got.ID)
		}
		f.books(t, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1, Skipped: 1}, Pending: 1})
		has, err := f.Store.Has(t.Context(), "p", []string{"id0"}, []tidemill.Mark{{Shard: 7, Hi: 1, Lo: 0}})
		if err != nil || has[0] {
			t.Errorf("Has what is gone: %v, %v", has, err)
		}
		f.put(t, f.letter("id0", 0)) // dies again: a letter of its own
		f.books(t, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 1, Skipped: 1}, Pending: 2})
	}},
	{name: "holds a letter again that died in replay, one replay more", reason: "the operator sees what came of it", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		s := f.Store.Open("p")
		for i := range 3 {
			f.clock.Advance(time.Hour)
			f.replay(t, deadletter.Filter{}, 1)
			m := receive(t, s, 1)[0]
			if m.Handed != 1 || m.Tries != 0 {
				t.Errorf("replay %d: handed %d, tries %d; want both counted anew", i, m.Handed, m.Tries)
			}
			settle(t, s, m, tidemill.Settlement{End: tidemill.Again, CountTry: true}, tidemill.Applied)
			settle(t, s, receive(t, s, 1)[0], dead, tidemill.Applied)
		}
		got := f.one(t)
		if got.State != deadletter.Held || got.Replays != 3 || got.Kind != tidemill.Business || got.Cause != "refused again" || !got.Last.Equal(f.clock.Now()) ||
			len(got.History) != 4 || got.History[3].Tries != 2 || got.History[0].Kind != tidemill.Partner {
			t.Errorf("got %+v", got)
		}
		if string(got.Payload) != "payload of id0" || got.Mark.Lo != 0 || got.Mark.Shard != 7 || got.Tries != 0 {
			t.Errorf("the message changed: %+v", got.Message)
		}
		f.books(t, tidemill.Books{Accepted: 1, Pending: 1})
	}},
	{name: "names a replay's position anew, and the same at every hand-out of it", reason: "a ledger tells by it whose work was done", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		a := receive(t, s, 1)[0]
		f.clock.Advance(lease)
		b := receive(t, s, 1)[0]
		if !a.Mark.At(b.Mark) || a.Mark == b.Mark || b.Handed != 2 {
			t.Errorf("marks %+v and %+v, handed %d: want the same position, another lease, handed twice", a.Mark, b.Mark, b.Handed)
		}
		settle(t, s, b, dead, tidemill.Applied)
		f.replay(t, deadletter.Filter{}, 1)
		if c := receive(t, s, 1)[0]; c.Mark.At(b.Mark) {
			t.Errorf("marks %+v and %+v: the next replay is another acceptance", b.Mark, c.Mark)
		}
	}},
	{name: "brings back what is wanted again, not before its time, burning a try or not", reason: "retry by redelivery", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		settle(t, s, receive(t, s, 1)[0], tidemill.Settlement{End: tidemill.Again, After: time.Minute, CountTry: true}, tidemill.Applied)
		f.clock.Advance(time.Minute - time.Nanosecond)
		empty(t, s)
		f.clock.Advance(time.Millisecond)
		m := receive(t, s, 1)[0]
		if m.Tries != 1 || m.Handed != 2 {
			t.Errorf("tries %d, handed %d; want 1, 2", m.Tries, m.Handed)
		}
		settle(t, s, m, tidemill.Settlement{End: tidemill.Again}, tidemill.Applied)
		if m = receive(t, s, 1)[0]; m.Tries != 1 || m.Handed != 3 {
			t.Errorf("tries %d, handed %d; want 1, 3", m.Tries, m.Handed)
		}
		if got := f.one(t); got.State != deadletter.Replaying || got.Replays != 0 {
			t.Errorf("got %+v", got)
		}
	}},
	{name: "hands nothing out a part of a millisecond early", reason: "stores keep whole milliseconds", do: func(t *testing.T, f fixture) {
		f.clock.Advance(300 * time.Microsecond)
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		receive(t, s, 1)
		f.clock.Advance(lease - time.Nanosecond)
		empty(t, s)
		f.clock.Advance(time.Millisecond)
		settle(t, s, receive(t, s, 1)[0], tidemill.Settlement{End: tidemill.Again, After: time.Second + 500*time.Microsecond}, tidemill.Applied)
		f.clock.Advance(time.Second + 500*time.Microsecond - time.Nanosecond)
		empty(t, s)
		f.clock.Advance(time.Millisecond)
		receive(t, s, 1)
	}},
	{name: "takes what is given back once, however often it is said", reason: "the answer may be lost, and one failure burns one try", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		m := receive(t, s, 1)[0]
		back := tidemill.Settlement{End: tidemill.Again, After: time.Minute, CountTry: true}
		settle(t, s, m, back, tidemill.Applied)
		f.clock.Advance(time.Second)
		settle(t, s, m, back, tidemill.Stale)
		settle(t, s, m, delivered, tidemill.Stale)
		settle(t, s, &tidemill.Message{ID: m.ID}, delivered, tidemill.Stale) // without a holder
		f.clock.Advance(time.Minute - time.Second)
		if m := receive(t, s, 1)[0]; m.Tries != 1 || m.Handed != 2 {
			t.Errorf("tries %d, handed %d; want 1, 2", m.Tries, m.Handed)
		}
	}},
	{name: "hands out again when a lease has run out, and the old one is stale", reason: "its holder is dead or too late", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		a, b := f.Store.Open("p"), f.Store.Open("p")
		old := receive(t, a, 1)[0]
		f.clock.Advance(lease - time.Millisecond)
		empty(t, b)
		f.clock.Advance(time.Millisecond)
		now := receive(t, b, 1)[0]
		for _, end := range []tidemill.Settlement{delivered, dead, {End: tidemill.Again}, {End: tidemill.Left}} {
			settle(t, a, old, end, tidemill.Stale)
		}
		if err := a.(tidemill.Keeper).Keep(t.Context()); err != nil { // none of a's leases
			t.Fatal(err)
		}
		settle(t, b, now, delivered, tidemill.Applied)
		f.books(t, tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
	}},
	{name: "takes the settlement of a lease that ran out and was not taken over", reason: "the work was done, and nobody else began", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		m := receive(t, s, 1)[0]
		f.clock.Advance(time.Hour)
		settle(t, s, m, delivered, tidemill.Applied)
	}},
	{name: "keeps the leases of what is out, not of what was left", reason: "a slow delivery is not a dead one; what is left comes back by itself", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		f.replay(t, deadletter.Filter{}, 2)
		a, b := f.Store.Open("p"), f.Store.Open("p")
		ms := receive(t, a, 2)
		settle(t, a, ms[1], tidemill.Settlement{End: tidemill.Left}, tidemill.Applied)
		for range 4 {
			f.clock.Advance(lease / 3)
			if err := a.(tidemill.Keeper).Keep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got := receive(t, b, 2)
		if len(got) != 1 || got[0].ID != "id1" || got[0].Handed != 2 {
			t.Fatalf("received %d, the first %+v; want the one left", len(got), got[0])
		}
		settle(t, a, ms[0], delivered, tidemill.Applied)
	}},
	{name: "settles by ID alone whoever holds it", reason: "an ack from outside knows no lease", do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.replay(t, deadletter.Filter{IDs: []string{"id0", "id1"}}, 2)
		a, b := f.Store.Open("p"), f.Store.Open("p")
		receive(t, a, 1)
		for id, want := range map[string]tidemill.Outcome{"id0": tidemill.Applied, "id1": tidemill.Stale, "id2": tidemill.Stale, "unknown": tidemill.Stale} {
			settle(t, b, &tidemill.Message{ID: id}, delivered, want) // id1 is not handed out, id2 is not replaying
		}
		f.books(t, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1}, Pending: 2})
	}},
	{name: "settles each of a batch on its own, the first of two", reason: "one lost lease is one lost lease, and twice settled is once", do: func(t *testing.T, f fixture) {
		f.fill(t, 4)
		f.replay(t, deadletter.Filter{}, 4)
		s := f.Store.Open("p")
		ms := receive(t, s, 4)
		ends := []tidemill.Settlement{
			{ID: "id0", Mark: ms[0].Mark, Fate: tidemill.Delivered},
			{ID: "id0", Mark: ms[0].Mark, Fate: tidemill.Dead},
			{ID: "id1", Mark: ms[1].Mark, Fate: tidemill.Dead, Cause: "refused"},
			{ID: "id1", Mark: ms[1].Mark, Fate: tidemill.Delivered},
			{ID: "id2", Mark: tidemill.Mark{Epoch: ms[2].Mark.Epoch + 1, Hi: ms[2].Mark.Hi, Lo: ms[2].Mark.Lo}, Fate: tidemill.Delivered},
			{ID: "id3", Mark: ms[3].Mark, End: tidemill.Again, After: time.Hour},
			{ID: "id3", Mark: ms[3].Mark, Fate: tidemill.Delivered, Outcome: tidemill.Applied}, // answered before
			{ID: "none", Mark: tidemill.Mark{Epoch: 1, Hi: 1, Lo: 1 << 62}, Fate: tidemill.Delivered},
		}
		if err := s.Settle(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
		A, S := tidemill.Applied, tidemill.Stale
		for i, want := range []tidemill.Outcome{A, S, A, S, S, A, A, S} {
			if ends[i].Outcome != want {
				t.Errorf("settlement %d took %d, want %d", i, ends[i].Outcome, want)
			}
		}
		f.books(t, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 1}, Pending: 3})
		if err := s.Settle(t.Context(), nil); err != nil {
			t.Errorf("Settle of nothing: %v", err)
		}
	}},
	{name: "does not settle another pipeline's letter", reason: "marks are plain numbers", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		p, q := f.Store.Open("p"), f.Store.Open("q")
		m := receive(t, p, 1)[0]
		settle(t, q, m, delivered, tidemill.Stale)
		settle(t, p, m, delivered, tidemill.Applied)
	}},
	{name: "refuses a settlement without a fate, with the whole batch", reason: "a programming error must not pass for an end", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		m := receive(t, s, 1)[0]
		ends := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}, {ID: m.ID, Mark: m.Mark}}
		if err := s.Settle(t.Context(), ends); err == nil || ends[0].Outcome != tidemill.Unanswered {
			t.Errorf("Settle: %v, took %d; want an error and no answer", err, ends[0].Outcome)
		}
		settle(t, s, m, delivered, tidemill.Applied)
	}},
	{name: "returns with the context's error while it waits, and at once when it has ended", reason: "stopping must stop", do: func(t *testing.T, f fixture) {
		s := f.Store.Open("p")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Receive(ctx, []*tidemill.Message{{}})
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Receive: %v, want the context's error", err)
		}
		f.fill(t, 1)
		f.replay(t, deadletter.Filter{}, 1)
		if n, err := s.Receive(ctx, []*tidemill.Message{{}}); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("Receive: %d, %v; want nothing under a context that has ended", n, err)
		}
		if n, err := s.Receive(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("Receive into nothing: %d, %v", n, err)
		}
		if m := receive(t, s, 1)[0]; m.Handed != 1 {
			t.Errorf("handed %d times, want 1", m.Handed)
		}
	}},
}
