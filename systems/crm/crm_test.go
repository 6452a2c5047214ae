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
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// C4: an event is handled once, however often it is sent and by anyone.
func TestAnEventIsHandledOnce(t *testing.T) {
	each(t, func(w *world) {
		w.start(crm.Options{}, w.does(nil, "member.*"))
		e := raw("club", "e1", "member.created", `{"n":12345678901234567890}`)
		first, again := w.send(e), w.send(e, raw("other", "e1", "member.created", ""))
		w.same("results", fmt.Sprint(first[0].Status, again[0].Status, again[1].Status), fmt.Sprint(accept.Accepted, accept.Duplicate, accept.Accepted))
		rest(time.Second)
		w.same("handled", w.called(func(c call) string { return c.tenant + "/" + c.id }), "club/e1 other/e1")
		r := w.record("club", "e1")
		if r.State != crm.IsCompleted || r.Attempts != 1 || r.Type != "member.created" || string(r.Payload) != string(e) || r.Completed.IsZero() || r.Created.IsZero() || r.Started.IsZero() || !r.Failed.IsZero() {
			w.Errorf("sync log: %+v", r)
		}
		// After the queue has forgotten a name the sync log knows it.
		w.down()
		job := &tidemill.Message{ID: "e1 once more", To: crm.Queue, Tenant: "club", Type: "member.created", Payload: e, Header: []tidemill.Field{{Name: []byte(crm.EventHeader), Value: []byte("e1")}}}
		fatal(w, w.queues.Add(context.Background(), []*tidemill.Message{job}, nil))
		w.start(crm.Options{}, w.does(nil, "member.*"))
		rest(time.Second)
		w.same("handled", w.called(ids), "e1 e1")
		w.same("last attempt", w.ended()[2], "e1 skipped duplicate")
		w.balanced()
	})
}

// C7: the result of each kind of failure.
func TestKindsOfFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   func(*handler.Call) error
		waits []time.Duration // between tries
		dead  string
		kind  string
	}{
		{"transient is retried, then dead", fails(tidemill.Transient), []time.Duration{time.Second, 2 * time.Second}, "e1 transient", "transient"},
		{"no kind is transient", func(*handler.Call) error { return errors.New("connection reset") }, []time.Duration{time.Second, 2 * time.Second}, "e1 transient", "transient"},
		{"profile not found is retried", fails(tidemill.NotFound), []time.Duration{time.Second, 2 * time.Second}, "e1 not_found", "not_found"},
		{"a database's error is retried", fails(tidemill.Partner), []time.Duration{time.Second, 2 * time.Second}, "e1 transient", "transient"},
		{"rate_limit of the handler burns its tries", fails(tidemill.RateLimit), []time.Duration{time.Second, 2 * time.Second}, "e1 transient", "transient"},
		{"credentials of the handler stop nobody", fails(tidemill.Credentials), []time.Duration{time.Second, 2 * time.Second}, "e1 transient", "transient"},
		{"validation is skipped", fails(tidemill.Validation), nil, "", "validation"},
		{"a blocked address is validation", blocked, nil, "", "validation"},
		{"business is dead at once", fails(tidemill.Business), nil, "e1 business", "business"},
		{"a panic is retried", func(*handler.Call) error { panic("of the handler") }, []time.Duration{time.Second, 2 * time.Second}, "e1 internal", "internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(w *world) {
				w.start(crm.Options{}, w.does(c.err, "member.*"), w.does(nil, "player.*"))
				w.send(raw("club", "e1", "member.created", ""), raw("club", "e2", "player.created", ""))
				rest(time.Minute)
				var waits []time.Duration
				var before time.Time
				for _, call := range w.calls {
					if call.id == "e1" && !before.IsZero() {
						waits = append(waits, call.at.Sub(before).Round(10*time.Millisecond))
					}
					if call.id == "e1" {
						before = call.at
					}
				}
				w.same("waits", waits, c.waits)
				w.same("dead", w.dead(), c.dead)
				r := w.record("club", "e1")
				if r.State != crm.IsFailed || r.Kind != c.kind || r.Error == "" || r.Failed.IsZero() || r.Attempts != len(c.waits)+1 {
					w.Errorf("sync log: %+v", r)
				}
				w.same("the other one", w.record("club", "e2").State, crm.IsCompleted)
				w.balanced()
			})
		})
	}
}

