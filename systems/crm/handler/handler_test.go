package handler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

const raw = `{"id":"e1","type":"member.created","tenantId":"club","identity":{"email":"a@b"},"occurredAt":"2026-01-15T10:00:00Z","payload":{"name":"Ann"}}`

// C7, for a test of a handler: what a system would do after its answer.
func TestTry(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		do        handler.Func
		then      string
		kind      tidemill.Kind
	}{
		{"it is done", raw, func(context.Context, *handler.Call) error { return nil }, "completed", tidemill.NoKind},
		{"an error without a kind", raw, func(context.Context, *handler.Call) error { return errors.New("x") }, "retried", tidemill.Transient},
		{"validation", raw, func(context.Context, *handler.Call) error { return tidemill.Fail(tidemill.Validation, "x") }, "skipped", tidemill.Validation},
		{"business", raw, func(context.Context, *handler.Call) error { return tidemill.Fail(tidemill.Business, "x") }, "dead", tidemill.Business},
		{"not found", raw, func(context.Context, *handler.Call) error { return tidemill.Fail(tidemill.NotFound, "x") }, "retried", tidemill.NotFound},
		{"its database is away", raw, func(context.Context, *handler.Call) error { return tidemill.Fail(tidemill.Partner, "x") }, "retried", tidemill.Transient},
		{"an answer that was lost", raw, func(context.Context, *handler.Call) error { return tidemill.Fail(tidemill.Unknown, "x") }, "retried", tidemill.Transient},
		{"a deadline of its own", raw, func(context.Context, *handler.Call) error { return context.DeadlineExceeded }, "retried", tidemill.Timeout},
		{"a panic", raw, func(context.Context, *handler.Call) error { panic("x") }, "retried", tidemill.Internal},
		{"its goroutine ends", raw, func(context.Context, *handler.Call) error { runtime.Goexit(); return nil }, "retried", tidemill.Internal},
		{"no event", `{}`, nil, "skipped", tidemill.Validation},
		{"another type", `{"id":"e1","type":"x","tenantId":"club","identity":{"email":"a@b"},"occurredAt":"2026-01-15T10:00:00Z"}`, nil, "ignored", tidemill.NoKind},
	} {
		out, err := handler.Try(t.Context(), handler.Spec{Name: "h", Types: []string{"member.*"}, Handler: c.do}, []byte(c.raw), handler.Who{})
		if err != nil || out.Then() != c.then || out.Kind != c.kind || (c.kind == tidemill.NoKind) != (out.Err == nil) {
			t.Errorf("%s: %s, %v, %v, %v; want %s, %v", c.name, out.Then(), out.Kind, out.Err, err, c.then, c.kind)
		}
	}
	if _, err := handler.Try(t.Context(), handler.Spec{}, []byte(raw), handler.Who{}); err == nil {
		t.Error("no handler was tried")
	}
	who := handler.Who{Profile: uuid.New(), New: true, Attempt: 3}
	_, err := handler.Try(t.Context(), handler.Spec{Name: "h", Types: []string{"*"}, Handler: handler.Func(func(_ context.Context, c *handler.Call) error {
		if c.Profile != who.Profile || !c.New || c.Attempt != 3 || string(c.Event.Payload) != `{"name":"Ann"}` {
			t.Errorf("called with %+v", c)
		}
		return nil
	})}, []byte(raw), who)
	if err != nil {
		t.Error(err)
	}
}

// calls are of so many events, called 0, 1, 2…
func calls(n int) (all []*handler.Call) {
	for i := range n {
		all = append(all, &handler.Call{Event: event.Event{ID: fmt.Sprint(i)}})
	}
	return all
}

func TestManyAtATime(t *testing.T) {
	bad := func(id string, err error) handler.Batch {
		return func(_ context.Context, calls []*handler.Call) error {
			for _, c := range calls {
				if c.Event.ID == id {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		do   handler.Batch
		want string
	}{
		{"all are done", bad("none", nil), "[]"},
		{"one that is wrong is found", bad("5", tidemill.Fail(tidemill.Validation, "x")), "[5:validation]"},
		{"one that panics it", func(_ context.Context, calls []*handler.Call) error {
			for _, c := range calls {
				if c.Event.ID == "2" {
					panic("x")
				}
			}
			return nil
		}, "[2:internal]"},
		{"a database that is away is so for its whole call", bad("5", errors.New("x")), "[4:transient 5:transient 6:transient 7:transient]"},
		{"single ones are named", func(_ context.Context, calls []*handler.Call) error {
			return &tidemill.Partial{Failed: []tidemill.Failed{{Index: len(calls) - 1, Err: tidemill.Fail(tidemill.Business, "x")}}}
		}, "[3:business 7:business 9:business]"},
		{"none is named", func(context.Context, []*handler.Call) error { return &tidemill.Partial{} }, "[]"},
		{"nonsense is named", func(_ context.Context, calls []*handler.Call) error {
			if len(calls) == 2 {
				return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 7, Err: errors.New("x")}}}
			}
			return nil
		}, "[]"}, // the last two alone have no wrong index
	} {
		spec := &handler.Spec{Name: "h", Handler: c.do, Many: 4, Timeout: time.Second}
		var r handler.Runner
		errs := r.Run(t.Context(), spec, calls(10))
		got := []string{}
		for i, err := range errs {
			if err != nil {
				got = append(got, fmt.Sprintf("%d:%v", i, tidemill.KindOf(err)))
			}
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// A handler that does not heed its context is abandoned, but no second one beside it.
func TestOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		go1, go2 := make(chan struct{}), make(chan struct{})
		hang := func(on chan struct{}) *handler.Spec {
			return &handler.Spec{Name: "h", Many: 1, Timeout: time.Second, Handler: handler.Func(func(context.Context, *handler.Call) error { <-on; return nil })}
		}
		var r handler.Runner
		start := time.Now()
		errs := r.Run(t.Context(), hang(go1), calls(1))
		if took := time.Since(start); errs == nil || tidemill.KindOf(errs[0]) != tidemill.Timeout || took != time.Second+handler.Grace {
			t.Errorf("%v after %v", errs, took)
		}
		quick := &handler.Spec{Name: "q", Many: 1, Timeout: time.Second, Handler: handler.Func(func(context.Context, *handler.Call) error { return nil })}
		if errs := r.Run(t.Context(), quick, calls(1)); errs != nil {
			t.Errorf("a good one beside it: %v", errs)
		}
		time.AfterFunc(time.Minute, func() { close(go1) })
		start = time.Now()
		errs = r.Run(t.Context(), hang(go2), calls(1))
		if took := time.Since(start); errs == nil || took != time.Minute {
			t.Errorf("a second one that hangs: %v after %v, want to wait for the first", errs, took)
		}
		close(go2)
		// A call that ends late, but within the grace, has succeeded.
		late := &handler.Spec{Name: "l", Many: 1, Timeout: time.Second, Handler: handler.Func(func(context.Context, *handler.Call) error { time.Sleep(2 * time.Second); return nil })}
		if errs := r.Run(t.Context(), late, calls(1)); errs != nil {
			t.Errorf("a late one: %v", errs)
		}
	})
}

