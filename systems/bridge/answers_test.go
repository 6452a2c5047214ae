package bridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/tracetest"
)

// spans is a tracer that keeps what it is given.
type spans struct{ tracetest.Spans }

// acks are the spans of acks, with the number of the hand-out that each is under.
func (s *spans) acks() (all []string) {
	outs := map[[8]byte]int{}
	for _, span := range s.All() {
		if span.Name == "process bridge" {
			outs[span.Trace.Span] = len(outs) + 1
		}
	}
	for _, span := range s.All() {
		if span.Name != "ack bridge" {
			continue
		}
		line := ""
		for _, a := range span.Attributes {
			if a.Name == "messaging.message.id" || a.Name == "tidemill.end" {
				line += a.Text + " "
			}
		}
		all = append(all, fmt.Sprintf("%sunder %d %s", line, outs[span.Parent], span.Error))
	}
	return all
}

func TestAcksAreSpansUnderTheHandoutThatTheyAnswer(t *testing.T) {
	traced := &spans{}
	with(t, func(o *Options, _ *Parts) { o.Tracer = traced }, func(w *world) {
		var jobs []*tidemill.Message
		for i, sampled := range []string{"1", "1", "0"} {
			jobs = append(jobs, &tidemill.Message{ID: fmt.Sprint(i + 1), To: "entries", Payload: []byte(`{}`),
				Header: []tidemill.Field{{Name: []byte(tidemill.Traceparent), Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0" + sampled)}}})
		}
		if err := w.queue.Add(w.Context(), jobs, nil); err != nil {
			w.Fatal(err)
		}
		w.rest(time.Second)
		w.broker.acks <- `{"id":"1","ack":true}`
		w.broker.acks <- `{"ids":["2"],"ack":false}`
		w.broker.acks <- `{"id":"3","ack":true}`
		w.rest(500 * time.Millisecond)
		w.rest(2 * time.Second) // the second comes again
		w.broker.acks <- `{"id":"2","ack":true}`
		w.broker.acks <- `{"id":"2","ack":true}`
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
	})
	if got, want := traced.acks(), []string{"1 delivered under 1 ", "2 again under 2 business", "2 delivered under 3 "}; !slices.Equal(got, want) {
		t.Errorf("the acks are %q, want %q", got, want)
	}
}

func TestFollowedAcks(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	traced := &spans{}
	a := answers{tracer: traced}
	trace, _ := tidemill.ParseTrace(parent+"1", "")
	unsampled, _ := tidemill.ParseTrace(parent+"0", "")
	ack := func(id string, end tidemill.Settlement) {
		end.ID = id
		a.came(id, clock)
		now = now.Add(time.Second)
		a.settled(&end, clock)
	}
	done := tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered, Outcome: tidemill.Applied}
	ack("1", done) // nothing was published
	a.published("1", &unsampled)
	a.published("1", nil)
	ack("1", done)
	a.published("1", &trace)
	a.settled(&tidemill.Settlement{ID: "1", End: tidemill.Done, Outcome: tidemill.Applied}, clock) // its ack did not come yet
	ack("2", done)
	ack("1", done)
	ack("1", done) // once more: it is of nothing
	a.published("3", &trace)
	ack("3", tidemill.Settlement{End: tidemill.Again, Kind: tidemill.Business, Outcome: tidemill.Applied})
	a.published("4", &trace)
	ack("4", tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered, Outcome: tidemill.Stale})
	if got, want := traced.acks(), []string{"1 delivered under 0 ", "3 again under 0 business", "4 stale under 0 "}; !slices.Equal(got, want) {
		t.Errorf("the spans are %q, want %q", got, want)
	}
	for _, s := range traced.All() {
		if s.Parent != trace.Span || s.Trace.ID != trace.ID || s.End.Sub(s.Begin) != time.Second || !s.Trace.Sampled {
			t.Errorf("%+v", s)
		}
	}
	off := answers{}
	if n := testing.AllocsPerRun(100, func() {
		off.published("1", &trace)
		off.came("1", clock)
		off.settled(&done, clock)
	}); n != 0 || off.out != nil {
		t.Errorf("off it costs %v allocations", n)
	}
}
