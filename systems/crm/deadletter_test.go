package crm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

// C9: a dead event is tried again with all its tries, although its id is known, and its dead
// letter goes only when its job is durable.
func TestRetryOfADeadEvent(t *testing.T) {
	each(t, func(w *world) {
		broken := true
		w.start(crm.Options{}, w.does(func(*handler.Call) error {
			if broken {
				return tidemill.Fail(tidemill.Transient, "no connection")
			}
			return nil
		}, "*"))
		ctx := context.Background()
		if err := w.sys.Retry(ctx, "club", "e1"); !errors.Is(err, crm.ErrNoDeadLetter) || tidemill.KindOf(err) != tidemill.NotFound {
			w.Errorf("retry of what is not dead: %v", err)
		}
		w.send(raw("club", "e1", "member.created", `{"n":1.50}`), raw("club", "e2", "member.created", ""))
		rest(10 * time.Second)
		w.same("dead", w.dead(), "e1 transient, e2 transient")
		fatal(w, w.sys.Retry(ctx, "club", "e1"))
		rest(10 * time.Second)
		w.same("attempts of e1", w.called(func(c call) string {
			if c.id != "e1" {
				return ""
			}
			return fmt.Sprint(c.attempt)
		}), "   1 1 2 2 3 3")
		w.same("dead again, one letter", w.dead(), "e1 transient, e2 transient")

		// While the queue accepts nothing the dead letter stays.
		drain := func(yes bool) {
			_, err := w.queues.Set(ctx, crm.Queue, func(s *queue.Settings) { s.Closed = yes })
			fatal(w, err)
		}
		broken = false
		drain(true)
		fatal(w, w.sys.Retry(ctx, "club", "e1"))
		rest(time.Minute)
		w.same("while it is drained", w.dead(), "e1 transient, e2 transient")
		drain(false)
		rest(time.Minute)
		w.same("then", w.dead(), "e2 transient")
		r := w.record("club", "e1")
		w.same("sync log", fmt.Sprint(r.State, r.Attempts, string(r.Payload)), fmt.Sprint(crm.IsCompleted, 7, string(raw("club", "e1", "member.created", `{"n":1.50}`))))

		// All of them, by a filter.
		if n, err := w.letters.Replay(ctx, deadletter.Filter{Pipeline: crm.Queue, Kinds: []tidemill.Kind{tidemill.Transient}}); n != 1 || err != nil {
			w.Errorf("replay: %d, %v", n, err)
		}
		rest(time.Minute)
		w.same("in the end", w.dead()+w.record("club", "e2").State, crm.IsCompleted)
		w.balanced()
	})
}

// C9: kept for seven days, then deleted and counted.
func TestDeadLettersAreDeletedAfterAWeek(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{}, w.does(fails(tidemill.Business), "*"))
		later := func(d time.Duration) { // the system is stopped meanwhile: its loops would run many times
			w.down()
			rest(d)
			w.start(crm.Options{}, w.does(fails(tidemill.Business), "*"))
		}
		w.send(raw("club", "old", "a", ""))
		rest(time.Second)
		later(24 * time.Hour)
		w.send(raw("club", "new", "a", ""))
		rest(time.Second)
		later(6*24*time.Hour - time.Minute)
		w.same("before", w.dead(), "new business, old business")
		rest(3 * time.Minute)
		w.same("after", w.dead(), "new business")
		st, err := w.sys.Look(context.Background())
		fatal(w, err)
		a, err := w.sys.Audit(context.Background())
		fatal(w, err)
		w.same("counted", fmt.Sprint(st.Expired, a.Letters.Discarded), "1 1")
		w.balanced()
	})
}

// Retrying a dead letter whose event was completed meanwhile changes nothing.
func TestRetryOfWhatWasCompletedMeanwhile(t *testing.T) {
	in(t, func(w *world) {
		broken := true
		w.start(crm.Options{Attempts: 1}, w.does(func(*handler.Call) error {
			if broken {
				return errors.New("no")
			}
			return nil
		}, "*"))
		w.send(raw("club", "e1", "a", ""))
		rest(time.Second)
		broken = false
		if n, err := w.queues.Retry(context.Background(), queue.Filter{Queue: crm.Queue, State: queue.Failed}); n != 1 || err != nil {
			w.Fatalf("retry the job itself: %d, %v", n, err)
		}
		rest(time.Second)
		w.same("completed", w.record("club", "e1").State, crm.IsCompleted)
		fatal(w, w.sys.Retry(context.Background(), "club", "e1"))
		rest(time.Minute)
		w.same("attempts", w.ended(), "[e1 failed transient e1 completed e1 skipped duplicate]")
		w.same("dead", w.dead(), "")
		w.balanced()
	})
}
