package deadlettertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

var replayCases = []testcase{
	{name: "hands out only what a replay was asked for, oldest first", reason: "dead letters wait for a decision", do: func(t *testing.T, f fixture) {
		f.fill(t, 5)
		s := f.Store.Open("p")
		empty(t, s)
		f.replay(t, deadletter.Filter{IDs: []string{"id4", "id1", "id2"}}, 3)
		var got []string
		for len(got) < 3 {
			for _, m := range receive(t, s, 2) {
				got = append(got, m.ID)
			}
		}
		if fmt.Sprint(got) != "[id1 id2 id4]" {
			t.Errorf("received %v", got)
		}
		empty(t, s)
		empty(t, f.Store.Open("q"))
	}},
	{name: "hands out the message as it came, counted anew, with its row", reason: "a replay must deliver what was meant, and need not repeat work", do: func(t *testing.T, f fixture) {
		l := f.letter("", 0)
		l.Message, l.Row = hostile(), []byte("row\x00\xff")
		l.Message.Header = append(l.Message.Header, tidemill.Field{Name: []byte(deadletter.RowHeader), Value: []byte("forged")})
		plain := f.letter("plain", 2)
		plain.Message.Header = []tidemill.Field{{Name: []byte(deadletter.RowHeader), Value: []byte("forged")}, {Name: []byte("n"), Value: []byte("v")}}
		f.put(t, l, plain)
		f.replay(t, deadletter.Filter{}, 2)
		got := receive(t, f.Store.Open("p"), 2)
		if len(got) != 2 {
			t.Fatalf("received %d", len(got))
		}
		want := hostile()
		want.Tries, want.Handed, want.Mark = 0, 1, got[0].Mark
		want.Header = append(want.Header, tidemill.Field{Name: []byte(deadletter.RowHeader), Value: []byte("row\x00\xff")})
		if err := same(got[0], want); err != nil {
			t.Error(err)
		}
		if got[1].Get(deadletter.RowHeader) != nil || string(got[1].Get("n")) != "v" {
			t.Errorf("header %q: want no row that came from outside", got[1].Header)
		}
		clear(got[0].Payload) // the engine's memory, not the store's
		clear(got[0].Header[0].Value)
		if err := same(&f.list(t, deadletter.Filter{})[0].Message, l.Message); err != nil {
			t.Errorf("the letter itself: %v", err)
		}
	}},
	{name: "replays a snapshot: letters that die later are not part of it", reason: "a replay that feeds itself never ends", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		s := f.Store.Open("p")
		f.replay(t, deadletter.Filter{Pipeline: "p"}, 2)
		f.put(t, f.letter("late", 10))
		for range 2 {
			settle(t, s, receive(t, s, 1)[0], dead, tidemill.Applied)
		}
		empty(t, s)
		f.replay(t, deadletter.Filter{Pipeline: "p", Max: 2}, 2)
	}},
	{name: "keeps what the destination said to each replay", reason: "the newest answer says what to mend, not the first", do: func(t *testing.T, f fixture) {
		l := f.letter("id", 0)
		l.Row = []byte("at first")
		f.put(t, l)
		s := f.Store.Open("p")
		for _, answer := range [][]byte{nil, []byte("then"), {}, []byte("at last")} {
			f.replay(t, deadletter.Filter{}, 1)
			m := receive(t, s, 1)[0]
			settle(t, s, m, tidemill.Settlement{Fate: tidemill.Dead, Answer: answer}, tidemill.Applied)
		}
		got := f.list(t, deadletter.Filter{})[0]
		var said []string
		for _, h := range got.History {
			said = append(said, fmt.Sprintf("%q %v", h.Answer, h.Answer == nil))
		}
		if want := `["" true "" true "then" false "" false "at last" false]`; fmt.Sprint(said) != want || string(got.Answer()) != "at last" || string(got.Row) != "at first" {
			t.Errorf("it said %v, %q, want %v", said, got.Answer(), want)
		}
		l.Row = []byte("to a job")
		f.clock.Advance(time.Second)
		l.At = f.clock.Now()
		f.put(t, l)
		if got := f.list(t, deadletter.Filter{})[0]; string(got.Answer()) != "to a job" {
			t.Errorf("after it died once more: %q", got.Answer())
		}
	}},
	{name: "does not ask twice for what is replaying", reason: "a double click is one replay", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		f.replay(t, deadletter.Filter{Max: 1}, 1)
		f.replay(t, deadletter.Filter{}, 1)
		f.replay(t, deadletter.Filter{}, 0)
		if n := len(receive(t, f.Store.Open("p"), 10)); n != 2 {
			t.Errorf("received %d, want 2", n)
		}
	}},
	{name: "passes over letters that were replayed often enough", reason: "a regular replay of the oldest must come to the others", do: func(t *testing.T, f fixture) {
		f.fill(t, 4)
		s := f.Store.Open("p")
		for round, want := range []string{"[id0 id1]", "[id0 id1]", "[id2 id3]", "[id2 id3]"} {
			f.replay(t, deadletter.Filter{Max: 2, Replays: 2}, 2)
			ms := receive(t, s, 2)
			if got := fmt.Sprint([]string{ms[0].ID, ms[1].ID}); got != want {
				t.Errorf("round %d: %s, want %s", round, got, want)
			}
			for _, m := range ms {
				settle(t, s, m, dead, tidemill.Applied)
			}
		}
		f.replay(t, deadletter.Filter{Max: 2, Replays: 2}, 0)
	}},
	{name: "replays thousands", reason: "a destination that was down for a day", do: func(t *testing.T, f fixture) {
		const n = 2500
		f.fill(t, n)
		f.replay(t, deadletter.Filter{Pipeline: "p"}, n)
		s := f.Store.Open("p")
		seen := map[string]bool{}
		for len(seen) < n {
			ms := receive(t, s, 600)
			ends := make([]tidemill.Settlement, len(ms))
			for i, m := range ms {
				if seen[m.ID] {
					t.Fatalf("%s was handed out twice", m.ID)
				}
				seen[m.ID] = true
				ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
			}
			if err := s.Settle(t.Context(), ends); err != nil {
				t.Fatal(err)
			}
		}
		f.books(t, tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
	}},
	{name: "has the traits of what it can do", reason: "the engine decides by them", do: func(t *testing.T, f fixture) {
		if got, want := f.Store.Open("p").Traits(), (tidemill.Traits{Delays: true, Parks: true, Keep: lease / 3}); got != want {
			t.Errorf("traits %+v, want %+v", got, want)
		}
	}},
	{name: "holds a letter again that dies by another path while it replays", reason: "a replay may have gone through a queue, and its end there counts", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		f.replay(t, deadletter.Filter{}, 2)
		s := f.Store.Open("p")
		m := receive(t, s, 1)[0]
		f.clock.Advance(time.Second)
		a, b := f.letter("id0", 0), f.letter("id1", 1)
		a.Cause, b.Cause = "from the queue", "from the queue"
		f.put(t, a, b)
		settle(t, s, m, delivered, tidemill.Stale)
		empty(t, s)
		got := f.list(t, deadletter.Filter{})
		if got[0].State != deadletter.Held || got[0].Replays != 1 || len(got[0].History) != 2 || got[0].Cause != "from the queue" {
			t.Errorf("the one handed out: %+v", got[0])
		}
		if got[1].State != deadletter.Held || got[1].Replays != 0 {
			t.Errorf("the one not handed out: %+v", got[1])
		}
		f.replay(t, deadletter.Filter{}, 2)
		settle(t, s, m, delivered, tidemill.Stale) // an old replay's answer
		for _, m := range receive(t, s, 2) {
			settle(t, s, m, delivered, tidemill.Applied)
		}
		f.books(t, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	}},
}