func TestAStopIsNobodysFailure(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	spec := &handler.Spec{Name: "h", Many: 1, Timeout: time.Minute, Handler: handler.Func(func(ctx context.Context, _ *handler.Call) error {
		stop()
		<-ctx.Done()
		return ctx.Err()
	})}
	var r handler.Runner
	errs := r.Run(ctx, spec, calls(1))
	if _, kind := errors.AsType[*tidemill.Error](errs[0]); kind || !errors.Is(errs[0], context.Canceled) {
		t.Errorf("%v; want the end of the context, without a kind", errs[0])
	}
}

func TestSetsRefuseNonsense(t *testing.T) {
	do := handler.Func(func(context.Context, *handler.Call) error { return nil })
	good := handler.Spec{Name: "a", Types: []string{"x"}, Handler: do}
	for name, change := range map[string]func(*handler.Spec){
		"no name":    func(s *handler.Spec) { s.Name = "" },
		"no types":   func(s *handler.Spec) { s.Types = nil },
		"no handler": func(s *handler.Spec) { s.Handler = nil },
		"many":       func(s *handler.Spec) { s.Many = -1 },
		"timeout":    func(s *handler.Spec) { s.Timeout = time.Hour },
		"pattern":    func(s *handler.Spec) { s.Types = []string{"*.x"} },
		"twice":      func(s *handler.Spec) { s.Types = []string{"x", "x"} },
	} {
		s := good
		change(&s)
		if _, err := handler.NewSet(nil, s); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// Handlers find types with and without the application's prefix, as priorities do.
func TestHandlersKnowTheOptionalPrefix(t *testing.T) {
	do := handler.Func(func(context.Context, *handler.Call) error { return nil })
	set, err := handler.NewSet([]string{"scl.", "teetime."},
		handler.Spec{Name: "payments", Types: []string{"payment.failed"}, Handler: do},
		handler.Spec{Name: "invoices", Types: []string{"scl.invoice.*"}, Handler: do},
		handler.Spec{Name: "score", Types: []string{"teetime.score.posted"}, Handler: do},
		handler.Spec{Name: "scores", Types: []string{"score.posted"}, Handler: do},
		handler.Spec{Name: "members", Types: []string{"member.*"}, Handler: do})
	if err != nil {
		t.Fatal(err)
	}
	for typ, want := range map[string]string{"payment.failed": "payments", "scl.payment.failed": "payments", "teetime.payment.failed": "payments", "scl.invoice.sent": "invoices", "invoice.sent": "invoices",
		"teetime.score.posted": "score", "score.posted": "scores", "scl.member.created": "members", "member.created": "members", "scl.player.created": "", "other.payment.failed": ""} {
		spec, _, ok := set.Find(typ)
		if ok != (want != "") || ok && spec.Name != want {
			t.Errorf("%s is handled by %v, want %q", typ, spec, want)
		}
	}
	if _, err := handler.NewSet([]string{""}); err == nil {
		t.Error("an empty prefix is taken")
	}
}

// Every kind has its rule: C7's table.
func TestRules(t *testing.T) {
	for k, want := range map[tidemill.Kind]policy.Rule{
		tidemill.Validation: {Do: policy.Skip},
		tidemill.Business:   {Do: policy.Dead},
		tidemill.NotFound:   {Do: policy.Retrying, CountTry: true},
		tidemill.Transient:  {Do: policy.Retrying, CountTry: true},
		tidemill.Timeout:    {Do: policy.Retrying, CountTry: true},
		tidemill.Internal:   {Do: policy.Retrying, CountTry: true},
		tidemill.Partner:    {Do: policy.Retrying, Blames: true},
	} {
		if got := handler.Rules().For(k); got != want {
			t.Errorf("%v: %+v, want %+v", k, got, want)
		}
	}
}
