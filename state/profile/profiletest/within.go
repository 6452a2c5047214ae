package profiletest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

var within = []testcase{
	{"in a transaction, profiles are committed with the effect", "an event must count once", func(w *world) {
		if w.Within == nil {
			return
		}
		old := w.created(who("m-1", "", ""))
		var got [3]profile.Answer
		err := w.Within(w.Context(), "x", func(ctx context.Context, p profile.Profiles) error {
			asks := []profile.Ask{who("m-1", "ann@club.example", ""), who("m-2", "", ""), who("", "", "no phone")}
			if err := p.Resolve(ctx, asks, got[:]); err != nil {
				return err
			}
			err := p.Update(ctx, []profile.Change{change(got[0].Profile, "e", -1, add("n", "1")), change(uuid.UUID{7}, "e", -1), change(got[1].Profile, "e", -1, add("n", "2"))})
			failed, ok := errors.AsType[*tidemill.Partial](err)
			if !ok || len(failed.Failed) != 1 || failed.Failed[0].Index != 1 {
				w.Errorf("Update: %v, want a Partial of change 1", err)
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
		if got[0] != (profile.Answer{Profile: old}) || !got[1].New || !errors.Is(got[2].Err, profile.ErrIdentity) {
			w.Errorf("got %+v", got)
		}
		w.has(old, ext("m-1"), mail("ann@club.example"))
		w.holds(old, `{"n":1}`)
		w.holds(got[1].Profile, `{"n":2}`)
		w.found(got[1].Profile, known("m-2", "", ""))
		if effects := w.Effects(w.T); !slices.Equal(effects, []string{"x"}) {
			w.Errorf("effects %q", effects)
		}
	}},
	{"in a transaction that fails, nothing is changed, and the next one does it", "half an effect is no effect", func(w *world) {
		if w.Within == nil {
			return
		}
		old := w.created(who("m-1", "", ""))
		boom := errors.New("boom")
		do := func(fails error) func(context.Context, profile.Profiles) error {
			return func(ctx context.Context, p profile.Profiles) error {
				answers := make([]profile.Answer, 2)
				if err := p.Resolve(ctx, []profile.Ask{who("m-1", "ann@club.example", ""), who("m-2", "", "")}, answers); err != nil {
					return err
				}
				if !answers[1].New {
					w.Errorf("got %+v, want it new", answers[1])
				}
				return errors.Join(p.Update(ctx, []profile.Change{change(old, "e", -1, add("n", "1"))}), fails)
			}
		}
		if err := w.Within(w.Context(), "x", do(boom)); !errors.Is(err, boom) {
			w.Errorf("got %v, want the handler's error", err)
		}
		w.has(old, ext("m-1"))
		w.holds(old, `{}`)
		if ps := w.all(); len(ps) != 1 || len(w.Effects(w.T)) != 0 {
			w.Errorf("there are %d profiles and effects %q", len(ps), w.Effects(w.T))
		}
		if err := w.Within(w.Context(), "y", do(nil)); err != nil {
			w.Fatal(err)
		}
		w.holds(old, `{"n":1}`)
		w.found(old, known("", "ann@club.example", ""))
	}},
	{"an identity whose creator fails is free for the one that waits", "a profile that was never committed belongs to no event", func(w *world) {
		if w.Within == nil {
			return
		}
		boom := errors.New("boom")
		var wg sync.WaitGroup
		waited, first := make([]profile.Answer, 2), make([]profile.Answer, 1)
		err := w.Within(w.Context(), "x", func(ctx context.Context, p profile.Profiles) error {
			if err := p.Resolve(ctx, []profile.Ask{who("m-1", "", "")}, first); err != nil {
				return err
			}
			wg.Go(func() {
				if err := w.Store.Resolve(w.Context(), []profile.Ask{who("m-1", "ann@club.example", ""), who("m-2", "", "")}, waited); err != nil {
					w.Errorf("Resolve: %v", err)
				}
			})
			return boom
		})
		wg.Wait()
		if !errors.Is(err, boom) || !waited[0].New || waited[0].Profile == first[0].Profile || !waited[1].New {
			w.Errorf("got %v and %+v after %+v", err, waited, first)
		}
		w.found(waited[0].Profile, known("m-1", "", ""))
	}},
	{"in a transaction, what it has done is seen by what it does next", "a handler may resolve twice", func(w *world) {
		if w.Within == nil {
			return
		}
		err := w.Within(w.Context(), "x", func(ctx context.Context, p profile.Profiles) error {
			answers := make([]profile.Answer, 2)
			if err := p.Resolve(ctx, []profile.Ask{who("m-1", "", ""), known("m-2", "", "")}, answers); err != nil {
				return err
			}
			id := answers[0].Profile
			w.refused(answers[1].Err, tidemill.NotFound, profile.ErrNotFound)
			if err := p.Resolve(ctx, []profile.Ask{known("m-1", "", "12345"), known("", "", "12345")}, answers); err != nil {
				return err
			}
			if answers[0] != (profile.Answer{Profile: id}) || answers[1] != answers[0] {
				w.Errorf("got %+v, want %v", answers, id)
			}
			return errors.Join(p.Update(ctx, []profile.Change{change(id, "a", -1, add("n", "1"))}), p.Update(ctx, []profile.Change{change(id, "b", -1, add("n", "1"))}),
				p.Resolve(ctx, nil, nil), p.Update(ctx, nil))
		})
		if err != nil {
			w.Fatal(err)
		}
		p, err := w.Store.Find(w.Context(), tenant, phone("12345"))
		if err != nil || string(p.Object()) != `{"n":2}` {
			w.Errorf("Find: %+v, %v", p, err)
		}
	}},
	{"in a transaction, an ended context changes nothing", "shutdown must not wait", func(w *world) {
		if w.Within == nil {
			return
		}
		err := w.Within(w.Context(), "x", func(ctx context.Context, p profile.Profiles) error {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			err := p.Resolve(ended, []profile.Ask{who("m-1", "", "")}, make([]profile.Answer, 1))
			if !errors.Is(err, context.Canceled) || !errors.Is(p.Update(ended, []profile.Change{change(uuid.UUID{7}, "e", 0)}), context.Canceled) {
				w.Errorf("got %v, want the context's error", err)
			}
			return err
		})
		if !errors.Is(err, context.Canceled) || len(w.all()) != 0 {
			w.Errorf("got %v and %d profiles", err, len(w.all()))
		}
	}},
}
