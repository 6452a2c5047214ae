package access_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/caller"
	state "github.com/tidemill/tidemill/state/access"
)

// meanwhile does something between the look at a user or a token and the session that it lets begin.
type meanwhile struct {
	state.Store
	do func()
}

func (m *meanwhile) Add(ctx context.Context, g state.Grant) error {
	if do := m.do; g.Kind == state.Session && do != nil {
		m.do = nil
		do()
	}
	return m.Store.Add(ctx, g)
}

// A session that is not there yet is not ended by what ends those of its user.
func TestALoginDoesNotOutliveWhatIsTakenMeanwhile(t *testing.T) {
	var between *meanwhile
	w := newWorld(t, func(o *access.Options) {
		between = &meanwhile{Store: o.Store}
		o.Store = between
	})
	change := func(do func(*state.Grant)) func() {
		return func() {
			if _, err := w.store.Change(w.Context(), state.User, "ada", state.Change{Do: func(g *state.Grant) error { do(g); return nil }}); err != nil {
				t.Error(err)
			}
		}
	}
	remove := func(kind state.Kind, id string) func() {
		return func() {
			if _, err := w.store.Remove(w.Context(), kind, id); err != nil {
				t.Error(err)
			}
		}
	}
	secret, _, err := w.NewToken(t.Context(), "ci", caller.All(caller.Viewer), 0)
	if err != nil {
		t.Fatal(err)
	}
	byPassword := access.Proof{Name: "ada", Password: password}
	for what, c := range map[string]struct {
		by access.Proof
		do func()
	}{
		"role":     {byPassword, change(func(g *state.Grant) { g.Role = "viewer" })},
		"password": {byPassword, change(func(g *state.Grant) { g.Hash += "x" })},
		"removed":  {byPassword, remove(state.User, "ada")},
		"revoked":  {access.Proof{Token: secret}, remove(state.Token, state.IDOf(secret))},
	} {
		between.do = c.do
		_, _, err := w.enter(from(http.MethodPost), c.by)
		w.is(err, http.StatusUnauthorized)
		if left, err := w.store.List(t.Context(), state.Session, ""); err != nil || len(left) != 0 {
			t.Errorf("%s: %d sessions are left, %v", what, len(left), err)
		}
		_, _ = w.store.Remove(t.Context(), state.User, "ada")
		w.add("ada", "operator")
	}
	w.in(byPassword)
}
