package flow_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/tracetest"
	"github.com/tidemill/tidemill/policy"
)

// spans is a tracer that keeps what it is given.
type spans struct{ tracetest.Spans }

// lines are the spans: name, end, error, whether it is the first of its trace.
func (s *spans) lines() (all []string) {
	for _, span := range s.All() {
		line := span.Name
		for _, a := range span.Attributes {
			if a.Name == "messaging.message.id" || a.Name == "tidemill.end" || a.Name == "tidemill.reason" {
				line += " " + a.Text
			}
		}
		if span.Error != "" {
			line += " " + span.Error
		}
		switch span.Parent {
		case [8]byte{}:
			line += ", first"
		case sender.Span:
			line += ", of sender"
		}
		if span.Trace.Span == sender.Span || !span.Trace.Sampled {
			line += ", without ids of its own"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

var sender = tidemill.Trace{ID: [16]byte{1}, Span: [8]byte{0xaa}, Sampled: true}

// inTrace is a message of the sender's trace.
func inTrace(id string, sampled bool) tidemill.Message {
	t := sender
	t.Sampled = sampled
	return tidemill.Message{ID: id, Header: t.Put(nil)}
}

// runs runs an engine or a system until the function is called that it returns.
func runs(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
}

func TestEachHandOutIsASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traced := &spans{}
		tries := map[string]int{}
		s := newSource(tidemill.Traits{Parks: true, Delays: true}).add(inTrace("good", true), inTrace("skipped", true), inTrace("twice", true), inTrace("dead", true),
			inTrace("quiet", false), inTrace("quiet and dead", false), tidemill.Message{ID: "alone"}, tidemill.Message{ID: "alone and dead"})
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Retry: policy.Retry{Tries: 2, Base: time.Second}, Work: each(func(_ context.Context, task *flow.Task) error {
			tries[task.ID]++
			switch {
			case task.ID == "skipped":
				task.Skip("no route")
			case task.ID == "twice" && tries[task.ID] == 1:
				return tidemill.Fail(tidemill.Timeout, "an answer that may have a secret")
			case task.ID == "dead" || task.ID == "quiet and dead" || task.ID == "alone and dead":
				return tidemill.Fail(tidemill.Business, "an answer that may have a secret")
			}
			return nil
		}).work})
		if err != nil {
			t.Fatal(err)
		}
		e.Trace(traced)
		stop := runs(t, e)
		rest(time.Minute)
		stop()
		equal(t, "spans", traced.lines(), []string{"process p alone and dead dead business, first", "process p dead dead business, of sender", "process p good delivered, of sender",
			"process p quiet and dead dead business, of sender", "process p skipped skipped no route, of sender", "process p twice again timeout, of sender", "process p twice delivered, of sender"})
	})
}

func TestWhatIsEmittedGoesOnUnderTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traced := &spans{}
		s := newSource(tidemill.Traits{Parks: true, Forwards: true}).add(inTrace("sampled", true), inTrace("quiet", false))
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Work: each(func(_ context.Context, task *flow.Task) error {
			task.Emit(&tidemill.Message{Header: task.Header}) // as who copies a header does
			return nil
		}).work})
		if err != nil {
			t.Fatal(err)
		}
		system := flow.NewSystem(flow.SystemParts{Name: "s"})
		system.Each(func(e *flow.Engine) { e.Trace(traced) })
		if err := system.Join([]*flow.Engine{e}, nil); err != nil { // also one that came later is followed
			t.Fatal(err)
		}
		seen := map[string]string{}
		s.change = func(end *tidemill.Settlement) {
			for _, m := range end.Next {
				seen[end.ID] = string(m.Get(tidemill.Traceparent))
			}
		}
		stop := runs(t, system)
		rest(time.Second)
		stop()
		if len(traced.All()) != 1 || seen["sampled"] != traced.All()[0].Trace.String() {
			t.Errorf("what is emitted is under %q, want the one span of %v", seen["sampled"], traced.All())
		}
		quiet := sender
		if quiet.Sampled = false; seen["quiet"] != quiet.String() {
			t.Errorf("what is emitted without a span is under %q, want %q", seen["quiet"], quiet.String())
		}
	})
}

func TestALinkHasTheSpanExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traced := &spans{}
		s := newSource(tidemill.Traits{Parks: true}).add(tidemill.Message{ID: "a window"}, tidemill.Message{ID: "of nobody"})
		e, err := flow.New(flow.Pipeline{Name: "p", Source: s, Work: each(func(_ context.Context, task *flow.Task) error {
			if task.ID == "a window" {
				for n := range 200 {
					t := sender
					t.Span[7] = byte(n / 2) // two of each, of which one counts
					task.Link(&t)
				}
			}
			return nil
		}).work})
		if err != nil {
			t.Fatal(err)
		}
		e.Trace(traced)
		stop := runs(t, e)
		rest(time.Second)
		stop()
		equal(t, "spans", traced.lines(), []string{"process p a window delivered, first"})
		if n := len(traced.All()[0].Links); n != 100 {
			t.Errorf("it has %d links, want 100", n)
		}
	})
}

// What following costs: nothing where nobody does, three short allocations where a trace is not sampled.
func BenchmarkFollowed(b *testing.B) {
	for name, header := range map[string][]tidemill.Field{"off": inTrace("", true).Header, "not sampled": inTrace("", false).Header, "sampled": inTrace("", true).Header} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			s := newEndless(b.N, cancel)
			s.header = header
			e, err := flow.New(flow.Pipeline{Name: "bench", Source: s, Work: lightSteps().Lane, Lanes: 1, Batch: 100, InFlight: 2000})
			if err != nil {
				b.Fatal(err)
			}
			if name != "off" {
				e.Trace(counting{&spans{}})
			}
			if err := e.Run(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// counting is a tracer that keeps nothing.
type counting struct{ *spans }

func (counting) Ended(*tidemill.Span) {}
