package redisledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
)

func begin(t *testing.T, l *redisledger.Ledger, keys ...string) []*ledger.Entry {
	t.Helper()
	es := make([]*ledger.Entry, len(keys))
	for i, k := range keys {
		es[i] = &ledger.Entry{Key: k}
	}
	if err := l.Begin(t.Context(), es, ledger.Begin{Lease: time.Hour}); err != nil {
		t.Fatal(err)
	}
	return es
}

func finish(t *testing.T, l *redisledger.Ledger, state ledger.State, es ...*ledger.Entry) {
	t.Helper()
	for _, e := range es {
		e.State = state
	}
	if err := l.End(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if e.Stale {
			t.Errorf("%s is stale", e.Key)
		}
	}
}

// listed are the keys in the ledger, in its order, read in pages of that size.
func listed(t *testing.T, l *redisledger.Ledger, page int) (all []string) {
	t.Helper()
	f := ledger.Filter{Max: page}
	for range 1000 {
		n := 0
		for e, err := range l.Range(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
			all, n = append(all, e.Key), n+1
			f.From, f.After = e.Created, e.Key
		}
		if n == 0 {
			return all
		}
	}
	t.Fatal("there is no last page")
	return nil
}

// index is how many groups are listed, whether their entries are there or not.
func index(t *testing.T, client rueidis.Client, name string) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), client.B().Zcard().Key(keys(name)[2]).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGroupsAreReadInPagesAndCleared(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		c, name := ledgertest.NewClock(), testenv.Name("l")
		t.Cleanup(func() { remove(t, client, name) })
		l := open(t, client, redisledger.Options{Name: name, Now: c.Now})
		old := begin(t, l, "b", "d", "f")
		c.Advance(time.Millisecond)
		old = append(old, begin(t, l, "a", "h")...)
		fresh := begin(t, l, "c", "i", "g") // in the same millisecond
		c.Advance(time.Millisecond)
		fresh = append(fresh, begin(t, l, "e", "j")...)
		want := []string{"b", "d", "f", "a", "c", "g", "h", "i", "e", "j"}
		for _, page := range []int{1, 2, 3, 100} {
			if got := listed(t, l, page); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q, want %q", page, got, want)
			}
		}
		if err := l.Find(t.Context(), old); err != nil || old[0].State != ledger.Running {
			t.Errorf("%+v, %v", old[0], err)
		}
		finish(t, l, ledger.Dropped, old[1], fresh[1]) // d, i
		finish(t, l, ledger.Held, old[3])              // a
		finish(t, l, ledger.Done, old[0], old[2], old[4], fresh[0], fresh[2], fresh[3], fresh[4])
		want = []string{"b", "f", "a", "c", "g", "h", "e", "j"}
		if got := listed(t, l, 3); !slices.Equal(got, want) {
			t.Errorf("without those dropped: %q, want %q", got, want)
		}
		c.Advance(time.Hour)
		for _, s := range []struct {
			limit, gone int
			left        []string
		}{{1, 1, want[1:]}, {2, 2, []string{"a", "g", "h", "e", "j"}}, {1, 1, []string{"a", "h", "e", "j"}}, {100, 3, []string{"a"}}, {100, 0, []string{"a"}}} {
			n, err := l.Expire(t.Context(), c.Now(), s.limit)
			if got := listed(t, l, 100); err != nil || n != s.gone || !slices.Equal(got, s.left) {
				t.Errorf("Expire of %d: %d, %v, left %q; want %d, left %q", s.limit, n, err, got, s.gone, s.left)
			}
		}
		if n := index(t, client, name); n != 1 {
			t.Errorf("%d are listed, want the one that is held", n)
		}
	})
}

// Somebody removes entries by hand, and leaves them listed.
func TestWhatIsListedAndGoneIsNotThere(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		c, name := ledgertest.NewClock(), testenv.Name("l")
		t.Cleanup(func() { remove(t, client, name) })
		l := open(t, client, redisledger.Options{Name: name, Now: c.Now})
		begin(t, l, "a", "b", "c")
		if err := client.Do(t.Context(), client.B().Hdel().Key(keys(name)[0]).Field("a", "b").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if got, want := listed(t, l, 1), []string{"c"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n, err := l.Expire(t.Context(), c.Now().Add(2*time.Hour), 0); n != 1 || err != nil {
			t.Errorf("Expire: %d, %v; want 1", n, err)
		}
		if n := index(t, client, name); n != 0 {
			t.Errorf("%d are listed still", n)
		}
	})
}

func TestWhatIsKeptInAScriptOfAnotherRole(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		c, name := ledgertest.NewClock(), testenv.Name("l")
		t.Cleanup(func() { remove(t, client, name) })
		l := open(t, client, redisledger.Options{Name: name, Now: c.Now})
		q, err := redisqueue.New(client, redisqueue.Options{Prefix: testenv.Name("q")})
		if err != nil {
			t.Fatal(err)
		}
		b := q.Beside(l.Done())
		if b == nil { // a cluster
			return
		}
		take := func(id string, n int) bool {
			t.Helper()
			es := make([]*ledger.Entry, n)
			for i := range es {
				es[i] = &ledger.Entry{Key: fmt.Sprintf("%s%04d", id, i), Tenant: "t", Type: "k", Print: []byte("p"), Result: []byte(id), Call: 7}
			}
			names, texts, err := redisledger.AppendDone(nil, nil, es)
			if err != nil {
				t.Fatal(err)
			}
			ok, err := b.Add(t.Context(), names, texts, []*tidemill.Message{{To: "q", ID: id}})
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if !take("b", 2) || take("b", 3) || !take("a", 2) {
			t.Error("taken are not those that are new")
		}
		c.Advance(time.Millisecond)
		if !take("c", 2100) {
			t.Error("many are not taken")
		}
		late := begin(t, l, "b0000", "d")
		if e := late[0]; e.State != ledger.Done || string(e.Result) != "b" || e.Tenant != "t" || e.Type != "k" || e.Tries != 1 {
			t.Errorf("%+v", e)
		}
		all := listed(t, l, 500)
		if len(all) != 2105 || !slices.Equal(all[:5], []string{"a0000", "a0001", "b0000", "b0001", "c0000"}) || all[2104] != "d" {
			t.Errorf("%d are listed: %q…", len(all), all[:min(len(all), 5)])
		}
		found := []*ledger.Entry{{Key: "a0000"}, {Key: "b0000"}, {Key: "c2099"}}
		if err := l.Find(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		for i, e := range found {
			if e.State != ledger.Done || !e.Ended.Equal(e.Created) || i > 0 && e.Token <= found[0].Token && e.Key[0] != 'b' || e.Token >= late[1].Token {
				t.Errorf("%+v", e)
			}
		}
		c.Advance(24 * time.Hour)
		for _, want := range []int{3, 1000, 1000, 102, 0} {
			limit := 1000
			if want == 3 {
				limit = 3
			}
			if n, err := l.Expire(t.Context(), c.Now(), limit); n != want || err != nil {
				t.Errorf("Expire of %d: %d, %v; want %d", limit, n, err, want)
			}
		}
		if n := index(t, client, name); n != 0 {
			t.Errorf("%d are listed still", n)
		}
	})
}
