package access_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/api/operation"
	state "github.com/tidemill/tidemill/state/access"
)

func TestPasswordsThatCanBeGiven(t *testing.T) {
	w := newWorld(t, nil)
	for pass, want := range map[string]string{
		"a fine long phrase": "", "twelve chars": "", strings.Repeat("é", 128): "", "日本語のパスワードは長い。": "", " spaces stay ": "",
		"eleven char": "needs 12 to 128", "": "needs 12 to 128", strings.Repeat("x", 129): "needs 12 to 128",
		"password1234": "most common", "PassWord1234": "most common", "correcthorsebatterystaple": "most common",
		"\xff\xfe56789012345": "no text", "a-long-name-of-it": "the name",
	} {
		_, err := w.Hash(t.Context(), "a-long-name-of-it", pass)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", pass, err, want)
		}
		if err != nil && pass != "" && strings.Contains(err.Error(), pass) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestAHashSaysWhatItCostAndGrowsAtTheLogin(t *testing.T) {
	w := newWorld(t, nil)
	before, err := w.store.Get(t.Context(), state.User, "ada")
	if err != nil || !strings.HasPrefix(before.Hash, "$argon2id$v=19$m=64,t=1,p=1$") || strings.Contains(before.Hash, password) {
		t.Fatalf("%q, %v", before.Hash, err)
	}
	c := w.in(access.Proof{Name: "ada", Password: password})
	dear := access.New(access.Options{Store: w.store, Cost: access.Cost{KiB: 128, Passes: 2}})
	for range 2 {
		if _, err := dear.CheckPassword(t.Context(), "ada", password); err != nil {
			t.Fatal(err)
		}
		if after, err := w.store.Get(t.Context(), state.User, "ada"); err != nil || !strings.HasPrefix(after.Hash, "$argon2id$v=19$m=128,t=2,p=1$") {
			t.Fatalf("%q, %v", after.Hash, err)
		}
	}
	_, err = w.Caller(from(http.MethodGet, c))
	w.is(err, 0)
	if access.UsualCost != (access.Cost{KiB: 19 << 10, Passes: 2}) {
		t.Errorf("the usual cost is %+v", access.UsualCost)
	}
}

func TestADamagedHashIsNoPassword(t *testing.T) {
	w := newWorld(t, nil)
	for _, hash := range []string{"x", "$argon2id$v=19$m=64,t=1,p=1$AAAA$AAAA", "$argon2i$v=19$m=64,t=1,p=1$", "$argon2id$v=19$m=99999999,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		_, err := w.store.Change(t.Context(), state.User, "ada", state.Change{Do: func(g *state.Grant) error { g.Hash = hash; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.CheckPassword(t.Context(), "ada", password); err == nil || errors.Is(err, state.ErrUnknown) {
			t.Errorf("%s: %v", hash, err)
		}
	}
}

// TestManyWhoLogInAtOnceAreTurnedAway has more than hash and wait at once, all of which are begun
// before the first can end.
func TestManyWhoLogInAtOnceAreTurnedAway(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.Cost = access.Cost{KiB: 4 << 10, Passes: 8} })
	const many = 60
	errs := make([]error, many)
	var wg, begun sync.WaitGroup
	begun.Add(many)
	for i := range many {
		wg.Go(func() {
			begun.Done()
			begun.Wait()
			_, errs[i] = w.CheckPassword(t.Context(), "ada", password)
		})
	}
	wg.Wait()
	good, turned := 0, 0
	for _, err := range errs {
		p, ok := errors.AsType[*operation.Problem](err)
		switch {
		case err == nil:
			good++
		case ok && p.Status == http.StatusTooManyRequests && p.After > 0:
			turned++
		default:
			t.Error(err)
		}
	}
	if good < 18 || turned == 0 {
		t.Errorf("%d came in and %d were turned away", good, turned)
	}
}

func TestNames(t *testing.T) {
	for name, good := range map[string]bool{"ada": true, "ada@example.com": true, "a.b-c_d+e": true, "0": true, strings.Repeat("a", 64): true,
		"": false, "Ada": false, "key:admin": false, "token:ci": false, "local": false, "nobody": false, "a b": false, "-a": false, "a/b": false, strings.Repeat("a", 65): false, "é": false} {
		if err := access.CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}
