package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// countOf is the count of a page, as it is written; empty: it has none.
func countOf(d *desk, path string) string {
	d.Helper()
	var p struct {
		Count json.RawMessage `json:"count"`
	}
	if err := json.Unmarshal([]byte(d.get(path)), &p); err != nil {
		d.Fatal(err)
	}
	return string(p.Count)
}

func TestPagesAreCounted(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, s := queues(t)
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Letters: letters})
	for i := range 12 {
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: fmt.Sprint("p", i%2), Kind: tidemill.Partner, Message: &tidemill.Message{ID: fmt.Sprint(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"queues/q/jobs?limit=2":                                        "",
		"queues/q/jobs?limit=2&count=none":                             "",
		"queues/q/jobs?limit=2&count=bounded":                          `{"value":5}`,
		"queues/q/jobs?limit=2&count=exact&state=waiting":              `{"value":3}`,
		"queues/q/jobs?limit=2&count=bounded&tenant=shop":              `{"value":4}`,
		"queues/q/jobs?limit=2&count=exact&state=failed&type=purchase": `{"value":0}`,
		"dead?limit=5&count=bounded":                                   `{"value":12}`,
		"dead?limit=5&count=exact&pipeline=p1":                         `{"value":6}`,
		"dead?limit=5&count=bounded&kind=timeout":                      `{"value":0}`,
	} {
		if got := countOf(d, path); got != want {
			t.Errorf("%s: counted %s, want %s", path, got, want)
		}
	}
	refused(t, d.ask(http.MethodGet, "dead?count=bounded", ""), http.StatusBadRequest, "count are of pages")
	refused(t, d.ask(http.MethodGet, "dead?limit=5&count=some", ""), http.StatusBadRequest, "count=")
	refused(t, d.ofRole(caller.Viewer, "dead?limit=5&count=exact"), http.StatusForbidden, "count=exact, and not count=bounded, needs the role operator")
}

// endless lists jobs for ever, each after a while.
type endless struct{ queue.Store }

func (e endless) List(_ context.Context, f queue.Filter) iter.Seq2[*queue.Job, error] {
	return func(yield func(*queue.Job, error) bool) {
		for n := 0; f.Max == 0 || n < f.Max; n++ {
			if f.Type == "slow" && n > 1 {
				time.Sleep(100 * time.Millisecond)
			}
			if !yield(&queue.Job{Message: tidemill.Message{ID: fmt.Sprint(n), To: "q"}, State: queue.Waiting}, nil) {
				return
			}
		}
	}
}

func TestACountIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{})
		if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "1"}}, nil); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: endless{s}}})
		defer d.api.Close()
		if got := countOf(d, "queues/q/jobs?limit=1&count=bounded&type=fast"); got != `{"value":10000,"at_least":true}` {
			t.Errorf("counted %s", got)
		}
		for kind, most := range map[string]time.Duration{"bounded": 500 * time.Millisecond, "exact": 2200 * time.Millisecond} {
			began := time.Now()
			got := countOf(d, "queues/q/jobs?limit=1&type=slow&count="+kind)
			if took := time.Since(began); took > most || got == `{"value":10000,"at_least":true}` || len(got) < len(`{"value":1,"at_least":true}`) {
				t.Errorf("%s counted %s in %v", kind, got, took)
			}
		}
		began := time.Now()
		w := d.ask(http.MethodPost, "queues/q/remove?type=slow&dry_run=true", "")
		var dry struct {
			Count   int  `json:"count"`
			AtLeast bool `json:"at_least"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &dry); err != nil || !dry.AtLeast || dry.Count < 2 || time.Since(began) > 2200*time.Millisecond {
			t.Errorf("a dry run counted %s in %v", w.Body, time.Since(began))
		}
	})
}

// slowLetters counts dead letters in a while.
type slowLetters struct {
	deadletter.Store
	takes atomic.Int64 // a duration
	asked atomic.Int64
}

func (s *slowLetters) Count(ctx context.Context, f deadletter.Filter) (int, error) {
	s.asked.Add(1)
	if err := sleep.For(ctx, time.Duration(s.takes.Load())); err != nil {
		return 0, err
	}
	return s.Store.Count(ctx, f)
}

// An owner's dead letters are counted once for all who look at it, and nobody waits for that.
func TestTheDeadLettersOfAnOwnerAreCountedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Kind: tidemill.Partner, Message: &tidemill.Message{ID: "1", Tenant: "shop"}}}); err != nil {
			t.Fatal(err)
		}
		slow := &slowLetters{Store: letters}
		slow.takes.Store(int64(200 * time.Millisecond))
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: memoryqueue.New(memoryqueue.Options{})}, Letters: slow})
		defer d.api.Close()
		look := func(want operation.Count, asked int64) {
			t.Helper()
			began := time.Now()
			var o api.Owner
			d.into(d.get("owners/shop"), &o)
			if took := time.Since(began); took > 30*time.Millisecond || o.Dead != want || slow.asked.Load() != asked {
				t.Errorf("%+v after %v, counted %d times; want %+v, %d times", o.Dead, took, slow.asked.Load(), want, asked)
			}
		}
		counting, one := operation.Count{AtLeast: true}, operation.Count{Value: 1}
		look(counting, 1)
		look(counting, 1)
		time.Sleep(time.Second)
		look(one, 1)
		time.Sleep(30 * time.Second) // 200 times as long as it took are not over
		look(one, 1)
		slow.takes.Store(int64(time.Minute))
		time.Sleep(30 * time.Second)
		look(one, 2)
		time.Sleep(time.Second)
		look(counting, 2)
	})
}
