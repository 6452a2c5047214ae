// Package accesstest holds the promises of every backend of access as cases: call Run from the
// backend's one test.
package accesstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/access"
)

// Store is what a backend is.
type Store interface {
	access.Store
	access.Sweeper
}

// Harness is an empty store.
type Harness struct {
	Store  Store
	Reopen func() Store // closes and opens the same data again; nil: nothing survives
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
	{"a grant is read as it was added", "who comes in is decided by it", roundTrip},
	{"what is not there is unknown", "nobody comes in by a typing error", unknown},
	{"a name is taken once", "two people of one name could not be told apart", taken},
	{"an id is found by its beginning", "people write what lists show", shortened},
	{"a short id of another length is no id", "a guess of one character would end somebody's session", tooShort},
	{"grants are listed by name, the oldest first", "people look for names", listed},
	{"a change that fails changes nothing", "rights are changed whole", failedChange},
	{"a changed password ends the other sessions", "who knew the old one is out", newPassword},
	{"a changed role ends all sessions", "nobody goes on with rights that were taken", newRole},
	{"other changes end no session", "a note of its use must not log anybody out", otherChange},
	{"sessions go with their user or token", "who is removed is out", removed},
	{"the last admin stays", "nobody could let anybody in again", lastAdmin},
	{"of two admins who remove each other one stays", "both would see another one", lastOfTwo},
	{"grants are forgotten after their end", "a store must not grow for ever", swept},
	{"grants outlive a restart", "nobody logs in anew for it", restart},
	{"an ended context changes nothing", "a stop must not be held up", endedContext},
}

// when is a time of the tests, n seconds in.
func when(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 0).UTC() }

func user(name, role string) access.Grant {
	return access.Grant{Kind: access.User, ID: name, Name: name, Role: role, Hash: "$argon2id$" + name, Made: when(0)}
}

func session(secret, name string) access.Grant {
	return access.Grant{Kind: access.Session, ID: access.IDOf(secret), Name: name, Role: "viewer", By: "password", From: "192.0.2.1", Browser: "Firefox", Made: when(1), Used: when(2), Until: when(100), Entered: when(1)}
}

func add(t *testing.T, s Store, all ...access.Grant) {
	t.Helper()
	for _, g := range all {
		if err := s.Add(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
}

// ids are those of a listing.
func ids(t *testing.T, s Store, kind access.Kind, name string) (all []string) {
	t.Helper()
	gs, err := s.List(t.Context(), kind, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gs {
		all = append(all, g.ID)
	}
	return all
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

func roundTrip(t *testing.T, h Harness) {
	token := access.Grant{Kind: access.Token, ID: access.IDOf("t"), Name: "token:ci", Role: "operator", By: "ada", Made: when(3), Until: when(9)}
	all := []access.Grant{user("ada", "admin"), session("s", "ada"), token, {Kind: access.Link, ID: access.IDOf("l"), Name: "local", Role: "admin", Until: when(5)}}
	add(t, h.Store, all...)
	for _, g := range all {
		if got, err := h.Store.Get(t.Context(), g.Kind, g.ID); err != nil || got != g {
			t.Errorf("Get = %+v, %v; want %+v", got, err, g)
		}
	}
}

func unknown(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), session("s", "ada"))
	for _, c := range []struct {
		kind access.Kind
		id   string
	}{{access.User, "bob"}, {access.Token, "ada"}, {access.Session, access.IDOf("other")}, {access.Session, ""}, {access.User, ""}, {access.Link, access.IDOf("s")}} {
		_, err := h.Store.Get(t.Context(), c.kind, c.id)
		is(t, err, access.ErrUnknown)
		_, err = h.Store.Change(t.Context(), c.kind, c.id, access.Change{Do: func(*access.Grant) error { t.Error("what is not there was changed"); return nil }})
		is(t, err, access.ErrUnknown)
		_, err = h.Store.Remove(t.Context(), c.kind, c.id)
		is(t, err, access.ErrUnknown)
	}
}

func taken(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), access.Grant{Kind: access.Token, ID: access.IDOf("t"), Name: "token:ci", Role: "viewer"})
	is(t, h.Store.Add(t.Context(), user("ada", "viewer")), access.ErrTaken)
	is(t, h.Store.Add(t.Context(), access.Grant{Kind: access.Token, ID: access.IDOf("u"), Name: "token:ci", Role: "viewer"}), access.ErrTaken)
	if g, err := h.Store.Get(t.Context(), access.User, "ada"); err != nil || g.Role != "admin" {
		t.Errorf("the first is %+v, %v", g, err)
	}
	add(t, h.Store, session("a", "ada"), session("b", "ada"))
	addedOnce(t, h.Store, func(int) access.Grant { return user("bob", "viewer") })
	for round := range 5 {
		addedOnce(t, h.Store, func(n int) access.Grant {
			return access.Grant{Kind: access.Token, ID: access.IDOf(fmt.Sprint(round, n)), Name: fmt.Sprint("token:", round), Role: "viewer"}
		})
	}
}

