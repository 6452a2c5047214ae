package crm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

var errAway = tidemill.Fail(tidemill.Timeout, "nobody answers")

// awayLog is a sync log that can be switched off.
type awayLog struct {
	ledger.Store
	begin, end atomic.Bool
}

func (a *awayLog) Begin(ctx context.Context, es []*ledger.Entry, b ledger.Begin) error {
	if a.begin.Load() {
		return errAway
	}
	return a.Store.Begin(ctx, es, b)
}

func (a *awayLog) End(ctx context.Context, es []*ledger.Entry) error {
	if a.end.Load() {
		return errAway
	}
	return a.Store.End(ctx, es)
}

// awayProfiles are profiles that can be switched off.
type awayProfiles struct {
	profile.Store
	gone  atomic.Bool
	asked atomic.Int64
}

func (a *awayProfiles) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	if a.gone.Load() {
		a.asked.Add(1)
		return errAway
	}
	return a.Store.Resolve(ctx, asks, answers)
}

// C7: an outage of our own databases is never an event's failure; and not every waiting event
// asks them.
func TestAnOutageBurnsNoTries(t *testing.T) {
	for _, c := range []struct {
		name string
		gone func(*awayLog, *awayProfiles, bool)
	}{
		{"sync log, at the begin", func(l *awayLog, _ *awayProfiles, is bool) { l.begin.Store(is) }},
		{"sync log, at the end", func(l *awayLog, _ *awayProfiles, is bool) { l.end.Store(is) }},
		{"profiles", func(_ *awayLog, p *awayProfiles, is bool) { p.gone.Store(is) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(w *world) {
				log, profiles := &awayLog{Store: w.log}, &awayProfiles{Store: w.profiles}
				parts := w.parts(w.does(nil, "*"))
				parts.Log, parts.Profiles = log, profiles
				w.startWith(parts, crm.Options{})
				c.gone(log, profiles, true)
				w.send(many("club", "member.updated", 100)...)
				rest(time.Hour)
				w.same("dead", w.dead(), "")
				if n := profiles.asked.Load(); n > 2000 {
					w.Errorf("profiles were asked %d times in an hour in which they were away", n)
				}
				c.gone(log, profiles, false)
				rest(2 * time.Minute)
				done := 0
				for _, a := range w.attempts {
					if a.Status == crm.Failed || a.Number != 1 {
						w.Fatalf("an attempt counts: %+v", a)
					}
					if a.Status == crm.Completed {
						done++
					}
				}
				w.same("completed", done, 100)
				w.same("calls", len(w.calls), 100)
				w.same("dead", w.dead(), "")
				w.balanced()
			})
		})
	}
}

// C4: an event whose worker hangs is taken over when its lease is over, not when its job's
// is, and never by two at once.
func TestTakeover(t *testing.T) {
	each(t, func(w *world) {
		// A worker that has died: its entry exists, and its job comes to us.
		e := &ledger.Entry{Key: "club/e1", Tenant: "club", Type: "a", Holder: "0/0/1#1", Payload: raw("club", "e1", "a", "")}
		fatal(w, w.log.Begin(context.Background(), []*ledger.Entry{e}, ledger.Begin{Lease: 5 * time.Minute}))
		began := time.Now()
		w.start(crm.Options{}, w.does(nil, "*"))
		w.send(raw("club", "e1", "a", ""))
		rest(4 * time.Minute)
		w.same("while its lease lasts", w.called(ids), "")
		w.same("sync log", w.record("club", "e1").State, crm.Processing)
		rest(2 * time.Minute)
		w.same("then", w.called(ids), "e1")
		if took := w.calls[0].at.Sub(began); took < 5*time.Minute {
			w.Errorf("it was taken over after %v", took)
		}
		w.same("sync log", fmt.Sprint(w.record("club", "e1").State, w.record("club", "e1").Attempts), "COMPLETED2")
		w.same("attempts", w.ended(), "[e1 completed]")
	})
}

