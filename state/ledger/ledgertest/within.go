package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/state/ledger"
)

// writes is a handler with one effect that ends all entries as Done.
func writes(name string, es ...*ledger.Entry) func(context.Context, func(string) error) error {
	return func(_ context.Context, effect func(string) error) error {
		for _, e := range es {
			e.State, e.Result = ledger.Done, []byte("r")
		}
		return effect(name)
	}
}

var withinCases = []testcase{
	{"commits the effect with the end", "an effect without its end comes twice, an end without its effect never", func(t *testing.T, h Harness) {
		a, b := fresh(t, h.Ledger, "a", "h"), fresh(t, h.Ledger, "b", "h")
		if err := h.Within(t.Context(), []*ledger.Entry{b, a}, writes("x", a, b)); err != nil {
			t.Fatal(err)
		}
		if got := h.Effects(t); !slices.Equal(got, []string{"x"}) {
			t.Errorf("effects: %q, want x", got)
		}
		for _, e := range all(t, h.Ledger, ledger.Filter{}) {
			if e.State != ledger.Done || string(e.Result) != "r" || !e.Ended.Equal(h.Clock.Now()) || a.Stale || !a.Ended.Equal(e.Ended) {
				t.Errorf("got %+v", e)
			}
		}
	}},
	{"ends as the handler says, also otherwise than Done", "a handler finds out only by its own queries", func(t *testing.T, h Harness) {
		a, b, c := fresh(t, h.Ledger, "a", "h"), fresh(t, h.Ledger, "b", "h"), fresh(t, h.Ledger, "c", "h")
		if err := h.Within(t.Context(), []*ledger.Entry{a, b, c}, func(_ context.Context, effect func(string) error) error {
			a.State, b.State, b.Err, c.State = ledger.Done, ledger.Failed, "refused", ledger.Dropped
			return effect("x")
		}); err != nil {
			t.Fatal(err)
		}
		got := all(t, h.Ledger, ledger.Filter{})
		if len(got) != 2 || got[0].State != ledger.Done || got[1].State != ledger.Failed || got[1].Err != "refused" {
			t.Errorf("got %+v", got)
		}
	}},
	{"undoes everything where the handler fails, or ends nothing", "half an effect is no effect", func(t *testing.T, h Harness) {
		boom := errors.New("boom")
		for _, failing := range []func(e *ledger.Entry, effect func(string) error) error{
			func(e *ledger.Entry, effect func(string) error) error {
				e.State = ledger.Done
				return errors.Join(effect("x"), boom)
			},
			func(_ *ledger.Entry, effect func(string) error) error { return effect("x") }, // its State is Fresh: not an end
		} {
			e := fresh(t, h.Ledger, "k", "h")
			err := h.Within(t.Context(), []*ledger.Entry{e}, func(_ context.Context, effect func(string) error) error { return failing(e, effect) })
			if err == nil || e.State == ledger.Done && !errors.Is(err, boom) {
				t.Errorf("got %v, want the handler's error", err)
			}
			if got := h.Effects(t); len(got) != 0 {
				t.Errorf("effects: %q, want none", got)
			}
			if got := all(t, h.Ledger, ledger.Filter{})[0]; got.State != ledger.Running {
				t.Errorf("got %v, want running", got.State)
			}
			if end(t, h.Ledger, e, ledger.Failed, "", "boom") {
				t.Error("its End was stale")
			}
		}
	}},
	{"refuses all where one is stale, before the handler runs", "who lost a lease must not have an effect", func(t *testing.T, h Harness) {
		for _, spoil := range []func(e *ledger.Entry){
			func(*ledger.Entry) { fresh(t, h.Ledger, "lost", "h") },
			func(e *ledger.Entry) { end(t, h.Ledger, e, ledger.Dropped, "", "") },
			func(e *ledger.Entry) { end(t, h.Ledger, e, ledger.Done, "by another", "") },
			func(e *ledger.Entry) { e.Token = 0 },
		} {
			lost, kept := fresh(t, h.Ledger, "lost", "h"), fresh(t, h.Ledger, "kept", "h")
			spoil(lost)
			called := false
			err := h.Within(t.Context(), []*ledger.Entry{lost, kept}, func(_ context.Context, effect func(string) error) error {
				called = true
				return effect("x")
			})
			if !errors.Is(err, ledger.ErrStale) || called || !lost.Stale || kept.Stale {
				t.Errorf("%v, called %v, stale %v and %v; want ErrStale, and only the first", err, called, lost.Stale, kept.Stale)
			}
			if got := h.Effects(t); len(got) != 0 {
				t.Errorf("effects: %q, want none", got)
			}
			if end(t, h.Ledger, kept, ledger.Failed, "", "") {
				t.Error("the End of the other was stale")
			}
			if e := begin(t, h.Ledger, "lost", "z", ledger.Begin{Anew: true}); e.State == ledger.Fresh {
				end(t, h.Ledger, e, ledger.Failed, "", "")
			} else if e.State == ledger.Running {
				end(t, h.Ledger, fresh(t, h.Ledger, "lost", "h"), ledger.Failed, "", "")
			}
		}
	}},
	{"has no second effect when it is sent again after its commit", "the answer to a commit may be lost", func(t *testing.T, h Harness) {
		a, b := fresh(t, h.Ledger, "a", "h"), fresh(t, h.Ledger, "b", "h")
		for i := range 3 {
			if err := h.Within(t.Context(), []*ledger.Entry{a, b}, writes(fmt.Sprint("x", i), a, b)); err != nil {
				t.Fatal(err)
			}
			if a.Stale || a.Ended.IsZero() {
				t.Errorf("got %+v, want its first end", a)
			}
		}
		if got := h.Effects(t); !slices.Equal(got, []string{"x0"}) {
			t.Errorf("effects: %q, want the first", got)
		}
	}},
	{"has one effect where many send the same at once", "a holder whose answer is late sends it again, beside itself", func(t *testing.T, h Harness) {
		for round := range 5 {
			a, b := fresh(t, h.Ledger, fmt.Sprint("a", round), "h"), fresh(t, h.Ledger, fmt.Sprint("b", round), "h")
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					mine := []*ledger.Entry{{Key: b.Key, Token: b.Token}, {Key: a.Key, Token: a.Token}}
					if err := h.Within(t.Context(), mine, writes(fmt.Sprint(round), mine...)); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if got := h.Effects(t); !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("effects: %q, want one of each round", got)
		}
	}},
	{"does nothing for nobody, nor under a context that has ended", "a transaction costs a commit", func(t *testing.T, h Harness) {
		if err := h.Within(t.Context(), nil, func(context.Context, func(string) error) error { t.Error("called"); return nil }); err != nil {
			t.Error(err)
		}
		e := fresh(t, h.Ledger, "k", "h")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Within(ctx, []*ledger.Entry{e}, writes("x", e)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
		if got := h.Effects(t); len(got) != 0 {
			t.Errorf("effects: %q, want none", got)
		}
	}},
}