// addedOnce adds four grants at once; only one of them can be added.
func addedOnce(t *testing.T, s Store, grant func(n int) access.Grant) {
	t.Helper()
	var wg sync.WaitGroup
	made := make(chan error, 4)
	for n := range cap(made) {
		wg.Go(func() { made <- s.Add(context.WithoutCancel(t.Context()), grant(n)) })
	}
	wg.Wait()
	close(made)
	n := 0
	for err := range made {
		if err == nil {
			n++
		} else {
			is(t, err, access.ErrTaken)
		}
	}
	if n != 1 {
		t.Errorf("%d of 4 were added: %+v", n, grant(0))
	}
}

func shortened(t *testing.T, h Harness) {
	add(t, h.Store, session("a", "ada"), session("b", "ada"))
	id := access.IDOf("b")
	if g, err := h.Store.Get(t.Context(), access.Session, id[:access.ShortID]); err != nil || g.ID != id {
		t.Errorf("Get = %+v, %v", g, err)
	}
	if _, err := h.Store.Remove(t.Context(), access.Session, id[:access.ShortID]); err != nil {
		t.Error(err)
	}
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("a"))
}

func tooShort(t *testing.T, h Harness) {
	add(t, h.Store, session("a", "ada"), user("a-name-of-20-letters", "admin"))
	for _, n := range []int{0, 1, access.ShortID - 1, access.ShortID + 1} {
		_, err := h.Store.Get(t.Context(), access.Session, access.IDOf("a")[:n])
		is(t, err, access.ErrUnknown)
	}
	_, err := h.Store.Get(t.Context(), access.User, "a-name-of-20-letters"[:access.ShortID])
	is(t, err, access.ErrUnknown)
}

func listed(t *testing.T, h Harness) {
	first, second := session("z", "bob"), session("a", "bob")
	first.Made, second.Made = when(1), when(2)
	add(t, h.Store, user("bob", "viewer"), second, first, user("ada", "admin"), session("x", "ada"))
	want(t, ids(t, h.Store, access.User, ""), "ada", "bob")
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("x"), access.IDOf("z"), access.IDOf("a"))
	want(t, ids(t, h.Store, access.Session, "bob"), access.IDOf("z"), access.IDOf("a"))
	want(t, ids(t, h.Store, access.Token, ""))
	want(t, ids(t, h.Store, access.User, "bo"))
}

// change changes a grant, and wants it to be so.
func change(t *testing.T, s Store, kind access.Kind, id, keep string, do func(*access.Grant)) {
	t.Helper()
	got, err := s.Change(t.Context(), kind, id, access.Change{Keep: keep, Do: func(g *access.Grant) error { do(g); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := s.Get(t.Context(), kind, id); err != nil || now != got {
		t.Errorf("it is %+v, %v; Change returned %+v", now, err, got)
	}
}

func failedChange(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), session("s", "ada"))
	stop := errors.New("stop")
	_, err := h.Store.Change(t.Context(), access.User, "ada", access.Change{Do: func(g *access.Grant) error { g.Hash = "other"; return stop }})
	is(t, err, stop)
	if g, err := h.Store.Get(t.Context(), access.User, "ada"); err != nil || g != user("ada", "admin") {
		t.Errorf("it is %+v, %v", g, err)
	}
	want(t, ids(t, h.Store, access.Session, "ada"), access.IDOf("s"))
}

func newPassword(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), session("a", "ada"), session("b", "ada"), session("c", "bob"))
	change(t, h.Store, access.User, "ada", access.IDOf("b"), func(g *access.Grant) { g.Hash = "new" })
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("b"), access.IDOf("c"))
	change(t, h.Store, access.User, "ada", "", func(g *access.Grant) { g.Hash = "newer" })
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("c"))
}

func newRole(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), user("bob", "viewer"), session("b", "bob"), session("a", "ada"))
	change(t, h.Store, access.User, "bob", access.IDOf("b"), func(g *access.Grant) { g.Role = "operator" })
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("a"))
}

func otherChange(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), session("a", "ada"))
	change(t, h.Store, access.User, "ada", "", func(g *access.Grant) { g.Used = when(7); g.Name, g.ID = "eve", "eve" })
	if _, err := h.Store.Change(t.Context(), access.User, "ada", access.Change{Anew: true, Do: func(g *access.Grant) error { g.Hash = "of the same"; return nil }}); err != nil {
		t.Fatal(err)
	}
	change(t, h.Store, access.Session, access.IDOf("a"), "", func(g *access.Grant) { g.Used = when(7) })
	want(t, ids(t, h.Store, access.User, ""), "ada")
	want(t, ids(t, h.Store, access.Session, "ada"), access.IDOf("a"))
}

