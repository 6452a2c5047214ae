package crm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

func (w *world) replayed() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for _, c := range w.calls {
		if c.replay != "" {
			n[c.tenant+"/"+c.id]++
		}
	}
	return n
}

// C14: events of a time span, both ends included, of a type and a tenant, once for a request,
// and again for a later one.
func TestReplay(t *testing.T) {
	each(t, func(w *world) {
		w.start(crm.Options{}, w.does(func(c *handler.Call) error {
			if c.Event.ID == "bad" && c.Replay == "" {
				return tidemill.Fail(tidemill.Business, "no")
			}
			return nil
		}, "*"))
		ctx := context.Background()
		for _, e := range [][]byte{raw("club", "1", "a", ""), raw("club", "2", "a", ""), raw("club", "3", "b", ""), raw("other", "4", "a", ""), raw("club", "bad", "a", ""), raw("club", "6", "a", "")} {
			w.send(e)
			rest(time.Minute)
		}
		from, to := w.record("club", "2").Created, w.record("club", "bad").Created
		if _, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "a b"}); tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("a bad name: %v", err)
		}
		if _, err := w.sys.Replay(ctx, crm.ReplayRequest{From: to, To: from}); tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("backwards: %v", err)
		}
		if _, err := w.sys.Replay(ctx, crm.ReplayRequest{From: time.Now().Add(time.Minute)}); tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), "still to come") {
			w.Errorf("a replay of what is still to come: %v", err)
		}
		for _, c := range []struct {
			r    crm.ReplayRequest
			want string
		}{
			{crm.ReplayRequest{ID: "r1", From: from, To: to}, "map[club/2:1 club/3:1 club/bad:1 other/4:1]"},
			{crm.ReplayRequest{ID: "r1", From: from, To: to}, "map[club/2:1 club/3:1 club/bad:1 other/4:1]"}, // the same one
			{crm.ReplayRequest{ID: "r2", From: from, To: to, Tenant: "club", Type: "a"}, "map[club/2:2 club/3:1 club/bad:2 other/4:1]"},
			{crm.ReplayRequest{Tenant: "other"}, "map[club/2:2 club/3:1 club/bad:2 other/4:2]"}, // a later one
			{crm.ReplayRequest{Tenant: "other"}, "map[club/2:2 club/3:1 club/bad:2 other/4:3]"}, // and a later one yet
		} {
			r, err := w.sys.Replay(ctx, c.r)
			fatal(w, err)
			rest(time.Minute)
			w.same(fmt.Sprintf("after %+v", c.r), w.replayed(), c.want)
			r, err = w.sys.ReplayOf(ctx, r.ID)
			fatal(w, err)
			if r.State != crm.ReplayDone || r.Queued == 0 || r.Share != 1 || r.Ended.IsZero() {
				w.Errorf("it is %+v", r)
			}
		}
		if _, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "r1", From: from}); !errors.Is(err, crm.ErrReplayTaken) {
			w.Errorf("another of that name: %v", err)
		}
		w.same("what failed is completed", w.record("club", "bad").State, crm.IsCompleted)
		all, err := w.sys.Replays(ctx)
		if err != nil || len(all) != 4 || all[3].ID != "r1" || !all[3].From.Equal(from) || all[2].Type != "a" {
			w.Errorf("%d replays, %v", len(all), err)
		}
		if _, err := w.sys.ReplayOf(ctx, "none"); !errors.Is(err, crm.ErrNoReplay) {
			w.Errorf("one that is not there: %v", err)
		}
		w.balanced()
	})
}

// C14: a replay of many never fills the queue, delays no other, and shows its progress.
func TestAReplayOfManyIsBounded(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{PerSecond: -1, PerTenant: -1, ReplayAhead: 100}, w.does(nil, "*"))
		w.send(many("club", "member.updated", 3000)...)
		rest(10 * time.Second)
		_, err := w.queues.Set(context.Background(), crm.Queue, func(s *queue.Settings) { s.Limit.PerSecond, s.Limit.Burst = 100, 1 })
		fatal(w, err)
		r, err := w.sys.Replay(context.Background(), crm.ReplayRequest{})
		fatal(w, err)
		share, queued := -1.0, -1
		for r.State == crm.ReplayRunning {
			rest(5 * time.Second)
			depths, err := w.queues.Depths(context.Background(), crm.Queue)
			fatal(w, err)
			for _, d := range depths {
				if d.Priority != priority.Replay || d.Waiting > 100 {
					w.Fatalf("%+v waits, want at most 100 of the lowest priority", d)
				}
			}
			sent := time.Now()
			w.send(raw("other", fmt.Sprint("live", sent.UnixNano()), "member.updated", ""))
			rest(time.Second)
			if last := w.last("other"); last.at.Before(sent) || last.at.Sub(sent) > 600*time.Millisecond { // 40 are held, at 100 a second
				w.Errorf("a live event waited %v", last.at.Sub(sent))
			}
			if r, err = w.sys.ReplayOf(context.Background(), r.ID); err != nil || r.Queued < queued || r.Share < share {
				w.Fatalf("%+v, %v: it goes backwards", r, err)
			}
			share, queued = r.Share, r.Queued
		}
		rest(time.Minute)
		w.same("replayed", fmt.Sprint(len(w.replayed()), r.Queued), "3000 3000")
		w.balanced()
	})
}