// blocked calls an endpoint whose name leads to a forbidden address.
func blocked(c *handler.Call) error {
	e, err := webhook.New(webhook.Options{Name: "app", URL: "https://localhost:1", Secrets: []tidemill.Secret{tidemill.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")}})
	if err != nil {
		return err
	}
	defer e.Close()
	err = e.Handle(context.Background(), []*handler.Call{c})
	if p, ok := errors.AsType[*tidemill.Partial](err); ok && len(p.Failed) == 1 {
		return p.Failed[0].Err
	}
	return fmt.Errorf("Handle = %w, want one that failed", err)
}

func TestAttemptsAndBackoffAreOptions(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{Attempts: 5, Backoff: 100 * time.Millisecond}, w.does(fails(tidemill.Transient), "*"))
		w.send(raw("club", "e1", "member.created", ""))
		rest(time.Minute)
		w.same("attempts", w.called(func(c call) string { return fmt.Sprint(c.attempt) }), "1 2 3 4 5")
		if took := w.calls[4].at.Sub(w.calls[0].at).Round(100 * time.Millisecond); took != 1500*time.Millisecond {
			w.Errorf("five tries within %v, want 1.5s", took)
		}
	})
}

// C6: which handler an event gets, and what becomes of it without one.
func TestHandlersByType(t *testing.T) {
	for _, unknown := range []crm.Unknown{crm.Skip, crm.Dead} {
		in(t, func(w *world) {
			spec := func(name string, types ...string) handler.Spec {
				return handler.Spec{Name: name, Types: types, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
					c.Event.ID = name + ":" + c.Event.ID
					w.note(c)
					return nil
				})}
			}
			w.start(crm.Options{Unknown: unknown}, spec("wild", "member.*"), spec("exact", "member.created", "x"), spec("longer", "member.status.*"))
			for _, typ := range []string{"member.created", "member.deleted", "member.status.changed", "x"} {
				w.send(raw("club", typ, typ, ""))
			}
			w.send(raw("club", "nobody", "y", ""))
			rest(time.Second)
			w.same("called", w.called(ids), "exact:member.created exact:x longer:member.status.changed wild:member.deleted")
			r := w.record("club", "nobody")
			if unknown == crm.Skip {
				w.same("dead", w.dead(), "")
				w.same("sync log", r.State+" "+r.Kind+" "+r.Error, "FAILED skipped no_handler")
			} else {
				w.same("dead", w.dead(), "nobody business")
				w.same("sync log", r.State+" "+r.Kind, "FAILED business")
			}
			if all, err := w.profiles.List(context.Background(), "club", [16]byte{}, 0); err != nil || len(all) != 4 {
				w.Errorf("%d profiles, %v; want none for the event that nobody handles", len(all), err)
			}
			w.balanced()
		})
	}
}

// C6: handlers that misbehave delay no other, and their worker not for ever.
func TestHandlersThatMisbehave(t *testing.T) {
	in(t, func(w *world) {
		hang := make(chan struct{})
		w.start(crm.Options{Workers: 1, Attempts: 1},
			handler.Spec{Name: "obeys", Types: []string{"obeys"}, Timeout: time.Second, Handler: handler.Func(func(ctx context.Context, c *handler.Call) error {
				<-ctx.Done()
				return ctx.Err()
			})},
			handler.Spec{Name: "hangs", Types: []string{"hangs"}, Timeout: time.Second, Handler: handler.Func(func(ctx context.Context, c *handler.Call) error {
				<-hang
				return nil
			})},
			handler.Spec{Name: "exits", Types: []string{"exits"}, Handler: handler.Func(func(context.Context, *handler.Call) error {
				runtimeExit()
				return nil
			})},
			w.does(nil, "good"))
		w.send(raw("club", "1", "obeys", ""), raw("club", "2", "hangs", ""), raw("club", "3", "exits", ""), raw("club", "4", "good", ""))
		rest(5 * time.Second)
		w.same("attempts", strings.Join(w.ended(), ", "), "1 failed timeout, 2 failed timeout, 3 failed internal, 4 completed")
		close(hang)
		rest(time.Minute)
		w.same("dead", w.dead(), "1 timeout, 2 timeout, 3 internal")
		w.balanced()
	})
}

