// Package projecttest holds the promises of every backend of projects as cases: call Run
// from the backend's one test.
package projecttest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
)

// Harness is an empty set of projects.
type Harness struct {
	Projects project.Store
	Reopen   func() project.Store // closes and opens the same data again; nil: nothing survives
}

// Run runs every case on its own harness.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.do(t, h(t))
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*testing.T, Harness)
}{
	{"a project is found by its key and its id", "ingest knows the key, the pipeline the id", found},
	{"what is not there is unknown", "a typing error must not become a tenant", unknown},
	{"ensuring again changes nothing", "it is done at every start", ensureAgain},
	{"a project may have several keys", "keys are exchanged without a gap", severalKeys},
	{"a key belongs to one project", "events must not end up with somebody else", keyTaken},
	{"one of several that are given a key at once has it", "instances start together, with configurations of their own", startTogether},
	{"a project can be renamed", "its id is what it is known by", renamed},
	{"projects are listed by name", "people look for names", listed},
	{"a project needs an id", "events without a project belong to nobody", needsID},
	{"an ended context changes nothing", "a stop must not be held up", endedContext},
	{"the keys of a project are listed", "who takes one away has to see what there is", keysListed},
	{"a key that is revoked is nobody's", "a key that got out must stop working", revoked},
	{"a key that is revoked can be given again", "it was the wrong one", givenAgain},
	{"projects outlive a restart", "keys are in the field", restart},
}

var (
	shop = project.Project{ID: uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001"), Name: "shop"}
	blog = project.Project{ID: uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002"), Name: "blog"}
)

func key(s string) project.Hash { return project.HashOf(tidemill.NewSecret(s)) }

func ensure(t *testing.T, s project.Projects, p project.Project, k string) {
	t.Helper()
	if err := s.Ensure(t.Context(), p, key(k)); err != nil {
		t.Fatalf("Ensure(%+v, key %q): %v", p, k, err)
	}
}

func byKey(t *testing.T, s project.Projects, k string, want project.Project) {
	t.Helper()
	if got, err := s.ByKey(t.Context(), key(k)); err != nil || got != want {
		t.Fatalf("ByKey(%q) = %+v, %v; want %+v", k, got, err, want)
	}
}

func noKey(t *testing.T, s project.Projects, k string) {
	t.Helper()
	if got, err := s.ByKey(t.Context(), key(k)); !errors.Is(err, project.ErrUnknown) || got != (project.Project{}) {
		t.Fatalf("ByKey(%q) = %+v, %v; want %v", k, got, err, project.ErrUnknown)
	}
}

func list(t *testing.T, s project.Projects, want ...project.Project) {
	t.Helper()
	if got, err := s.List(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Fatalf("List() = %+v, %v; want %+v", got, err, want)
	}
}

func found(t *testing.T, h Harness) {
	ensure(t, h.Projects, shop, "k1")
	ensure(t, h.Projects, blog, "k2")
	byKey(t, h.Projects, "k1", shop)
	byKey(t, h.Projects, "k2", blog)
	if got, err := h.Projects.Find(t.Context(), blog.ID); err != nil || got != blog {
		t.Fatalf("Find = %+v, %v; want %+v", got, err, blog)
	}
}

func unknown(t *testing.T, h Harness) {
	noKey(t, h.Projects, "k1")
	ensure(t, h.Projects, shop, "k1")
	noKey(t, h.Projects, "K1")
	if got, err := h.Projects.Find(t.Context(), blog.ID); !errors.Is(err, project.ErrUnknown) {
		t.Fatalf("Find = %+v, %v; want %v", got, err, project.ErrUnknown)
	}
}

func ensureAgain(t *testing.T, h Harness) {
	for range 3 {
		ensure(t, h.Projects, shop, "k1")
	}
	byKey(t, h.Projects, "k1", shop)
	list(t, h.Projects, shop)
}

func severalKeys(t *testing.T, h Harness) {
	ensure(t, h.Projects, shop, "k1")
	ensure(t, h.Projects, shop, "k2")
	byKey(t, h.Projects, "k1", shop)
	byKey(t, h.Projects, "k2", shop)
}

func keyTaken(t *testing.T, h Harness) {
	ensure(t, h.Projects, shop, "k1")
	if err := h.Projects.Ensure(t.Context(), blog, key("k1")); !errors.Is(err, project.ErrKeyTaken) {
		t.Fatalf("Ensure with another project's key = %v, want %v", err, project.ErrKeyTaken)
	}
	byKey(t, h.Projects, "k1", shop)
	list(t, h.Projects, shop)
}

func startTogether(t *testing.T, h Harness) {
	var wg sync.WaitGroup
	var taken atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			err := h.Projects.Ensure(t.Context(), []project.Project{shop, blog}[i%2], key("k1"))
			if errors.Is(err, project.ErrKeyTaken) {
				taken.Add(1)
			} else if err != nil {
				t.Errorf("Ensure: %v", err)
			}
		})
	}
	wg.Wait()
	all, err := h.Projects.List(t.Context())
	if err != nil || len(all) != 1 || taken.Load() != 4 {
		t.Fatalf("projects are %+v, %v, and %d were told that the key is taken; want one project, and 4", all, err, taken.Load())
	}
	byKey(t, h.Projects, "k1", all[0])
}

