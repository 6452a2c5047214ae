package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// hostile is a message with everything that a careless store would change.
func hostile() *tidemill.Message {
	return &tidemill.Message{
		ID: "id\x00\xff", Tenant: "tenant\xfe\x00", Type: "type\xff", To: "to\x00",
		Key:     []byte{0, 0xff, 0, 1},
		Payload: []byte("{\"n\":12345678901234567890,\"a\":1,\"a\":2}\x00\xff\xfe\r\n'\"\\"),
		Header: []tidemill.Field{{Name: []byte("a"), Value: []byte{0xff}}, {Name: []byte("a"), Value: nil}, {Name: []byte("A\x00"), Value: []byte("v\x00")},
			{Name: nil, Value: []byte("nameless")}},
		Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), At: time.Unix(0, 1).UTC(), Priority: 255, Tries: 4, Handed: 5,
		Mark: tidemill.Mark{Shard: 1<<32 - 1, Epoch: 1<<32 - 2, Hi: 1<<64 - 1, Lo: 1<<64 - 2},
	}
}

// same says where two messages differ; empty and nil count as the same.
func same(got, want *tidemill.Message) error {
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"ID", got.ID, want.ID}, {"Tenant", got.Tenant, want.Tenant}, {"Type", got.Type, want.Type}, {"To", got.To, want.To},
		{"Key", string(got.Key), string(want.Key)}, {"Payload", string(got.Payload), string(want.Payload)},
		{"Header", fmt.Sprintf("%q", got.Header), fmt.Sprintf("%q", want.Header)},
		{"Time", got.Time.UTC(), want.Time.UTC()}, {"At", got.At.UTC(), want.At.UTC()}, {"Priority", got.Priority, want.Priority},
		{"Tries", got.Tries, want.Tries}, {"Handed", got.Handed, want.Handed}, {"Mark", got.Mark, want.Mark},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			return fmt.Errorf("%s is %q, want %q", c.what, fmt.Sprint(c.got), fmt.Sprint(c.want))
		}
	}
	return nil
}

