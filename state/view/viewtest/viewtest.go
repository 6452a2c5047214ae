// Package viewtest holds every promise of the role as a case that each backend passes.
package viewtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/view"
)

// made is when views of cases were made.
var made = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Run runs all cases, each on its own store.
func Run(t *testing.T, open func(t *testing.T) view.Store) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s view.Store)
	}{
		{"lists one's own views, and those that others share", lists},
		{"keeps one view of a name for each owner", names},
		{"refuses what breaks a rule, and keeps nothing of it", refuses},
		{"changes a view, but not whose it is", changes},
		{"removes a view, unless that may not be", removes},
		{"keeps 100 views of one owner", full},
		{"keeps 500 views that are shared", fullShared},
		{"keeps its rules while many save at once", many},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, open(t)) })
	}
}

func of(owner, name string, shared bool) view.View {
	return view.View{Name: name, Address: "/console/dead?last=1h&text=a%2Fb", Owner: owner, Shared: shared, Made: made}
}

func add(t *testing.T, s view.Store, v view.View) view.View {
	t.Helper()
	got, err := s.Add(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if v.ID = got.ID; got.ID == "" || got != v {
		t.Fatalf("saved %+v, want %+v with an id", got, v)
	}
	return got
}

func list(t *testing.T, s view.Store, owner string) []view.View {
	t.Helper()
	all, err := s.List(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// called are the names of views, sorted.
func called(all []view.View) (names []string) {
	for _, v := range all {
		names = append(names, v.Owner+":"+v.Name)
	}
	slices.Sort(names)
	return names
}

func wants(t *testing.T, got []view.View, want ...string) {
	t.Helper()
	if names := called(got); !reflect.DeepEqual(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
}

func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func lists(t *testing.T, s view.Store) {
	wants(t, list(t, s, "ada"))
	b := add(t, s, of("ada", "b", false))
	add(t, s, of("ada", "a", true))
	add(t, s, of("bob", "z", true))
	add(t, s, of("bob", "c", true))
	add(t, s, of("bob", "his own", false))
	wants(t, list(t, s, "ada"), "ada:a", "ada:b", "bob:c", "bob:z")
	wants(t, list(t, s, "bob"), "ada:a", "bob:c", "bob:his own", "bob:z")
	wants(t, list(t, s, "eve"), "ada:a", "bob:c", "bob:z")
	wants(t, list(t, s, ""), "ada:a", "bob:c", "bob:z")
	if got, err := s.Get(t.Context(), b.ID); err != nil || got != b {
		t.Errorf("got %+v, %v, want %+v", got, err, b)
	}
	for _, id := range []string{"", "last", "0", b.ID + "0", strings.Repeat("9", 1000)} {
		_, err := s.Get(t.Context(), id)
		fails(t, "get "+id, err, view.ErrUnknown)
	}
}

func names(t *testing.T, s view.Store) {
	a, b := add(t, s, of("ada", "Ärger ✓", false)), add(t, s, of("ada", "other", false))
	add(t, s, of("bob", "Ärger ✓", true))
	_, err := s.Add(t.Context(), of("ada", "Ärger ✓", true))
	fails(t, "another of the name", err, view.ErrTaken)
	_, err = s.Change(t.Context(), b.ID, func(v *view.View) error { v.Name = a.Name; return nil })
	fails(t, "a change to the name of another", err, view.ErrTaken)
	if _, err := s.Change(t.Context(), a.ID, func(v *view.View) error { v.Address = "/console/"; return nil }); err != nil {
		t.Errorf("a change that leaves the name: %v", err)
	}
	wants(t, list(t, s, "ada"), "ada:other", "ada:Ärger ✓", "bob:Ärger ✓")
}

func refuses(t *testing.T, s view.Store) {
	kept := add(t, s, of("ada", "good", false))
	for _, bad := range []view.View{
		of("", "no owner", false), of(strings.Repeat("o", view.MostOwner+1), "long owner", false), of("ada", "", false), of("ada", strings.Repeat("ä", view.MostName+1), false), of("ada", "a\nb", false),
		{Name: "out", Address: "https://evil.example/console/", Owner: "ada"}, {Name: "done", Address: "/console/dead?done=x", Owner: "ada"},
	} {
		if v, err := s.Add(t.Context(), bad); err == nil {
			t.Errorf("kept %+v", v)
		}
		if bad.Owner != "ada" {
			continue
		}
		if v, err := s.Change(t.Context(), kept.ID, func(v *view.View) error { v.Name, v.Address = bad.Name, bad.Address; return nil }); err == nil {
			t.Errorf("changed to %+v", v)
		}
	}
	if got, err := s.Get(t.Context(), kept.ID); err != nil || got != kept {
		t.Errorf("after that it is %+v, %v", got, err)
	}
	wants(t, list(t, s, "ada"), "ada:good")
}

func changes(t *testing.T, s view.Store) {
	v := add(t, s, of("ada", "a", false))
	want := view.View{ID: v.ID, Name: "b", Address: "/console/queues", Owner: "ada", Shared: true, Made: made}
	got, err := s.Change(t.Context(), v.ID, func(v *view.View) error {
		*v = view.View{ID: "other", Name: "b", Address: "/console/queues", Owner: "eve", Shared: true, Made: made.Add(time.Hour)}
		return nil
	})
	if err != nil || got != want {
		t.Errorf("changed to %+v, %v, want %+v", got, err, want)
	}
	no := errors.New("no")
	_, err = s.Change(t.Context(), v.ID, func(v *view.View) error { v.Name = "c"; return no })
	fails(t, "a change that is not to be", err, no)
	if got, err := s.Get(t.Context(), v.ID); err != nil || got != want {
		t.Errorf("then it is %+v, %v, want %+v", got, err, want)
	}
	if _, err = s.Change(t.Context(), v.ID, func(v *view.View) error { v.Shared = false; return nil }); err != nil {
		t.Error(err)
	}
	wants(t, list(t, s, "bob"))
	for _, id := range []string{"", "last", "12345678"} {
		_, err = s.Change(t.Context(), id, func(*view.View) error { return nil })
		fails(t, "a change of "+id, err, view.ErrUnknown)
	}
}

func removes(t *testing.T, s view.Store) {
	v := add(t, s, of("ada", "a", true))
	no := errors.New("no")
	_, err := s.Remove(t.Context(), v.ID, func(*view.View) error { return no })
	fails(t, "a removal that may not be", err, no)
	wants(t, list(t, s, "ada"), "ada:a")
	got, err := s.Remove(t.Context(), v.ID, func(is *view.View) error {
		if *is != v {
			t.Errorf("asked about %+v", is)
		}
		return nil
	})
	if err != nil || got != v {
		t.Errorf("removed %+v, %v", got, err)
	}
	wants(t, list(t, s, "ada"))
	for _, id := range []string{v.ID, "", "last"} {
		_, err = s.Remove(t.Context(), id, func(*view.View) error { return nil })
		fails(t, "a removal of "+id, err, view.ErrUnknown)
	}
	if again := add(t, s, of("ada", "a", false)); again.ID == v.ID {
		t.Error("another view has the id of one that was removed")
	}
}

func full(t *testing.T, s view.Store) {
	var first view.View
	for i := range view.Most {
		first = add(t, s, of("ada", fmt.Sprint(i), false))
	}
	_, err := s.Add(t.Context(), of("ada", "more", false))
	fails(t, "one more", err, view.ErrFull)
	add(t, s, of("bob", "his", true))
	if _, err := s.Change(t.Context(), first.ID, func(v *view.View) error { v.Name = "another"; return nil }); err != nil {
		t.Errorf("a change of one of the most: %v", err)
	}
	if all := list(t, s, "ada"); len(all) != view.Most+1 {
		t.Errorf("there are %d", len(all))
	}
}

func fullShared(t *testing.T, s view.Store) {
	var one view.View
	for i := range view.MostShared {
		one = add(t, s, of(fmt.Sprint("owner", i/view.Most), fmt.Sprint(i), true))
	}
	_, err := s.Add(t.Context(), of("ada", "more", true))
	fails(t, "one more", err, view.ErrFullShared)
	private := add(t, s, of("ada", "more", false))
	_, err = s.Change(t.Context(), private.ID, func(v *view.View) error { v.Shared = true; return nil })
	fails(t, "sharing one more", err, view.ErrFullShared)
	if _, err := s.Change(t.Context(), one.ID, func(v *view.View) error { v.Name = "another"; return nil }); err != nil {
		t.Errorf("a change of one of the most: %v", err)
	}
	if all := list(t, s, "eve"); len(all) != view.MostShared {
		t.Errorf("%d are shared", len(all))
	}
}

func many(t *testing.T, s view.Store) {
	for i := range view.Most - 5 {
		add(t, s, of("ada", fmt.Sprint(i), false))
	}
	var all sync.WaitGroup
	var same, more atomic.Int32
	for i := range 8 {
		all.Go(func() {
			switch _, err := s.Add(t.Context(), of("ada", "the same", true)); {
			case err == nil:
				same.Add(1)
			case !errors.Is(err, view.ErrTaken):
				t.Error(err)
			}
			switch _, err := s.Add(t.Context(), of("ada", fmt.Sprint("other", i), false)); {
			case err == nil:
				more.Add(1)
			case !errors.Is(err, view.ErrFull):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if same.Load() != 1 || more.Load() != 4 {
		t.Errorf("%d of a name that one may have were saved, and %d where there was room for 4", same.Load(), more.Load())
	}
	if n := len(list(t, s, "ada")); n != view.Most {
		t.Errorf("there are %d", n)
	}
}