var durableCases = []testcase{
	{name: "goes on after a restart: letters, replays asked for, books", reason: "what was given up is given up durably, and so is the decision to try again", do: func(t *testing.T, f fixture) {
		l := f.letter("", 0)
		l.Message, l.Row = hostile(), []byte{0, 0xff}
		f.put(t, l)
		f.fill(t, 5)
		f.edit(t, named("id3"), "mended")
		f.edit(t, named("id4"), "mended")
		f.replay(t, deadletter.Filter{IDs: []string{"id0", "id1", "id2", "id3"}}, 4)
		s := f.Store.Open("p")
		ms := receive(t, s, 3)
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[1], dead, tidemill.Applied)
		before := f.list(t, deadletter.Filter{})
		f.Store = f.Reopen(t)
		after := f.list(t, deadletter.Filter{})
		if fmt.Sprintf("%+v", deref(after)) != fmt.Sprintf("%+v", deref(before)) {
			t.Errorf("got  %+v\nwant %+v", deref(after), deref(before))
		}
		if f.Shared {
			f.clock.Advance(lease)
		}
		s = f.Store.Open("p")
		got := receive(t, s, 10) // id2 too: its holder died with the process
		if len(got) != 2 || got[0].ID != "id2" || got[0].Handed != 2 || got[1].ID != "id3" || got[1].Handed != 1 || string(got[1].Payload) != "mended" {
			t.Fatalf("received %d: %+v", len(got), got[0])
		}
		settle(t, s, ms[2], delivered, tidemill.Stale)
		settle(t, s, got[0], delivered, tidemill.Applied)
		f.books(t, tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 2}, Pending: 4})
		last := after[len(after)-1].Seq
		f.put(t, f.letter("new", 99))
		if ls := f.list(t, deadletter.Filter{IDs: []string{"new"}}); ls[0].Seq <= last {
			t.Errorf("Seq %d after %d", ls[0].Seq, last)
		}
	}},
}

func deref(ls []*deadletter.Letter) (out []deadletter.Letter) {
	for _, l := range ls {
		out = append(out, *l)
	}
	return out
}