func renamed(t *testing.T, h Harness) {
	ensure(t, h.Projects, shop, "k1")
	store := project.Project{ID: shop.ID, Name: "store"}
	ensure(t, h.Projects, store, "k1")
	byKey(t, h.Projects, "k1", store)
	list(t, h.Projects, store)
}

func listed(t *testing.T, h Harness) {
	list(t, h.Projects)
	twin := project.Project{ID: uuid.MustParse("cccccccc-0000-4000-8000-000000000003"), Name: "shop"}
	ensure(t, h.Projects, twin, "k3")
	ensure(t, h.Projects, shop, "k1")
	ensure(t, h.Projects, blog, "k2")
	list(t, h.Projects, blog, shop, twin)
}

func needsID(t *testing.T, h Harness) {
	if err := h.Projects.Ensure(t.Context(), project.Project{Name: "shop"}, key("k1")); err == nil {
		t.Fatal("a project without an id was made")
	}
	noKey(t, h.Projects, "k1")
	if err := shop.Check(); err != nil {
		t.Fatalf("a project with an id is refused: %v", err)
	}
}

func endedContext(t *testing.T, h Harness) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := h.Projects.Ensure(ctx, shop, key("k1")); err == nil {
		t.Fatal("Ensure with an ended context returned nil")
	}
	noKey(t, h.Projects, "k1")
	if _, err := h.Projects.ByKey(ctx, key("k1")); err == nil || errors.Is(err, project.ErrUnknown) {
		t.Fatalf("ByKey with an ended context = %v; a stop does not make a key unknown", err)
	}
	if _, err := h.Projects.Find(ctx, shop.ID); err == nil || errors.Is(err, project.ErrUnknown) {
		t.Fatalf("Find with an ended context = %v; a stop does not make a project unknown", err)
	}
	if l, err := h.Projects.List(ctx); err == nil {
		t.Fatalf("List with an ended context returned %v", l)
	}
}

func keys(t *testing.T, s project.Store, p project.Project, want ...string) {
	t.Helper()
	var hashes []project.Hash
	for _, k := range want {
		hashes = append(hashes, key(k))
	}
	slices.SortFunc(hashes, func(a, b project.Hash) int { return bytes.Compare(a[:], b[:]) })
	if got, err := s.Keys(t.Context(), p.ID); err != nil || !slices.Equal(got, hashes) {
		t.Fatalf("Keys(%s) = %x, %v; want %x", p.Name, got, err, hashes)
	}
}

func keysListed(t *testing.T, h Harness) {
	keys(t, h.Projects, shop)
	for _, k := range []string{"k1", "k2", "k3"} {
		ensure(t, h.Projects, shop, k)
	}
	ensure(t, h.Projects, blog, "k4")
	keys(t, h.Projects, shop, "k1", "k2", "k3")
	keys(t, h.Projects, blog, "k4")
}

func revoked(t *testing.T, h Harness) {
	s := h.Projects
	for _, k := range []string{"k1", "k2", "k3"} {
		ensure(t, s, shop, k)
	}
	ensure(t, s, blog, "k4")
	for n, left := range [][]string{{"k2", "k3"}, {"k3"}, nil} {
		gone := []string{"k1", "k2", "k3"}[n]
		if err := s.Revoke(t.Context(), shop.ID, key(gone)); err != nil {
			t.Fatal(err)
		}
		noKey(t, s, gone)
		noKey(t, s, hex.EncodeToString(hashed(gone)))
		keys(t, s, shop, left...)
		for _, k := range left {
			byKey(t, s, k, shop)
		}
		if err := s.Revoke(t.Context(), shop.ID, key(gone)); !errors.Is(err, project.ErrUnknown) {
			t.Fatalf("revoking it again is %v, want %v", err, project.ErrUnknown)
		}
	}
	if err := s.Revoke(t.Context(), shop.ID, key("k4")); !errors.Is(err, project.ErrUnknown) {
		t.Fatalf("revoking another project's key is %v, want %v", err, project.ErrUnknown)
	}
	byKey(t, s, "k4", blog)
	list(t, s, blog, shop)
}

func hashed(k string) []byte { h := key(k); return h[:] }

func givenAgain(t *testing.T, h Harness) {
	s := h.Projects
	ensure(t, s, shop, "k1")
	for range 2 {
		if err := s.Revoke(t.Context(), shop.ID, key("k1")); err != nil {
			t.Fatal(err)
		}
		noKey(t, s, "k1")
		ensure(t, s, shop, "k1")
		byKey(t, s, "k1", shop)
		keys(t, s, shop, "k1")
	}
	if err := s.Revoke(t.Context(), shop.ID, key("k1")); err != nil {
		t.Fatal(err)
	}
	ensure(t, s, blog, "k1")
	byKey(t, s, "k1", blog)
}

func restart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		return // nothing survives, nothing is promised
	}
	ensure(t, h.Projects, shop, "k1")
	s := h.Reopen()
	byKey(t, s, "k1", shop)
	ensure(t, s, shop, "k1")
	list(t, s, shop)
}
