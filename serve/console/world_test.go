package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/serve/live"
	state "github.com/tidemill/tidemill/state/access"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/bulk/tablebulk"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/state/view"
	"github.com/tidemill/tidemill/systems"
)

// world is a console over stores in memory.
type world struct {
	*consoletest.Browser
	queues  *memoryqueue.Store
	dead    deadletter.Store
	audit   func(context.Context) (any, bool, error)
	checked int           // times that the doctor looked
	later   time.Duration // that the clock of operations is ahead
	moves   bulk.Store    // operations
	trail   trail.Trail
	grants  *tableaccess.Store[*memorytable.Tx]
	operate func(context.Context) error
	fates   *live.Feed
}

type part func(*world, *admin.Parts, *console.Parts)

// without takes the stores away: this instance has no queues and keeps no dead letters.
func without(_ *world, a *admin.Parts, _ *console.Parts) {
	a.Common, a.Letters, a.Fates = &answer.Common{}, nil, nil
}

// in is a world of an environment.
func in(environment string) part {
	return func(_ *world, _ *admin.Parts, c *console.Parts) { c.Environment = environment }
}

func newWorld(t *testing.T, parts ...part) *world {
	t.Helper()
	w := &world{queues: memoryqueue.New(memoryqueue.Options{Capacity: 5000}), later: time.Second, moves: tablebulk.Memory(), trail: tabletrail.Memory(), grants: tableaccess.Memory()}
	w.fates = live.New(func() time.Time { return time.Now().Add(w.later) }, rand.IntN)
	var err error
	if w.dead, err = tabledeadletter.Memory(deadletter.Options{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	w.audit = func(context.Context) (any, bool, error) {
		dead := len(w.letters())
		return map[string]any{"system": "analytics", "balanced": true, "accepted": 12000, "delivered": 11990, "skipped": 3, "dead": dead, "in_flight": 7 - dead, "lost": 0,
			"dead_letters": map[string]any{"put": dead, "held": dead}, "faults": []string{}}, true, nil
	}
	a := admin.Parts{Common: &answer.Common{Queues: w.queues}, Letters: w.dead, Config: func() *config.Loaded { return cfg }, Rooms: systems.All().Rooms(nil), Owners: systems.All().Owners(), Once: tableledger.Memory(tableledger.Options{}),
		Finds: []answer.Finds{{System: "delivery", Finder: lives{}}, {System: "crm", Missing: "crm does not run in this instance"}},
		Bulk:  w.moves, Views: w.grants.Views(), Trail: w.trail, Fates: w.fates, People: access.Options{Store: w.grants, Cost: access.Cost{KiB: 64, Passes: 1}},
		Now:     func() time.Time { return time.Now().Add(w.later) },
		Started: time.Now().Add(-time.Hour), Version: "v1", Systems: []admin.System{{Name: "analytics", Audit: func(ctx context.Context) (any, bool, error) { return w.audit(ctx) }}, {Name: "delivery", Audit: func(context.Context) (any, bool, error) {
			return map[string]any{"system": "delivery", "balanced": true, "queues": []any{}, "faults": []string{}}, true, nil
		}}},
		Doctor: func(context.Context) []preflight.Finding {
			w.checked++
			return []preflight.Finding{{Check: "database", Verdict: "ok", Detail: "every page readable"}, {Check: "disk", Verdict: "warn", Detail: "1 GiB free", Advice: "make room soon"}}
		}}
	c := console.Parts{Parts: page.Parts{Once: true}, Systems: systems.All().Pages(nil)}
	for _, p := range parts {
		p(w, &a, &c)
	}
	w.Browser = consoletest.New(t, a, c)
	w.operate = w.API.Operate()
	return w
}

// starts confirms an action that starts an operation, and returns its page.
func (w *world) starts(path string, more url.Values) string {
	w.Helper()
	to, _, _ := strings.Cut(w.Confirm(path, more), "?")
	if !strings.HasPrefix(to, "/console/operations/") {
		w.Fatalf("%s leads to %s", path, to)
	}
	return to
}

// ends lets operations end: those that begin after a while too.
func (w *world) ends() {
	w.Helper()
	for w.later += 2 * time.Minute; ; w.later += time.Second {
		if err := w.operate(w.Context()); err != nil {
			w.Fatal(err)
		}
		if !strings.Contains(w.Page("/console/operations?state=active"), "<tbody>") {
			return
		}
	}
}

// fill puts jobs and dead letters of a text into the stores: each of their fields has it.
func (w *world) fill(said string) {
	w.Helper()
	ctx := w.Context()
	if _, err := w.queues.Set(ctx, "q", func(s *queue.Settings) {
		s.Completed.Count, s.Failed.Count, s.Tenants = 10, 10, map[string]queue.Limit{said: {PerSecond: 3}}
	}); err != nil {
		w.Fatal(err)
	}
	var jobs []*tidemill.Message
	for _, id := range []string{"e1", "e2", "e3", "e4"} {
		jobs = append(jobs, &tidemill.Message{To: "q", ID: id + said, Tenant: "shop" + said, Type: "purchase" + said, Payload: []byte(`{"n":1.10,"n":2,"big":12345678901234567890,"text":"` + strings.ReplaceAll(said, `"`, `\"`) + `"}`),
			Header: []tidemill.Field{{Name: []byte("h" + said), Value: []byte("v" + said)}}})
	}
	if err := w.queues.Add(ctx, jobs, nil); err != nil {
		w.Fatal(err)
	}
	src := w.queues.Open("q", queue.Options{})
	out := []*tidemill.Message{new(tidemill.Message), new(tidemill.Message)}
	if n, err := src.Receive(ctx, out); n != 2 || err != nil {
		w.Fatal(n, err)
	}
	if err := src.Settle(ctx, []tidemill.Settlement{
		{ID: out[0].ID, Mark: out[0].Mark, Fate: tidemill.Dead, Cause: "refused" + said},
		{ID: out[1].ID, Mark: out[1].Mark, End: tidemill.Again, CountTry: true, After: time.Hour, Kind: tidemill.Partner, Cause: "answered 503" + said},
	}); err != nil {
		w.Fatal(err)
	}
	var dead []tidemill.DeadLetter
	for i, id := range []string{"d1", "d2", "d3"} {
		m := &tidemill.Message{ID: id + said, Tenant: "shop", Type: "purchase" + said, To: "s2s.p", Payload: []byte(`{"n":1.10,"text":"` + strings.ReplaceAll(said, `"`, `\"`) + `"}`), Header: []tidemill.Field{{Name: []byte("h" + said), Value: []byte("v" + said)}}, Mark: tidemill.Mark{Lo: uint64(i + 1)}}
		dead = append(dead, tidemill.DeadLetter{Pipeline: "s2s.p", Message: m, Kind: tidemill.Partner, Cause: "answered 422" + said, Tries: 3, At: time.Now().Add(-time.Duration(i+1) * time.Minute), Row: []byte(`{"status":422,"body":"no"}`)})
	}
	if err := w.dead.Put(ctx, dead); err != nil {
		w.Fatal(err)
	}
	for _, kind := range []state.Kind{state.User, state.Token, state.Session} {
		id := strings.Repeat("0123456789abcdef", 4)
		if kind == state.User {
			id = "grace"
		}
		if err := w.grants.Add(ctx, state.Grant{Kind: kind, ID: id, Name: "grace" + said, Role: "viewer", By: "link" + said, From: "192.0.2.7", Browser: "browser" + said, Made: time.Now()}); err != nil {
			w.Fatal(err)
		}
	}
	// A name has 80 characters, and the text is longer: it is in all of them.
	for i, owner := range []string{"ada", "grace" + said} {
		name := "late " + said
		if _, err := w.grants.Views().Add(ctx, view.View{Name: strings.TrimSpace(name[:min(len(name), view.MostName)]), Address: "/console/dead?text=" + url.QueryEscape(said), Owner: owner, Shared: i == 1, Made: time.Now()}); err != nil {
			w.Fatal(err)
		}
	}
	seq, err := w.trail.Begin(ctx, trail.Entry{At: time.Now().Add(-time.Hour), Who: "eve" + said, Role: "viewer", Via: "password" + said, From: "192.0.2.1", Operation: "pauseQueue" + said, Thing: "q" + said, Filter: "x=" + said, Request: "r" + said})
	if err == nil {
		err = w.trail.End(ctx, seq, trail.End{Ended: time.Now(), Outcome: trail.Refused, Status: 403, Detail: "no" + said, Before: said, After: `{"paused":true}`})
	}
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.fates.Look(live.Filter{}); err != nil {
		w.Fatal(err)
	}
	w.fates.Pipeline("delivery", "s2s.p").Ended([]tidemill.Settlement{{ID: "f1" + said, Fate: tidemill.Dead, Outcome: tidemill.Applied, Cause: "answered 500" + said}}, func(int) *tidemill.Message {
		return &tidemill.Message{Tenant: "shop" + said, Type: "purchase" + said, Time: time.Now().Add(-time.Minute)}
	})
	w.fates.Came("delivery", "shop"+said, "", 1, "unauthorized: no"+said)
	w.later += time.Second
	filter, err := json.Marshal(&api.OperationThings{IDs: []string{"d1" + said}, Dead: api.Dead{Pipeline: "p" + said}})
	if err != nil {
		w.Fatal(err)
	}
	if err := w.moves.Add(ctx, &bulk.Operation{ID: "op", Kind: api.DeadReplay, Scope: "p", Filter: filter, By: "ada" + said, StoppedBy: "eve" + said, State: bulk.Stopped, Total: 9,
		Progress: bulk.Progress{Failed: map[string]int{"damaged": 1}, Failures: []bulk.Failure{{Key: "/0/1", ID: "d1" + said, Owner: "shop" + said, Reason: "damaged"}}}, Why: "it broke" + said, Made: time.Now().Add(-time.Hour), Ended: time.Now()}); err != nil {
		w.Fatal(err)
	}
}

// letters are the dead letters, by their number.
func (w *world) letters() (all []*deadletter.Letter) {
	w.Helper()
	for l, err := range w.dead.List(w.Context(), deadletter.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

var errAway = errors.New("the store is away")
