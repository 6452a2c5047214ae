// Package descriptiontest holds every promise of the role as a case that each backend passes.
package descriptiontest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/description"
)

const (
	partners = "delivery.partners"
	sites    = "delivery.sites"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Run runs all cases, each on its own data. Open returns what opens a store of it, each time as another
// instance would.
func Run(t *testing.T, open func(*testing.T) func() description.Store) {
	for _, c := range []struct {
		name string
		do   func(*testing.T, description.Store)
	}{
		{"keeps what was put last, by list and name", keeps},
		{"numbers its changes, also those of what is made again", numbers},
		{"refuses a change of what is not the last version", refuses},
		{"of changes at once of one version one is made", race},
		{"removes", removes},
		{"bounds texts and names", bounds},
		{"keeps more than it reads at once", many},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, open(t)()) })
	}
	t.Run("wakes who awaits a change, of this store or of another one", func(t *testing.T) { awaits(t, open(t)) })
	t.Run("an await ends with its context", func(t *testing.T) { ends(t, open(t)()) })
}

// within is how long a case waits for what has to come.
const within = 20 * time.Second

// awaited awaits versions until one is there.
func awaited(ctx context.Context, s description.Store, known uint64) (uint64, error) {
	for {
		if err := s.Await(ctx, known); err != nil {
			return 0, err
		}
		if v, err := s.Version(ctx); err != nil || v != known { // it may be woken though nothing changed
			return v, err
		}
	}
}

