package deadlettertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// groups are those of the store, each as text.
func (f *fixture) groups(t *testing.T) (all []string) {
	t.Helper()
	g, err := f.Store.Groups(t.Context(), nil)
	if err != nil {
		t.Fatalf("Groups: %+v, %v", g, err)
	}
	for _, one := range g.Groups {
		all = append(all, fmt.Sprintf("%d %s %s %s", one.Count, one.Pipeline, one.Kind, one.Cause))
	}
	if g.Other > 0 {
		all = append(all, fmt.Sprintf("%d other", g.Other))
	}
	return all
}

func (f *fixture) grouped(t *testing.T, want ...string) {
	t.Helper()
	if got := f.groups(t); !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

// died is a dead letter with its cause.
func (f *fixture) died(id string, lo uint64, cause string) tidemill.DeadLetter {
	l := f.letter(id, lo)
	l.Cause = cause
	return l
}

var groupCases = []testcase{
	{name: "counts dead letters by pipeline, kind and cause without its numbers", reason: "a thousand dead letters of one cause are one thing to mend", do: func(t *testing.T, f fixture) {
		f.grouped(t)
		q := f.died("e", 5, "answered 503")
		q.Pipeline = "q"
		late := f.died("d", 4, "answered 503")
		late.Kind = tidemill.Timeout
		f.put(t, f.died("a", 1, "answered 500"), f.died("b", 2, "answered 503"), f.died("c", 3, "no route"), late, q)
		f.grouped(t, "2 p partner_error answered #", "1 p timeout answered #", "1 p partner_error no route", "1 q partner_error answered #")
		if g, err := f.Store.Groups(t.Context(), func(pipeline string) bool { return pipeline == "q" }); err != nil || len(g.Groups) != 1 || g.Groups[0].Pipeline != "q" || g.Other != 0 {
			t.Errorf("the groups of q are %+v, %v", g, err)
		}
	}},
	{name: "finds the dead letters of a cause", reason: "what was mended for one cause is replayed, and nothing else", do: func(t *testing.T, f fixture) {
		q := f.died("e", 5, "answered 503")
		q.Pipeline = "q"
		late := f.died("d", 4, "answered 503")
		late.Kind = tidemill.Timeout
		f.put(t, f.died("a", 1, "answered 500"), f.died("b", 2, "answered 503"), f.died("c", 3, "no route"), late, q)
		f.put(t, f.died("c", 6, "answered 404"), f.died("b", 7, "no route")) // of another one now
		f.replay(t, deadletter.Filter{IDs: []string{"d"}, Cause: "answered #"}, 1)
		seqs := map[string]int64{}
		for _, l := range f.list(t, deadletter.Filter{}) {
			seqs[l.ID] = l.Seq
		}
		for _, c := range []struct {
			by   deadletter.Filter
			want string
		}{
			{deadletter.Filter{Cause: "answered #"}, "a c d e"},
			{deadletter.Filter{Cause: "answered #", Back: true, Max: 2}, "e d"},
			{deadletter.Filter{Cause: "answered #", Pipeline: "p", Max: 2}, "a c"},
			{deadletter.Filter{Cause: "answered #", Kinds: []tidemill.Kind{tidemill.Timeout}}, "d"},
			{deadletter.Filter{Cause: "answered #", State: deadletter.Held, Pipeline: "p"}, "a c"},
			{deadletter.Filter{Cause: "answered #", IDs: []string{"a", "b", "e"}}, "a e"},
			{deadletter.Filter{Cause: "answered #", Seqs: []int64{seqs["b"], seqs["c"]}}, "c"},
			{deadletter.Filter{Cause: "answered #", Pipeline: "p", IDs: []string{"b", "c"}}, "c"},
			{deadletter.Filter{Cause: "answered #", Only: func(pipeline string) bool { return pipeline == "q" }}, "e"},
			{deadletter.Filter{Cause: "answered #", Pipeline: "p", Kinds: []tidemill.Kind{tidemill.Partner}}, "a c"},
			{deadletter.Filter{Cause: "answered #", Pipeline: "p", Kinds: []tidemill.Kind{tidemill.Timeout}, State: deadletter.Replaying}, "d"},
			{deadletter.Filter{Cause: "no route"}, "b"},
			{deadletter.Filter{Cause: "answered 500"}, ""},
		} {
			var ids []string
			for _, l := range f.list(t, c.by) {
				ids = append(ids, l.ID)
			}
			n, err := f.Store.Count(t.Context(), c.by)
			if got := strings.Join(ids, " "); got != c.want || err != nil || n != len(ids) {
				t.Errorf("by %+v: listed %q, counted %d, %v; want %q", c.by, got, n, err, c.want)
			}
		}
	}},
	{name: "moves a dead letter that dies of something else", reason: "what was mended is not shown as broken", do: func(t *testing.T, f fixture) {
		f.put(t, f.died("a", 1, "answered 500"), f.died("b", 2, "answered 500"))
		f.put(t, f.died("a", 3, "no route"))
		f.grouped(t, "1 p partner_error answered #", "1 p partner_error no route")
		f.put(t, f.died("a", 3, "no route")) // an answer was lost
		f.grouped(t, "1 p partner_error answered #", "1 p partner_error no route")
		f.put(t, f.died("a", 4, "again 1"), f.died("b", 5, "again 1"), f.died("a", 6, "again 2"))
		f.grouped(t, "2 p partner_error again #")
		f.replay(t, deadletter.Filter{IDs: []string{"a"}}, 1)
		f.grouped(t, "2 p partner_error again #") // until it has ended it is there
		s := f.Store.Open("p")
		settle(t, s, receive(t, s, 1)[0], dead, tidemill.Applied)
		f.grouped(t, "1 p business refused again", "1 p partner_error again #")
	}},
	{name: "counts right after replay, discard and edit", reason: "a count that stays is an alarm for nothing", do: func(t *testing.T, f fixture) {
		f.fill(t, 6)
		f.grouped(t, "6 p partner_error answered #")
		f.replay(t, deadletter.Filter{Max: 2}, 2)
		s := f.Store.Open("p")
		ms := receive(t, s, 2)
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[1], skipped, tidemill.Applied)
		settle(t, s, ms[1], skipped, tidemill.Stale)
		f.grouped(t, "4 p partner_error answered #")
		if err := f.Store.Edit(t.Context(), deadletter.Name{Pipeline: "p", Tenant: "t", ID: "id2"}, []byte("mended"), ""); err != nil {
			t.Fatal(err)
		}
		f.grouped(t, "4 p partner_error answered #")
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"id3"}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		f.grouped(t, "3 p partner_error answered #")
		f.clock.Advance(time.Hour)
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{Before: f.clock.Now()}); n != 3 || err != nil { // as retention does
			t.Fatal(n, err)
		}
		f.grouped(t)
	}},
	{name: "counts right when old dead letters make room", reason: "trimmed ones are gone", o: deadletter.Options{Max: 3, Trim: true}, do: func(t *testing.T, f fixture) {
		f.fill(t, 3)
		f.put(t, f.died("x", 7, "no route"), f.died("y", 8, "no route"))
		f.grouped(t, "2 p partner_error no route", "1 p partner_error answered #")
	}},
	{name: "counts causes beyond the 500th together", reason: "causes that differ for each message must not fill the store", do: func(t *testing.T, f fixture) {
		var ls []tidemill.DeadLetter
		for i := range deadletter.MaxGroups + 3 {
			ls = append(ls, f.died(fmt.Sprint("id", i), uint64(i), fmt.Sprintf("cause %c%c", 'a'+i/26, 'a'+i%26)))
		}
		f.put(t, ls[:300]...)
		f.put(t, ls[300:]...)
		if got := f.groups(t); len(got) != deadletter.MaxGroups+1 || got[deadletter.MaxGroups] != "3 other" {
			t.Fatalf("%d groups, the last %q", len(got), got[len(got)-1])
		}
		last := ls[len(ls)-1]
		for _, by := range []deadletter.Filter{{Cause: last.Cause}, {Cause: last.Cause, Pipeline: "p"}, {Cause: last.Cause, Pipeline: "p", Kinds: []tidemill.Kind{tidemill.Partner}},
			{Cause: last.Cause, Kinds: []tidemill.Kind{tidemill.Partner, tidemill.Timeout}, Back: true, Max: 5}, {Cause: last.Cause, IDs: []string{ls[0].Message.ID, last.Message.ID}}} {
			found := f.list(t, by)
			if n, err := f.Store.Count(t.Context(), by); len(found) != 1 || found[0].ID != last.Message.ID || n != 1 || err != nil {
				t.Errorf("by %+v: found %d, counted %d, %v", by, len(found), n, err)
			}
		}
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{}); n != len(ls) || err != nil {
			t.Fatal(n, err)
		}
		f.grouped(t)
		f.put(t, f.died("again", 1, "answered 500"))
		f.grouped(t, "1 p partner_error answered #")
	}},
	{name: "moves the dead letters of a cause that has no group of its own, and no others", reason: "what was mended for the 501st cause too is replayed, and nothing else", do: func(t *testing.T, f fixture) {
		causes := func(i int) string { return fmt.Sprintf("cause %c%c", 'a'+i/26, 'a'+i%26) }
		var ls []tidemill.DeadLetter
		for i := range deadletter.MaxGroups {
			ls = append(ls, f.died(fmt.Sprint("id", i), uint64(i), causes(i)))
		}
		f.put(t, ls...)
		f.put(t, f.died("a", 1001, "no route"), f.died("b", 1002, "no key"), f.died("c", 1003, "no route"), f.died("d", 1004, "no route"), f.died("e", 1005, "no route"))
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{IDs: []string{"id7"}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		f.put(t, f.died("g", 1006, "no route")) // the group that there is room for now
		by := deadletter.Filter{Pipeline: "p", Kinds: []tidemill.Kind{tidemill.Partner}, Cause: "no route"}
		f.replay(t, deadletter.Filter{Pipeline: "p", Kinds: by.Kinds, Cause: "no route", Max: 2}, 2)
		s := f.Store.Open("p")
		ms := receive(t, s, 2)
		if ms[0].ID != "a" || ms[1].ID != "c" {
			t.Errorf("replayed %s and %s", ms[0].ID, ms[1].ID)
		}
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[1], dead, tidemill.Applied) // of another cause
		var ids []string
		for _, l := range f.list(t, by) {
			ids = append(ids, l.ID)
		}
		if got := strings.Join(ids, " "); got != "d e g" {
			t.Errorf("found %q", got)
		}
		if n, err := f.Store.Delete(t.Context(), by); n != 3 || err != nil {
			t.Errorf("discarded %d, %v", n, err)
		}
		if found := f.list(t, deadletter.Filter{IDs: []string{"a", "b", "c", "d", "e", "g"}}); len(found) != 2 || found[0].ID != "b" || found[1].ID != "c" {
			t.Errorf("left are %d", len(found))
		}
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{Cause: "no key"}); n != 1 || err != nil {
			t.Errorf("discarded %d, %v", n, err)
		}
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{}); n != deadletter.MaxGroups || err != nil {
			t.Fatal(n, err)
		}
		f.grouped(t)
	}},
}