var putCases = []testcase{
	{name: "keeps every byte of a message", reason: "a dead letter is evidence, and is delivered one day", do: func(t *testing.T, f fixture) {
		l := f.letter("", 0)
		l.Message, l.Row = hostile(), []byte("row\x00\xff")
		f.put(t, l)
		got := f.one(t)
		if err := same(&got.Message, hostile()); err != nil {
			t.Error(err)
		}
		if string(got.Row) != "row\x00\xff" || got.Pipeline != "p" || got.Kind != tidemill.Partner || got.Cause != "answered 500" ||
			!got.First.Equal(l.At) || !got.Last.Equal(l.At) || got.Replays != 0 || got.State != deadletter.Held || got.Seq == 0 || got.Damaged != "" {
			t.Errorf("got %+v", got)
		}
		if len(got.History) != 1 || got.History[0].Kind != tidemill.Partner || got.History[0].Cause != "answered 500" || got.History[0].Tries != 3 || !got.History[0].At.Equal(l.At) {
			t.Errorf("history %+v", got.History)
		}
	}},
	{name: "keeps an empty message", reason: "an empty payload is a payload", do: func(t *testing.T, f fixture) {
		l := f.letter("x", 0)
		l.Message = &tidemill.Message{ID: "x"}
		f.put(t, l)
		got := f.one(t)
		if err := same(&got.Message, l.Message); err != nil {
			t.Error(err)
		}
		if got.Row != nil {
			t.Errorf("row %q, want nil", got.Row)
		}
	}},
	{name: "keeps nothing of the caller's memory", reason: "the engine reuses its messages", do: func(t *testing.T, f fixture) {
		l := f.letter("x", 0)
		l.Row, l.Message.Key, l.Message.Header = []byte("row"), []byte("key"), []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}
		f.put(t, l)
		scrub := func(m *tidemill.Message, row []byte) {
			clear(m.Payload)
			clear(m.Key)
			clear(m.Header[0].Value)
			clear(row)
		}
		scrub(l.Message, l.Row)
		for range 2 { // nor exposes its own memory
			got := f.one(t)
			if string(got.Payload) != "payload of x" || string(got.Key) != "key" || string(got.Header[0].Value) != "v" || string(got.Row) != "row" {
				t.Fatalf("got %q %q %q %q", got.Payload, got.Key, got.Header, got.Row)
			}
			scrub(&got.Message, got.Row)
			got.History[0].Cause = "changed"
		}
	}},
	{name: "keeps one letter for a message that dies twice, with its history", reason: "two letters are two replays", do: func(t *testing.T, f fixture) {
		f.fill(t, 2)
		first := f.list(t, deadletter.Filter{})[0]
		f.clock.Advance(time.Hour)
		l := f.letter("id0", 50) // accepted again at another position
		l.Kind, l.Cause, l.Tries, l.Row, l.Message.Payload = tidemill.Validation, "wrong", 1, []byte("row"), []byte("other")
		f.put(t, l)
		got := f.list(t, deadletter.Filter{})
		if len(got) != 2 {
			t.Fatalf("%d letters, want 2", len(got))
		}
		x := got[0]
		if x.Seq != first.Seq || x.Mark.Lo != 50 || string(x.Payload) != "other" || string(x.Row) != "row" || x.Kind != tidemill.Validation || x.Cause != "wrong" ||
			!x.First.Equal(first.First) || !x.Last.Equal(l.At) {
			t.Errorf("got %+v", x)
		}
		if len(x.History) != 2 || !reflect.DeepEqual(x.History[0], first.History[0]) || x.History[1].Cause != "wrong" {
			t.Errorf("history %+v", x.History)
		}
		f.books(t, tidemill.Books{Accepted: 3, Pending: 2, Settled: tidemill.Count{Skipped: 1}}) // the source has three dead
	}},
	{name: "does nothing for the same failure put again", reason: "the answer of the first Put may have been lost", do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.replay(t, deadletter.Filter{IDs: []string{"id1"}}, 1)
		f.fill(t, 3)
		for i, l := range f.list(t, deadletter.Filter{}) {
			want := deadletter.Held
			if i == 1 {
				want = deadletter.Replaying
			}
			if len(l.History) != 1 || l.State != want {
				t.Errorf("letter %d: %v with %d failures, want %v with 1", i, l.State, len(l.History), want)
			}
		}
		f.books(t, tidemill.Books{Accepted: 3, Pending: 3})
	}},
	{name: "does nothing for the same failure put again after another", reason: "whoever lost the lease may have died of it in between", do: func(t *testing.T, f fixture) {
		first, second := f.letter("x", 1), f.letter("x", 1)
		second.At = second.At.Add(time.Second)
		f.put(t, first)
		f.put(t, second)
		f.put(t, first)
		if got := f.one(t); len(got.History) != 2 || !got.Last.Equal(second.At) {
			t.Errorf("died at %v, history %+v; want 2 failures, the second the last", got.Last, got.History)
		}
		f.books(t, tidemill.Books{Accepted: 1, Pending: 1}) // one message
	}},
	{name: "takes the same failure at another position for another death", reason: "two messages of one ID may die in one batch, of one cause", do: func(t *testing.T, f fixture) {
		f.put(t, f.letter("x", 1))
		f.put(t, f.letter("x", 2))
		if got := f.one(t); got.Mark.Lo != 2 || len(got.History) != 2 {
			t.Errorf("position %d with %d failures, want 2 with 2", got.Mark.Lo, len(got.History))
		}
	}},
	{name: "keeps messages of one ID apart by tenant and pipeline", reason: "ids are their producers'", do: func(t *testing.T, f fixture) {
		a, b, c := f.letter("x", 1), f.letter("x", 2), f.letter("x", 3)
		b.Message.Tenant, c.Pipeline = "u", "q"
		f.put(t, a, b, c)
		if n := len(f.list(t, deadletter.Filter{})); n != 3 {
			t.Errorf("%d letters, want 3", n)
		}
	}},
	{name: "tells names of any length apart", reason: "names are their producers', and a store may have to shorten them", do: func(t *testing.T, f fixture) {
		var ls []tidemill.DeadLetter
		var ids []string
		for i, n := range []int{126, 127, 128, 129, 600, 10_000, 10_001} {
			for k, part := range []*string{new(string), new(string)} {
				*part = strings.Repeat("x", n)
				l := f.letter("x", uint64(2*i+k))
				if k == 0 {
					l.Message.ID = *part
				} else {
					l.Message.Tenant = *part
				}
				ls, ids = append(ls, l), append(ids, l.Message.ID)
			}
		}
		f.put(t, ls...)
		f.put(t, ls...)
		for i, l := range f.list(t, deadletter.Filter{}) {
			if i >= len(ls) || l.ID != ids[i] || l.Tenant != ls[i].Message.Tenant || len(l.History) != 1 {
				t.Errorf("number %d is %.20s… of %d bytes, tenant of %d, %d failures", i, l.ID, len(l.ID), len(l.Tenant), len(l.History))
			}
		}
		long := ids[len(ids)-2]
		if got := f.ids(t, deadletter.Filter{IDs: []string{long}}); len(got) != 1 || got[0] != long {
			t.Errorf("%d found by a long id", len(got))
		}
		if err := f.Store.Edit(t.Context(), named(long), []byte("mended"), ""); err != nil {
			t.Error(err)
		}
	}},
	{name: "finds one ID of many tenants", reason: "counters are common ids", do: func(t *testing.T, f fixture) {
		const n = 250
		var ls []tidemill.DeadLetter
		var ids []string
		var marks []tidemill.Mark
		for i := range n {
			l := f.letter("1", uint64(i))
			l.Message.Tenant = fmt.Sprint("tenant ", n-i)
			ls, ids, marks = append(ls, l), append(ids, "1"), append(marks, l.Message.Mark)
		}
		f.put(t, ls...)
		has, err := f.Store.Has(t.Context(), "p", ids, marks)
		if i := slices.Index(has, false); i >= 0 || err != nil {
			t.Errorf("that of tenant %d was not found; %v", i, err)
		}
		if k, err := f.Store.Count(t.Context(), deadletter.Filter{IDs: []string{"1"}}); k != n || err != nil {
			t.Errorf("Count: %d, %v; want %d", k, err, n)
		}
		if got := f.list(t, deadletter.Filter{IDs: []string{"1"}, Max: 2}); len(got) != 2 || got[0].Mark.Lo != 0 || got[1].Mark.Lo != 1 {
			t.Errorf("the first two are %d: %+v; want the oldest", len(got), got)
		}
		f.replay(t, deadletter.Filter{IDs: []string{"1"}, AfterSeq: f.list(t, deadletter.Filter{Max: n - 1})[n-2].Seq}, 1)
		receive(t, f.Store.Open("p"), 1)
		settle(t, f.Store.Open("p"), &tidemill.Message{ID: "1"}, delivered, tidemill.Applied) // by its ID alone: the only one that is handed out
		f.books(t, tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: 1}, Pending: n - 1})
	}},
	{name: "takes a message that is twice in one call as one letter", reason: "a batch may hold a message and its double", do: func(t *testing.T, f fixture) {
		a, b := f.letter("x", 1), f.letter("x", 2)
		b.Cause = "second"
		f.put(t, a, b)
		if got := f.one(t); got.Cause != "second" || len(got.History) != 2 || got.Mark.Lo != 2 {
			t.Errorf("got %+v", got)
		}
		f.books(t, tidemill.Books{Accepted: 2, Pending: 1, Settled: tidemill.Count{Skipped: 1}})
	}},
	{name: "keeps the newest 20 failures", reason: "a letter is bounded, however often it is replayed", do: func(t *testing.T, f fixture) {
		for i := range 25 {
			f.clock.Advance(time.Second)
			l := f.letter("x", 1)
			l.Cause = fmt.Sprint("failure ", i)
			f.put(t, l)
		}
		h := f.one(t).History
		if len(h) != deadletter.MaxHistory || h[0].Cause != "failure 5" || h[19].Cause != "failure 24" {
			t.Errorf("%d failures, %+v", len(h), h)
		}
	}},
	{name: "cuts a long cause and keeps the payload whole", reason: "an answer quoted whole must not fill the store", do: func(t *testing.T, f fixture) {
		l := f.letter("x", 1)
		l.Cause, l.Message.Payload = strings.Repeat("ä", deadletter.MaxCause), []byte(strings.Repeat("x", 3<<20))
		f.put(t, l)
		if got := f.one(t); len(got.Cause) != deadletter.MaxCause || len(got.Payload) != 3<<20 {
			t.Errorf("cause of %d bytes, payload of %d", len(got.Cause), len(got.Payload))
		}
	}},
	{name: "a large message lives like a small one, and may become one", reason: "a store may keep it elsewhere", o: deadletter.Options{Max: 3, Trim: true}, do: func(t *testing.T, f fixture) {
		large, small := strings.Repeat("large", 20_000), "small"
		sized := func(id, payload string) tidemill.DeadLetter {
			f.clock.Advance(time.Second)
			l := f.letter(id, 1)
			l.Message.Payload, l.Row = []byte(payload), []byte(payload)
			return l
		}
		shows := func(id, payload, original string) {
			t.Helper()
			for _, l := range f.list(t, deadletter.Filter{IDs: []string{id}}) {
				if string(l.Payload) != payload || string(l.Row) != payload || string(l.Original) != original || l.Damaged != "" {
					t.Errorf("%s has a payload of %d bytes, a row of %d, an original of %d, damaged %q; want %d, %d, %d", id, len(l.Payload), len(l.Row), len(l.Original), l.Damaged, len(payload), len(payload), len(original))
				}
			}
		}
		f.put(t, sized("a", large), sized("b", small), sized("c", large))
		for _, payload := range []string{large, small, large} { // each dies again, of another size
			shows("a", payload, "")
			shows("c", payload, "")
			f.put(t, sized("a", payload), sized("c", payload))
			shows("a", payload, "")
			next := map[string]string{large: small, small: large}[payload]
			f.put(t, sized("a", next), sized("c", next))
		}
		f.edit(t, named("a"), large)
		shows("a", large, small)
		f.edit(t, named("a"), "mended")
		shows("a", "mended", small)
		f.edit(t, named("b"), large)
		shows("b", large, small)
		f.replay(t, deadletter.Filter{}, 3)
		s := f.Store.Open("p")
		for _, m := range receive(t, s, 3) {
			switch m.ID {
			case "a":
				settle(t, s, m, delivered, tidemill.Applied)
			case "b":
				if string(m.Payload) != large || string(m.Get(deadletter.RowHeader)) != large {
					t.Errorf("received %d bytes with a row of %d, want %d", len(m.Payload), len(m.Get(deadletter.RowHeader)), len(large))
				}
				settle(t, s, m, dead, tidemill.Applied)
			case "c":
				settle(t, s, m, tidemill.Settlement{End: tidemill.Again}, tidemill.Applied)
			}
		}
		shows("b", large, small)
		f.put(t, sized("a", large), sized("d", large)) // b is dropped, c is replaying
		shows("a", large, "")
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"d"}}); n != 1 || err != nil {
			t.Errorf("Delete: %d, %v", n, err)
		}
		if n, err := f.Store.Count(t.Context(), deadletter.Filter{}); n != 2 || err != nil {
			t.Errorf("Count: %d, %v; want 2", n, err)
		}
		f.put(t, sized("b", large)) // nothing of the one before
		shows("b", large, "")
	}},
	{name: "refuses a letter without pipeline or message, with the whole call", reason: "nobody could find it again", do: func(t *testing.T, f fixture) {
		good, bad := f.letter("good", 1), f.letter("bad", 2)
		bad.Pipeline = ""
		if err := f.Store.Put(t.Context(), []tidemill.DeadLetter{good, bad}); err == nil {
			t.Error("no error for a letter without pipeline")
		}
		bad.Pipeline, bad.Message = "p", nil
		if err := f.Store.Put(t.Context(), []tidemill.DeadLetter{good, bad}); err == nil {
			t.Error("no error for a letter without message")
		}
		f.books(t, tidemill.Books{})
	}},
	{name: "does nothing under a context that has ended", reason: "stopping must stop", do: func(t *testing.T, f fixture) {
		f.fill(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Store.Put(ctx, []tidemill.DeadLetter{f.letter("x", 1)}); !errors.Is(err, context.Canceled) {
			t.Errorf("Put: %v, want the context's error", err)
		}
		for name, do := range map[string]func(context.Context, deadletter.Filter) (int, error){"Count": f.Store.Count, "Replay": f.Store.Replay, "Delete": f.Store.Delete} {
			if n, err := do(ctx, deadletter.Filter{}); n != 0 || err == nil {
				t.Errorf("%s: %d, %v; want an error", name, n, err)
			}
		}
		if l := f.one(t); l.ID != "id0" || l.State != deadletter.Held {
			t.Errorf("there is %+v, want what was there", l)
		}
		f.books(t, tidemill.Books{Accepted: 1, Pending: 1})
	}},
	{name: "Has finds a letter by pipeline, ID and position, whatever the lease", reason: "a letter is the fate of what lies at that position, not of another message of its name", do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.replay(t, deadletter.Filter{IDs: []string{"id2"}}, 1)
		at := func(lo uint64) tidemill.Mark { return tidemill.Mark{Shard: 7, Epoch: 99, Hi: 1, Lo: lo} }
		ids := []string{"id0", "id0", "id1", "other", "id2", "id1", "id0"}
		marks := []tidemill.Mark{at(0), at(1), at(1), at(1), at(2), {Shard: 8, Hi: 1, Lo: 1}, at(0)}
		got, err := f.Store.Has(t.Context(), "p", ids, marks)
		if want := []bool{true, false, true, false, true, false, true}; err != nil || !slices.Equal(got, want) {
			t.Errorf("Has: %v, %v; want %v", got, err, want)
		}
		got, err = f.Store.Has(t.Context(), "q", ids[:1], marks[:1])
		if err != nil || !slices.Equal(got, []bool{false}) {
			t.Errorf("Has of another pipeline: %v, %v", got, err)
		}
		if got, err = f.Store.Has(t.Context(), "p", nil, nil); err != nil || len(got) != 0 {
			t.Errorf("Has of nothing: %v, %v", got, err)
		}
		if _, err = f.Store.Has(t.Context(), "p", ids, marks[:1]); err == nil {
			t.Error("no error for ids without marks")
		}
	}},
	{name: "Has answers for a thousand at once", reason: "after a crash everything in flight comes again", do: func(t *testing.T, f fixture) {
		f.fill(t, 600)
		var ids []string
		var marks []tidemill.Mark
		for i := range 1000 {
			ids, marks = append(ids, fmt.Sprint("id", i)), append(marks, tidemill.Mark{Shard: 7, Hi: 1, Lo: uint64(i)})
		}
		got, err := f.Store.Has(t.Context(), "p", ids, marks)
		if err != nil {
			t.Fatal(err)
		}
		for i, has := range got {
			if has != (i < 600) {
				t.Fatalf("id%d: %v", i, has)
			}
		}
	}},
}
