package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// named is the name of the fixture's dead letter for a message id.
func named(id string) deadletter.Name {
	return deadletter.Name{Pipeline: "p", Tenant: "t", ID: id}
}

// versionOf is that of the fixture's dead letter for a message id, with a payload.
func versionOf(id, payload string) string {
	l := deadletter.Letter{Pipeline: "p", Message: tidemill.Message{Tenant: "t", ID: id, Payload: []byte(payload)}}
	return l.Version()
}

func (f *fixture) edit(t *testing.T, n deadletter.Name, payload string) {
	t.Helper()
	if err := f.Store.Edit(t.Context(), n, []byte(payload), ""); err != nil {
		t.Fatalf("Edit %+v: %v", n, err)
	}
}

// shows checks the payload of the only dead letter, its original, and when it was edited.
func (f *fixture) shows(t *testing.T, payload, original string, edited time.Time) *deadletter.Letter {
	t.Helper()
	l := f.one(t)
	if string(l.Payload) != payload || string(l.Original) != original || !l.Edited.Equal(edited) || l.Damaged != "" {
		t.Errorf("payload %q, originally %q, edited %v, damaged %q; want %q, %q, %v and sound", l.Payload, l.Original, l.Edited, l.Damaged, payload, original, edited)
	}
	return l
}

// has checks the payload of one of several dead letters.
func (f *fixture) has(t *testing.T, id, payload string) {
	t.Helper()
	for _, l := range f.list(t, deadletter.Filter{IDs: []string{id}}) {
		if string(l.Payload) != payload {
			t.Errorf("%s has the payload %q, want %q", id, l.Payload, payload)
		}
	}
}

