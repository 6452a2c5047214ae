package deadlettertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// owned fails unless the owners of dead letters are these, as "count pipeline tenant".
func (f *fixture) owned(t *testing.T, want ...string) {
	t.Helper()
	all, err := f.Store.Owners(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, o := range all {
		if i > 0 && all[i-1].Pipeline == o.Pipeline && all[i-1].Count < o.Count {
			t.Errorf("%+v comes before %+v", all[i-1], o)
		}
		got = append(got, fmt.Sprintf("%d %s %s", o.Count, o.Pipeline, o.Tenant))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("owners %q, want %q", got, want)
	}
}

// of is a dead letter of a tenant.
func (f *fixture) of(tenant, id string, lo uint64) tidemill.DeadLetter {
	l := f.died(id, lo, "answered 500")
	l.Message.Tenant = tenant
	return l
}

var ownerCases = []testcase{
	{name: "counts dead letters by pipeline and owner", reason: "who has lost the most is called first", do: func(t *testing.T, f fixture) {
		f.owned(t)
		long := strings.Repeat("long ", 50)
		q := f.of("a", "5", 5)
		q.Pipeline = "q"
		f.put(t, f.of("a", "1", 1), f.of("a", "2", 2), f.of("", "3", 3), f.of(long, "4", 4), f.of("5:p", "6", 6), q)
		f.owned(t, "2 p a", "1 p ", "1 p "+long, "1 p 5:p", "1 q a")
		if all, err := f.Store.Owners(t.Context(), func(pipeline string) bool { return pipeline == "q" }); err != nil || !slices.Equal(all, []deadletter.Owner{{Pipeline: "q", Tenant: "a", Count: 1}}) {
			t.Errorf("the owners of q are %+v, %v", all, err)
		}
	}},
	{name: "counts the dead letters of an owner right after replay, discard, another death and edit", reason: "a count that stays is an alarm for nothing", do: func(t *testing.T, f fixture) {
		f.put(t, f.of("a", "1", 1), f.of("a", "2", 2), f.of("b", "3", 3), f.of("a", "4", 4), f.of("a", "4", 4))
		again := f.of("a", "1", 5)
		again.Cause = "no route"
		f.put(t, again, f.of("b", "3", 6), f.of("b", "3", 7))
		f.owned(t, "3 p a", "1 p b")
		f.replay(t, deadletter.Filter{Tenant: "a"}, 3)
		f.owned(t, "3 p a", "1 p b") // until they have ended they are there
		s := f.Store.Open("p")
		ms := receive(t, s, 3)
		settle(t, s, ms[0], delivered, tidemill.Applied)
		settle(t, s, ms[0], delivered, tidemill.Stale)
		settle(t, s, ms[1], dead, tidemill.Applied)
		f.owned(t, "2 p a", "1 p b")
		if err := f.Store.Edit(t.Context(), deadletter.Name{Pipeline: "p", Tenant: "b", ID: "3"}, []byte("mended"), ""); err != nil {
			t.Fatal(err)
		}
		f.owned(t, "2 p a", "1 p b")
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{Tenant: "b"}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		f.owned(t, "2 p a")
		settle(t, s, ms[2], skipped, tidemill.Applied)
		if n, err := f.Store.Delete(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		f.owned(t)
	}},
	{name: "counts the dead letters of an owner right when old ones make room", reason: "trimmed ones are gone", o: deadletter.Options{Max: 3, Trim: true}, do: func(t *testing.T, f fixture) {
		f.put(t, f.of("a", "1", 1), f.of("a", "2", 2), f.of("b", "3", 3))
		f.put(t, f.of("c", "4", 4), f.of("b", "5", 5))
		f.owned(t, "2 p b", "1 p c")
	}},
	{name: "shows the owners that have the most", reason: "of a million owners a page shows some", do: func(t *testing.T, f fixture) {
		var ls []tidemill.DeadLetter
		for i := range deadletter.MaxOwners + 50 {
			ls = append(ls, f.of(fmt.Sprint("owner ", i), fmt.Sprint(i), uint64(i)))
		}
		for i := range 300 { // some have more
			ls = append(ls, f.of(fmt.Sprint("owner ", 3*i), fmt.Sprint("more ", i), uint64(5000+i)))
		}
		f.put(t, ls...)
		all, err := f.Store.Owners(t.Context(), nil)
		if err != nil || len(all) != deadletter.MaxOwners {
			t.Fatal(len(all), err)
		}
		slices.SortStableFunc(all, func(a, b deadletter.Owner) int { return cmp.Compare(b.Count, a.Count) })
		if all[299].Count != 2 || all[300].Count != 1 {
			t.Errorf("the 300th and 301st have %d and %d", all[299].Count, all[300].Count)
		}
	}},
}