// C4: two instances, slow handlers, short leases: no two work on one event.
func TestTwoInstances(t *testing.T) {
	in(t, func(w *world) {
		busy := map[string]bool{}
		do := func(c *handler.Call) error {
			w.mu.Lock()
			if busy[c.Event.ID] {
				w.Errorf("%s is worked on by two", c.Event.ID)
			}
			busy[c.Event.ID] = true
			w.mu.Unlock()
			time.Sleep(9 * time.Second)
			w.mu.Lock()
			delete(busy, c.Event.ID)
			w.mu.Unlock()
			return nil
		}
		o := crm.Options{Workers: 2, Ahead: 20, Batch: 10, PerSecond: -1, PerTenant: -1}
		w.start(o, w.does(do, "*"))
		first := w.stop
		w.start(o, w.does(do, "*"))
		w.send(many("club", "a", 40)...)
		rest(10 * time.Minute)
		first()
		w.same("calls", len(w.calls), 40)
		w.balanced()
	})
}

// An event that kills its worker is dead in the end, and takes no other with it.
func TestAnEventThatKills(t *testing.T) {
	in(t, func(w *world) {
		o := crm.Options{Workers: 2}
		lives := 0
		for ; w.dead() == "" && lives < 60; lives++ {
			m := newMortal("killed", 1)
			if lives == 0 {
				var jobs []*tidemill.Message
				for _, id := range []string{"1", "killer", "3", "4"} {
					jobs = append(jobs, &tidemill.Message{ID: id, To: crm.Queue, Tenant: "club", Type: "a", Payload: raw("club", id, "a", "")})
				}
				fatal(w, w.queues.Add(context.Background(), jobs, nil))
			}
			w.live(m, o, func(m *mortal) []handler.Spec {
				return []handler.Spec{w.does(func(c *handler.Call) error {
					if c.Event.ID == "killer" {
						m.step("killed")
					}
					if m.died() {
						return errDead // the answer is lost
					}
					return nil
				}, "*")}
			}, func(*crm.System) {})
			time.Sleep(time.Minute)
		}
		w.same("dead", w.dead(), "killer unknown")
		if n := strings.Count(w.called(ids), "killer"); n < 5 || n > 15 {
			w.Errorf("it killed %d processes", n)
		}
		for _, id := range []string{"1", "3", "4"} {
			if r := w.record("club", id); r.State != crm.IsCompleted {
				w.Errorf("%s is %s, %s", id, r.State, r.Error)
			}
		}
		if r := w.record("club", "killer"); r.Kind != "unknown" || !strings.Contains(r.Error, "kill") {
			w.Errorf("%+v", r)
		}
	})
}

// C1: events of another system's queue, through an intake.
func TestIntake(t *testing.T) {
	each(t, func(w *world) {
		parts := w.parts(w.does(nil, "*"))
		parts.Intakes = []crm.Intake{{Name: "crm-bullmq", Source: w.queues.Open("foreign", queue.Options{})}}
		w.startWith(parts, crm.Options{})
		fatal(w, w.queues.Add(context.Background(), []*tidemill.Message{
			{ID: "17", To: "foreign", Payload: raw("club", "e1", "a", "")},
			{ID: "18", To: "foreign", Payload: raw("club", "e1", "a", "")},
			{ID: "19", To: "foreign", Payload: []byte(`{"id":"e2"}`)},
		}, nil))
		rest(time.Second)
		w.same("handled", w.called(func(c call) string { return c.tenant + "/" + c.id }), "club/e1")
		n := 0
		for l, err := range w.letters.List(context.Background(), allOf("crm-bullmq")) {
			fatal(w, err)
			w.same("letter", fmt.Sprint(l.ID, l.Kind), "19validation")
			n++
		}
		w.same("letters", n, 1)
		books := w.sys.Books()["crm-bullmq"]
		b, err := books.Books(context.Background())
		fatal(w, err)
		w.same("books", fmt.Sprint(b.Settled, b.Off()), "{2 0 1} 0")
		parts.Intakes = append(parts.Intakes, parts.Intakes[0])
		if _, err := crm.New(parts, crm.Options{}); err == nil {
			w.Error("two intakes of one name were taken")
		}
	})
}