// C5: whom an event is about.
func TestIdentity(t *testing.T) {
	who := func(id, identity string) []byte {
		return []byte(strings.Replace(string(raw("club", id, "member.seen", "")), `{"externalId":"m-`+id+`"}`, identity, 1))
	}
	each(t, func(w *world) {
		w.start(crm.Options{}, w.does(nil, "member.*"))
		for _, e := range [][]byte{
			who("1", `{"externalId":"a","email":"Ann@Example.com"}`),
			who("2", `{"email":"ann@example.com"}`),
			who("3", `{"externalId":"b","phone":"+49 30 123456"}`),
			who("4", `{"externalId":"a","phone":"+4930123456"}`), // two people
		} {
			w.send(e)
			rest(time.Second)
		}
		w.same("new", w.called(func(c call) string { return fmt.Sprint(c.id, c.isNew) }), "1true 2false 3true")
		w.same("dead", w.dead(), "4 business")
		if r := w.record("club", "4"); strings.Count(r.Error, "-") < 8 || !strings.Contains(r.Error, "externalId") || !strings.Contains(r.Error, "phone") {
			w.Errorf("ambiguous: %q, want both profiles named", r.Error)
		}
		if rate, ok := w.sys.Matched(); rate != 25 || !ok {
			w.Errorf("%v%% (%v) met a profile, want 25", rate, ok)
		}
		rest(6 * time.Minute)
		if rate, ok := w.sys.Matched(); ok {
			w.Errorf("%v%% of no events", rate)
		}
	})
}

func TestAProfileThatIsNotThereYet(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{Create: true}, w.does(nil, "*")) // inverted by the world: none is created
		w.send(raw("club", "e1", "member.created", ""), raw("club", "e2", "member.created", ""))
		rest(500 * time.Millisecond)
		w.same("handled", w.called(ids), "")
		w.make("club", "m-e2")
		rest(time.Minute)
		w.same("handled", w.called(ids), "e2")
		w.same("dead", w.dead(), "e1 not_found")
		w.balanced()
	})
}

// C2: jobs that are kept after their end.
func TestJobsThatAreKept(t *testing.T) {
	in(t, func(w *world) {
		w.start(crm.Options{PerSecond: -1, PerTenant: -1}, w.does(nil, "good"), w.does(fails(tidemill.Business), "bad"))
		for i := range 60 {
			var all [][]byte
			for j := range 100 {
				all = append(all, raw("club", fmt.Sprintf("b%d", 100*i+j), "bad", ""))
				if i < 12 {
					all = append(all, raw("club", fmt.Sprintf("g%d", 100*i+j), "good", ""))
				}
			}
			w.send(all...)
		}
		rest(time.Minute)
		st, err := w.queues.Stats(context.Background(), crm.Queue)
		fatal(w, err)
		w.same("kept", fmt.Sprint(st.Completed, st.Failed, st.Waiting), "1000 5000 0")
		w.balanced()
	})
}

// C13: pause, resume, drain, clean.
func TestOperations(t *testing.T) {
	each(t, func(w *world) {
		w.start(crm.Options{}, w.does(nil, "good"), w.does(fails(tidemill.Business), "bad"), w.does(fails(tidemill.Transient), "later"))
		set := func(change func(*queue.Settings)) {
			_, err := w.queues.Set(context.Background(), crm.Queue, change)
			fatal(w, err)
		}
		set(func(s *queue.Settings) { s.Paused = true })
		w.send(raw("club", "1", "good", ""))
		rest(time.Minute)
		w.same("while it is paused", w.called(ids), "")
		if st, err := w.sys.Look(context.Background()); err != nil || !st.Paused || st.Waiting() != 1 {
			w.Errorf("%+v, %v", st, err)
		}
		set(func(s *queue.Settings) { s.Paused, s.Closed = false, true })
		if _, err := w.sys.Acceptor().Accept(context.Background(), [][]byte{raw("club", "2", "good", "")}, nil); !errors.Is(err, accept.ErrClosed) {
			w.Errorf("while it is drained: %v", err)
		}
		rest(time.Second)
		w.same("what was there", w.called(ids), "1")
		set(func(s *queue.Settings) { s.Closed = false })
		w.send(raw("club", "3", "bad", ""), raw("club", "4", "later", ""))
		rest(100 * time.Millisecond)
		for _, state := range []string{"completed", "failed", "delayed"} {
			if n, err := w.sys.Clean(context.Background(), state, 0); n != 1 || err != nil {
				w.Errorf("clean %s: %d, %v", state, n, err)
			}
		}
		set(func(s *queue.Settings) { s.Paused = true })
		w.send(raw("club", "5", "good", ""), raw("club", "6", "good", ""))
		if n, err := w.sys.Clean(context.Background(), "wait", 1); n != 1 || err != nil {
			w.Errorf("clean wait: %d, %v", n, err)
		}
		if _, err := w.sys.Clean(context.Background(), "active", 0); tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("clean active: %v", err)
		}
		set(func(s *queue.Settings) { s.Paused = false })
		rest(time.Minute)
		w.same("in the end", w.called(ids), "1 3 4 6")
		w.balanced()
	})
}