var editCases = []testcase{
	{name: "an edit is what a replay sends, and the original stays beside it", reason: "a person mends a payload, and nobody may doubt later what came", do: func(t *testing.T, f fixture) {
		l := f.letter("", 0)
		l.Message, l.Row = hostile(), []byte("row\x00\xff")
		f.put(t, l, f.letter("other", 9))
		f.clock.Advance(time.Minute)
		n := deadletter.Name{Pipeline: "p", Tenant: l.Message.Tenant, ID: l.Message.ID}
		f.edit(t, n, "\x00mended\xff")
		got := f.list(t, deadletter.Filter{})
		if len(got) != 2 || string(got[1].Payload) != "payload of other" || !got[1].Edited.IsZero() {
			t.Fatalf("%d letters, the other is %+v", len(got), got[len(got)-1])
		}
		x, want := got[0], hostile()
		want.Payload = []byte("\x00mended\xff")
		if err := same(&x.Message, want); err != nil {
			t.Error(err)
		}
		if string(x.Original) != string(hostile().Payload) || !x.Edited.Equal(f.clock.Now()) || string(x.Row) != "row\x00\xff" || x.State != deadletter.Held ||
			len(x.History) != 1 || !x.Last.Equal(l.At) || x.Replays != 0 || x.Damaged != "" {
			t.Errorf("got %+v", x)
		}
		f.replay(t, deadletter.Filter{}, 2)
		s := f.Store.Open("p")
		ms := receive(t, s, 2)
		want.Tries, want.Handed, want.Mark = 0, 1, ms[0].Mark
		if err := same(ms[0], want); err != nil { // without the row: it belongs to the old payload
			t.Error(err)
		}
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[1], delivered, tidemill.Applied)
		f.books(t, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	}},
	{name: "a second edit keeps the first original, and the same edit again changes nothing", reason: "what came is one thing; an answer may be lost", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.clock.Advance(time.Minute)
		f.edit(t, named("id0"), "payload of id0")
		f.shows(t, "payload of id0", "", time.Time{})
		f.edit(t, named("id0"), "once")
		first := f.clock.Now()
		f.clock.Advance(time.Minute)
		f.edit(t, named("id0"), "once")
		f.shows(t, "once", "payload of id0", first)
		f.edit(t, named("id0"), "twice")
		f.shows(t, "twice", "payload of id0", f.clock.Now())
		f.edit(t, named("id0"), "payload of id0")
		f.shows(t, "payload of id0", "payload of id0", f.clock.Now())
	}},
	{name: "nothing may be edited, and edited to nothing", reason: "an empty payload is a payload", do: func(t *testing.T, f fixture) {
		l := f.letter("x", 0)
		l.Message.Payload = nil
		f.put(t, l)
		f.edit(t, named("x"), "something")
		f.shows(t, "something", "", f.clock.Now())
		f.edit(t, named("x"), "")
		f.shows(t, "", "", f.clock.Now())
		f.put(t, l) // the same failure
		f.shows(t, "", "", f.clock.Now())
	}},
	{name: "an edit keeps nothing of the caller's memory", reason: "a request's buffer is used again", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		b := []byte("mended")
		if err := f.Store.Edit(t.Context(), named("id0"), b, ""); err != nil {
			t.Fatal(err)
		}
		clear(b)
		for range 2 { // nor does it expose its own memory
			l := f.shows(t, "mended", "payload of id0", f.clock.Now())
			clear(l.Payload)
			clear(l.Original)
		}
	}},
	{name: "refuses to edit what is replaying, and what is not there", reason: "what is on its way must not change under who delivers it", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		for _, n := range []deadletter.Name{{}, named("unknown"), {Pipeline: "q", Tenant: "t", ID: "id0"}, {Pipeline: "p", Tenant: "u", ID: "id0"}} {
			if err := f.Store.Edit(t.Context(), n, []byte("x"), ""); !errors.Is(err, deadletter.ErrNotFound) || tidemill.KindOf(err) != tidemill.NotFound {
				t.Errorf("Edit %+v: %v, want ErrNotFound of kind not_found", n, err)
			}
		}
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		for range 2 { // asked for, then handed out
			if err := f.Store.Edit(t.Context(), named("id0"), []byte("x"), ""); !errors.Is(err, deadletter.ErrReplaying) || tidemill.KindOf(err) != tidemill.Transient {
				t.Errorf("Edit while it is replaying: %v, want ErrReplaying of kind transient", err)
			}
			if m := receive(t, s, 1)[0]; string(m.Payload) != "payload of id0" {
				t.Errorf("received %q", m.Payload)
			}
			f.clock.Advance(lease)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Store.Edit(ctx, named("id0"), []byte("x"), ""); !errors.Is(err, context.Canceled) {
			t.Errorf("Edit: %v, want the context's error", err)
		}
		f.shows(t, "payload of id0", "", time.Time{})
	}},
	{name: "an edit of what was seen is refused once it is another", reason: "two people mend one letter, and the second has not seen what the first did", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		ctx, seen := t.Context(), f.list(t, deadletter.Filter{})[0].Version()
		if seen == "" || seen != versionOf("id0", "payload of id0") || seen == versionOf("id1", "payload of id0") {
			t.Fatalf("the version is %q: want one of its name and payload", seen)
		}
		change := func(to, seen string, want error) {
			t.Helper()
			if err := f.Store.Edit(ctx, named("id0"), []byte(to), seen); !errors.Is(err, want) || want != nil && tidemill.KindOf(err) != tidemill.Transient {
				t.Fatalf("Edit to %q: %v, want %v", to, err, want)
			}
		}
		change("of the first", seen, nil)
		change("of the second", seen, deadletter.ErrChanged)
		change("of the first", seen, nil) // again: its answer was lost
		f.has(t, "id0", "of the first")
		change("of the second", versionOf("id0", "of the first"), nil)
		change("of the third", "nonsense", deadletter.ErrChanged)
		f.has(t, "id0", "of the second")
		change("payload of id0", "", nil) // whatever it is
		f.clock.Advance(time.Minute)
		l := f.letter("id0", 9) // dies again, as it was seen: its history is not what is edited
		f.put(t, l)
		change("of the fourth", seen, nil)
		f.replay(t, deadletter.Filter{IDs: []string{"id0"}}, 1)
		change("of the fifth", seen, deadletter.ErrReplaying)
	}},
	{name: "an edited letter whose replay fails keeps its edit, its original and its history", reason: "the next to look has to see what was tried", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.edit(t, named("id0"), "mended")
		edited := f.clock.Now()
		f.clock.Advance(time.Minute)
		f.replay(t, deadletter.Filter{}, 1)
		s := f.Store.Open("p")
		settle(t, s, receive(t, s, 1)[0], dead, tidemill.Applied)
		if l := f.shows(t, "mended", "payload of id0", edited); l.Replays != 1 || len(l.History) != 2 || l.State != deadletter.Held {
			t.Errorf("got %+v", l)
		}
		f.edit(t, named("id0"), "mended better")
		f.replay(t, deadletter.Filter{}, 1)
		m := receive(t, s, 1)[0]
		if string(m.Payload) != "mended better" {
			t.Errorf("received %q", m.Payload)
		}
		settle(t, s, m, delivered, tidemill.Applied)
		f.books(t, tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
	}},
	{name: "an edited letter that dies by another path is still edited if that is what died", reason: "a replay may go through a queue; another message of the name is another message", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		f.edit(t, named("id0"), "mended")
		edited := f.clock.Now()
		f.put(t, f.letter("id0", 0)) // the same failure: its answer was lost
		f.shows(t, "mended", "payload of id0", edited)
		f.clock.Advance(time.Minute)
		l := f.letter("id0", 5)
		l.Message.Payload, l.Row = []byte("mended"), []byte("row")
		f.put(t, l)
		if x := f.shows(t, "mended", "payload of id0", edited); len(x.History) != 2 || x.Mark.Lo != 5 || string(x.Row) != "row" {
			t.Errorf("got %+v", x)
		}
		f.clock.Advance(time.Minute)
		again, last := f.letter("id0", 6), f.letter("id0", 7)
		again.Message.Payload, last.Message.Payload, last.Cause = []byte("mended"), []byte("another"), "another"
		f.put(t, again, last) // in one call
		if x := f.shows(t, "another", "", time.Time{}); len(x.History) != 4 {
			t.Errorf("got %+v", x)
		}
		f.books(t, tidemill.Books{Accepted: 4, Pending: 1, Settled: tidemill.Count{Skipped: 3}})
	}},
	{name: "a row that is the payload is edited with it", reason: "of an entry that another program wrote there is nothing else to send", do: func(t *testing.T, f fixture) {
		l := f.letter("x", 0)
		l.Message.Payload, l.Row = []byte(`{"a":1}`), []byte(`{"a":1}`)
		f.put(t, l)
		f.edit(t, named("x"), `{"a":2}`)
		if x := f.shows(t, `{"a":2}`, `{"a":1}`, f.clock.Now()); string(x.Row) != `{"a":2}` {
			t.Errorf("row %q", x.Row)
		}
		f.replay(t, deadletter.Filter{}, 1)
		if m := receive(t, f.Store.Open("p"), 1)[0]; string(m.Get(deadletter.RowHeader)) != `{"a":2}` || string(m.Payload) != `{"a":2}` {
			t.Errorf("received %q, row %q", m.Payload, m.Get(deadletter.RowHeader))
		}
	}},
	{name: "edited letters are listed, counted, trimmed and discarded like others", reason: "an edit is no way out of retention", o: deadletter.Options{Max: 3, Trim: true}, do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		for i := range 3 {
			f.edit(t, named(fmt.Sprint("id", i)), "mended")
		}
		seqs := f.list(t, deadletter.Filter{})
		if n, err := f.Store.Count(t.Context(), deadletter.Filter{Seqs: []int64{seqs[1].Seq}}); n != 1 || err != nil {
			t.Errorf("Count: %d, %v", n, err)
		}
		f.put(t, f.letter("new", 9)) // id0 is dropped
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"id1"}}); n != 1 || err != nil {
			t.Errorf("Delete: %d, %v", n, err)
		}
		if got := fmt.Sprint(f.ids(t, deadletter.Filter{})); got != "[id2 new]" {
			t.Errorf("left: %s", got)
		}
		f.books(t, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Skipped: 1}, Pending: 2, Lost: 1})
	}},
}