func TestNewRefusesNonsense(t *testing.T) {
	in(t, func(w *world) {
		good := w.does(nil, "a")
		for name, f := range map[string]func(*crm.Parts, *crm.Options){
			"no profiles":            func(p *crm.Parts, _ *crm.Options) { p.Profiles = nil },
			"no sync log":            func(p *crm.Parts, _ *crm.Options) { p.Log = nil },
			"two handlers of a type": func(p *crm.Parts, _ *crm.Options) { p.Handlers = append(p.Handlers, w.does(nil, "a", "b")) },
			"two of one name":        func(p *crm.Parts, _ *crm.Options) { p.Handlers = append(p.Handlers, good) },
			"workers":                func(_ *crm.Parts, o *crm.Options) { o.Workers = -1 },
			"unknown":                func(_ *crm.Parts, o *crm.Options) { o.Unknown = 7 },
		} {
			p, o := w.parts(good), crm.Options{}
			f(&p, &o)
			if _, err := crm.New(p, o); err == nil {
				w.Errorf("%s: it was taken", name)
			} else if !strings.HasPrefix(err.Error(), "crm: ") {
				w.Errorf("%s: %v", name, err)
			}
		}
		if _, err := w.sysOf(good).Event(context.Background(), "club", "none"); !errors.Is(err, crm.ErrNoEvent) || tidemill.KindOf(err) != tidemill.NotFound {
			w.Errorf("an event that is not there: %v", err)
		}
	})
}

// forgetful are queues whose sources do not renew their leases: their workers seem dead.
type forgetful struct{ queue.Store }

func (f forgetful) Open(name string, o queue.Options) tidemill.Source {
	return forgetfulSource{f.Store.Open(name, o)}
}

type forgetfulSource struct{ tidemill.Source }

func (forgetfulSource) Keep(context.Context) error { return nil }
func (s forgetfulSource) Gate(ctx context.Context, until time.Time, probes int) error {
	return s.Source.(tidemill.Gater).Gate(ctx, until, probes)
}
func (s forgetfulSource) Books(ctx context.Context) (tidemill.Books, error) {
	return s.Source.(tidemill.Bookkeeper).Books(ctx)
}

// C4: a job whose lease has expired comes to another worker while the first one still works on
// the event: the other waits, as the sync log's lease is renewed between handlers.
func TestAWorkerThatOnlySeemsDead(t *testing.T) {
	each(t, func(w *world) {
		busy := map[string]bool{}
		do := func(c *handler.Call) error {
			w.mu.Lock()
			if busy[c.Event.ID] {
				w.Errorf("%s is worked on by two", c.Event.ID)
			}
			busy[c.Event.ID] = true
			w.mu.Unlock()
			time.Sleep(9 * time.Second)
			w.mu.Lock()
			delete(busy, c.Event.ID)
			w.mu.Unlock()
			return nil
		}
		o := crm.Options{Workers: 1, Ahead: 10, PerSecond: -1, PerTenant: -1}
		parts := w.parts(w.does(do, "*"))
		parts.Queues = forgetful{w.queues}
		w.startWith(parts, o)
		first := w.stop
		w.send(many("club", "a", 10)...)
		rest(time.Second)
		w.start(o, w.does(do, "*"))
		rest(10 * time.Minute)
		first()
		w.same("calls", len(w.calls), 10)
		w.same("dead", w.dead(), "")
		w.balanced()
	})
}

// A job that holds another event than it names is not handled.
func TestAJobThatHoldsAnotherEvent(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{}, w.does(nil, "*"))
		fatal(w, w.queues.Add(context.Background(), []*tidemill.Message{
			{ID: "e1", To: crm.Queue, Tenant: "club", Type: "a", Payload: raw("club", "e2", "a", "")},
			{ID: "e3", To: crm.Queue, Tenant: "club", Type: "a", Payload: raw("other", "e3", "a", "")},
			{ID: "e4", To: crm.Queue, Tenant: "club", Type: "a", Payload: []byte("{")},
		}, nil))
		rest(time.Minute)
		w.same("handled", w.called(ids), "")
		for _, id := range []string{"e1", "e3", "e4"} {
			w.same(id, w.record("club", id).Kind, "validation")
		}
		w.balanced()
	})
}