// last is the last call for a tenant.
func (w *world) last(tenant string) (last call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.tenant == tenant && !c.at.Before(last.at) {
			last = c
		}
	}
	return last
}

// C14: a stopped replay makes no more jobs, and its existing ones are skipped.
func TestStoppingAReplay(t *testing.T) {
	each(t, func(w *world) {
		w.start(crm.Options{PerSecond: -1, PerTenant: -1, ReplayAhead: 100}, w.does(nil, "*"))
		w.send(many("club", "member.updated", 1000)...)
		rest(10 * time.Second)
		ctx := context.Background()
		set := func(change func(*queue.Settings)) {
			_, err := w.queues.Set(ctx, crm.Queue, change)
			fatal(w, err)
		}
		set(func(s *queue.Settings) { s.Limit.PerSecond, s.Limit.Burst = 20, 1 })
		_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(10 * time.Second)
		fatal(w, w.sys.StopReplay(ctx, "r"))
		fatal(w, w.sys.StopReplay(ctx, "r"))
		set(func(s *queue.Settings) { s.Limit = queue.Limit{} })
		rest(5 * time.Second)
		n := len(w.replayed())
		if n < 150 || n > 250 {
			w.Errorf("%d were replayed, want about 200 before it was stopped", n)
		}
		if r, err := w.sys.ReplayOf(ctx, "r"); err != nil || r.State != crm.ReplayEnded || r.Queued > 400 {
			w.Errorf("%+v, %v", r, err)
		}
		rest(time.Minute)
		w.same("later", len(w.replayed()), n)
		if err := w.sys.StopReplay(ctx, "none"); !errors.Is(err, crm.ErrNoReplay) {
			w.Errorf("one that is not there: %v", err)
		}
		w.balanced()
	})
}

// C14: a replay continues after a crash, and after the queue was drained.
func TestAReplayGoesOn(t *testing.T) {
	each(t, func(w *world) {
		o := crm.Options{PerSecond: -1, PerTenant: -1, ReplayAhead: 50}
		w.start(o, w.does(nil, "*"))
		w.send(many("club", "member.updated", 500)...)
		rest(10 * time.Second)
		ctx := context.Background()
		set := func(change func(*queue.Settings)) {
			_, err := w.queues.Set(ctx, crm.Queue, change)
			fatal(w, err)
		}
		set(func(s *queue.Settings) { s.Paused = true })
		_, err := w.sys.Replay(ctx, crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(2 * time.Second)
		w.down()
		w.start(o, w.does(nil, "*"))
		set(func(s *queue.Settings) { s.Paused, s.Closed = false, true })
		rest(2 * time.Second)
		w.same("while it is drained", len(w.replayed()), 50)
		set(func(s *queue.Settings) { s.Closed = false })
		rest(time.Minute)
		n := w.replayed()
		if len(n) != 500 {
			w.Errorf("%d of 500 were replayed", len(n))
		}
		for id, n := range n {
			if n != 1 {
				w.Errorf("%s was replayed %d times", id, n)
			}
		}
		w.balanced()
	})
}

// A replay of an event that fails keeps its tries, dies as itself, and is retried as a replay.
func TestAReplayThatFails(t *testing.T) {
	in(t, func(w *world) {
		broken := false
		w.start(crm.Options{}, w.does(func(*handler.Call) error {
			if broken {
				return errors.New("no")
			}
			return nil
		}, "*"))
		w.send(raw("club", "e1", "a", ""))
		rest(time.Second)
		broken = true
		_, err := w.sys.Replay(context.Background(), crm.ReplayRequest{ID: "r"})
		fatal(w, err)
		rest(time.Minute)
		w.same("dead", w.dead(), "e1 transient")
		w.same("sync log", w.record("club", "e1").State, crm.IsFailed)
		broken = false
		fatal(w, w.sys.Retry(context.Background(), "club", "e1"))
		rest(time.Minute)
		w.same("calls", w.called(func(c call) string { return fmt.Sprint(c.attempt, c.replay) }), "1 1r 1r 2r 3r")
		w.same("in the end", w.dead()+w.record("club", "e1").State, crm.IsCompleted)
		w.balanced()
	})
}