func awaits(t *testing.T, open func() description.Store) {
	a, b := open(), open()
	if a.Told() == "" {
		t.Error("it does not say how it is told")
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	put(t, a, description.Description{List: partners, Name: "a", Text: []byte("1")}, 0)
	if v, err := awaited(ctx, b, 0); v != 1 || err != nil { // it is there already
		t.Fatalf("version %d, %v", v, err)
	}
	change := []func() (uint64, error){
		func() (uint64, error) {
			return a.Put(ctx, description.Description{List: partners, Name: "a", Text: []byte("2")}, 1)
		},
		func() (uint64, error) { return b.Remove(ctx, partners, "a", 2) },
	}
	for n, do := range change {
		known := uint64(n + 1)
		var all sync.WaitGroup
		for _, s := range []description.Store{a, b, b} {
			all.Go(func() {
				if v, err := awaited(ctx, s, known); v != known+1 || err != nil {
					t.Errorf("after version %d there is %d, %v", known, v, err)
				}
			})
		}
		if _, err := do(); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

func ends(t *testing.T, s description.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if v, err := awaited(ctx, s, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a change it ends with %d, %v", v, err)
	}
}

func put(t *testing.T, s description.Store, d description.Description, of uint64) uint64 {
	t.Helper()
	v, err := s.Put(t.Context(), d, of)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func list(t *testing.T, s description.Store) description.Kept {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Version(t.Context()); err != nil || v != all.Version {
		t.Errorf("the version is %d, %v; of the list %d", v, err, all.Version)
	}
	return all
}

func keeps(t *testing.T, s description.Store) {
	if all := list(t, s); all.Version != 0 || len(all.All) != 0 {
		t.Errorf("at first there is %v", all)
	}
	d := func(list, name, text string) description.Description {
		return description.Description{List: list, Name: name, Text: []byte(text), Changed: noon, By: "ann"}
	}
	shop, b, a := d(sites, "shop", "\x00{1}"), d(partners, "b", "2"), d(partners, "a", "3")
	for i, p := range []description.Description{shop, b, a, d(partners, "b", "4")} {
		put(t, s, p, uint64(i))
	}
	shop.Version, a.Version = 1, 3
	b.Version, b.Text = 4, []byte("4")
	if all := list(t, s); !reflect.DeepEqual(all, description.Kept{Version: 4, All: []description.Description{a, b, shop}}) {
		t.Errorf("there are %v", all)
	}
}

func numbers(t *testing.T, s description.Store) {
	d := description.Description{List: partners, Name: "a", Text: []byte("1")}
	first := put(t, s, d, 0)
	second, err := s.Remove(t.Context(), partners, "a", first)
	if err != nil {
		t.Fatal(err)
	}
	third := put(t, s, d, second)
	if first != 1 || second != 2 || third != 3 || list(t, s).All[0].Version != 3 {
		t.Errorf("versions %d, %d, %d", first, second, third)
	}
}

func refuses(t *testing.T, s description.Store) {
	d := description.Description{List: partners, Name: "a", Text: []byte("1")}
	put(t, s, d, 0)
	for _, of := range []uint64{0, 2, 1 << 60} {
		d.Text = []byte("2")
		if _, err := s.Put(t.Context(), d, of); !errors.Is(err, description.ErrChanged) {
			t.Errorf("a change of version %d: %v", of, err)
		}
		if _, err := s.Remove(t.Context(), partners, "a", of); !errors.Is(err, description.ErrChanged) {
			t.Errorf("a removal of version %d: %v", of, err)
		}
	}
	if all := list(t, s); all.Version != 1 || string(all.All[0].Text) != "1" {
		t.Errorf("there is %v", all)
	}
}

func race(t *testing.T, s description.Store) {
	const n = 8
	made := make([]bool, n)
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() {
			_, err := s.Put(t.Context(), description.Description{List: partners, Name: fmt.Sprint(i), Text: []byte("x")}, 0)
			if made[i] = err == nil; err != nil && !errors.Is(err, description.ErrChanged) {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if all := list(t, s); all.Version != 1 || len(all.All) != 1 || !made[all.All[0].Name[0]-'0'] {
		t.Errorf("there is %v, of %v", all, made)
	}
}

func removes(t *testing.T, s description.Store) {
	if _, err := s.Remove(t.Context(), partners, "a", 0); !errors.Is(err, description.ErrNone) {
		t.Errorf("what is not there: %v", err)
	}
	put(t, s, description.Description{List: partners, Name: "a", Text: []byte("1")}, 0)
	put(t, s, description.Description{List: sites, Name: "a", Text: []byte("1")}, 1)
	if v, err := s.Remove(t.Context(), partners, "a", 2); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if all := list(t, s); len(all.All) != 1 || all.All[0].List != sites {
		t.Errorf("there is %v", all)
	}
	if _, err := s.Remove(t.Context(), partners, "a", 3); !errors.Is(err, description.ErrNone) {
		t.Errorf("what is not there any more: %v", err)
	}
}

func bounds(t *testing.T, s description.Store) {
	long := strings.Repeat("n", description.MostName)
	text := make([]byte, description.MostText)
	for _, d := range []description.Description{
		{List: "", Name: "a", Text: text}, {List: long + "n", Name: "a", Text: text}, {List: partners, Name: "", Text: text}, {List: partners, Name: long + "n", Text: text},
		{List: partners, Name: "a"}, {List: partners, Name: "a", Text: append(text, 0)},
	} {
		if _, err := s.Put(t.Context(), d, 0); err == nil {
			t.Errorf("%s %s with %d bytes is kept", d.List, d.Name, len(d.Text))
		}
	}
	put(t, s, description.Description{List: long, Name: long, Text: text}, 0)
	if all := list(t, s); len(all.All) != 1 || len(all.All[0].Text) != len(text) || all.All[0].Name != long {
		t.Errorf("there are %d", len(all.All))
	}
}

func many(t *testing.T, s description.Store) {
	const n = 250
	for i := range n {
		put(t, s, description.Description{List: partners, Name: fmt.Sprintf("p%03d", i), Text: []byte("x")}, uint64(i))
	}
	all := list(t, s)
	if len(all.All) != n || all.All[0].Name != "p000" || all.All[n-1].Name != "p249" {
		t.Errorf("there are %d", len(all.All))
	}
}