func removed(t *testing.T, h Harness) {
	token := access.Grant{Kind: access.Token, ID: access.IDOf("t"), Name: "token:ci", Role: "viewer", Made: when(1)}
	add(t, h.Store, user("ada", "admin"), user("bob", "viewer"), token, session("b", "bob"), session("t", "token:ci"), session("a", "ada"))
	for _, g := range []access.Grant{user("bob", "viewer"), token} {
		if got, err := h.Store.Remove(t.Context(), g.Kind, g.ID); err != nil || got != g {
			t.Errorf("Remove = %+v, %v; want %+v", got, err, g)
		}
		_, err := h.Store.Get(t.Context(), g.Kind, g.ID)
		is(t, err, access.ErrUnknown)
	}
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("a"))
}

func lastAdmin(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), user("bob", "operator"), session("a", "ada"))
	_, err := h.Store.Remove(t.Context(), access.User, "ada")
	is(t, err, access.ErrLastAdmin)
	_, err = h.Store.Change(t.Context(), access.User, "ada", access.Change{Do: func(g *access.Grant) error { g.Role = "viewer"; return nil }})
	is(t, err, access.ErrLastAdmin)
	if g, err := h.Store.Get(t.Context(), access.User, "ada"); err != nil || g.Role != "admin" {
		t.Errorf("it is %+v, %v", g, err)
	}
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("a"))
	change(t, h.Store, access.User, "bob", "", func(g *access.Grant) { g.Role = "admin" })
	change(t, h.Store, access.User, "ada", "", func(g *access.Grant) { g.Role = "viewer" })
}

func lastOfTwo(t *testing.T, h Harness) {
	for range 5 {
		add(t, h.Store, user("ada", "admin"), user("bob", "admin"))
		var wg sync.WaitGroup
		for _, name := range []string{"ada", "bob"} {
			wg.Go(func() {
				if _, err := h.Store.Remove(context.WithoutCancel(t.Context()), access.User, name); err != nil {
					is(t, err, access.ErrLastAdmin)
				}
			})
		}
		wg.Wait()
		left := ids(t, h.Store, access.User, "")
		if len(left) != 1 {
			t.Fatalf("there are %q, want one of them", left)
		}
		add(t, h.Store, user("eve", "admin"))
		for _, name := range left {
			if _, err := h.Store.Remove(t.Context(), access.User, name); err != nil {
				t.Fatal(err)
			}
		}
		change(t, h.Store, access.User, "eve", "", func(g *access.Grant) { g.Hash = "x" })
		add(t, h.Store, user("ada", "admin"))
		if _, err := h.Store.Remove(t.Context(), access.User, "eve"); err != nil {
			t.Fatal(err)
		}
		add(t, h.Store, user("zoe", "admin"))
		if _, err := h.Store.Remove(t.Context(), access.User, "ada"); err != nil {
			t.Fatal(err)
		}
	}
}

func swept(t *testing.T, h Harness) {
	late := session("b", "ada")
	late.Until = when(200)
	add(t, h.Store, user("ada", "admin"), session("a", "ada"), late)
	if n, err := h.Store.Sweep(t.Context(), when(99), 10); n != 0 || err != nil {
		t.Errorf("before its end: %d, %v", n, err)
	}
	if n, err := h.Store.Sweep(t.Context(), when(100), 10); n != 1 || err != nil {
		t.Errorf("at its end: %d, %v", n, err)
	}
	want(t, ids(t, h.Store, access.Session, ""), access.IDOf("b"))
	want(t, ids(t, h.Store, access.User, ""), "ada")
}

func restart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("nothing survives")
	}
	add(t, h.Store, user("ada", "admin"), session("s", "ada"))
	s := h.Reopen()
	if g, err := s.Get(t.Context(), access.Session, access.IDOf("s")); err != nil || g != session("s", "ada") {
		t.Errorf("it is %+v, %v", g, err)
	}
}

func endedContext(t *testing.T, h Harness) {
	add(t, h.Store, user("ada", "admin"), user("bob", "admin"))
	ctx, end := context.WithCancel(t.Context())
	end()
	is(t, h.Store.Add(ctx, user("eve", "viewer")), context.Canceled)
	_, err := h.Store.Remove(ctx, access.User, "ada")
	is(t, err, context.Canceled)
	_, err = h.Store.Change(ctx, access.User, "ada", access.Change{Do: func(g *access.Grant) error { g.Role = "viewer"; return nil }})
	is(t, err, context.Canceled)
	_, err = h.Store.List(ctx, access.User, "")
	is(t, err, context.Canceled)
	want(t, ids(t, h.Store, access.User, ""), "ada", "bob")
	if long := strings.Repeat("n", access.MaxName+1); h.Store.Add(t.Context(), user(long, "viewer")) == nil {
		t.Error("a name that is too long was taken")
	}
}
