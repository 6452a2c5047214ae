package crm_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
)

// Two replays of one event that come in one batch: each has to run it once more.
func TestTwoReplaysInOneBatch(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{Workers: 1}, w.does(nil, "*"))
		ctx := context.Background()
		w.send(raw("club", "e1", "a", ""))
		rest(time.Minute)
		_, err := w.queues.Set(ctx, crm.Queue, func(s *queue.Settings) { s.Paused = true })
		fatal(w, err)
		for _, id := range []string{"r1", "r2"} {
			_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: id})
			fatal(w, err)
		}
		rest(time.Minute)
		_, err = w.queues.Set(ctx, crm.Queue, func(s *queue.Settings) { s.Paused = false })
		fatal(w, err)
		rest(5 * time.Minute)
		w.same("replayed", w.replayed(), "map[club/e1:2]")
		w.same("ends", w.ended(), "[e1 completed e1 completed e1 completed]")
	})
}

// slowProfiles answer after a lease, once.
type slowProfiles struct {
	profile.Resolver
	slow *bool
	then func() // what else happens then; nil: nothing
}

func (p slowProfiles) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if *p.slow {
		*p.slow = false
		if p.then != nil {
			p.then()
		}
		time.Sleep(40 * time.Second)
	}
	return p.Resolver.Resolve(ctx, asks, answers)
}

// A worker that waited for the profiles for longer than its lease calls the handler, although
// another job of the event (here its replay) has been handled meanwhile.
func TestAWorkerThatLostItsEventCallsNoHandler(t *testing.T) {
	in(t, func(w *world) {
		ctx := context.Background()
		slow := false
		p := w.parts(w.does(nil, "*"))
		p.Profiles = slowProfiles{p.Profiles, &slow, nil}
		w.startWith(p, crm.Options{Workers: 2})
		w.send(raw("club", "e1", "a", ""))
		rest(time.Second)
		slow = true
		for _, id := range []string{"r1", "r2"} { // r1 waits for the profiles; r2 takes the event over after 30s
			_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: id})
			fatal(w, err)
			rest(2 * time.Second)
		}
		rest(35 * time.Second) // 39s: r2 has had it since its lease
		second := w.called(func(c call) string { return c.replay })
		rest(2 * time.Second) // 41s: the profiles answer r1, which has lost the event
		if again := w.called(func(c call) string { return c.replay }); second == " r2" && again != second {
			w.Errorf("r1 was handled under a lease that it had lost: %q, then %q", second, again)
		} else {
			w.Logf("%q, then %q", second, again)
		}
	})
}
