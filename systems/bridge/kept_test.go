package bridge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
)

func TestAKeptLetterWasPublishedOrRefusedForGood(t *testing.T) {
	keep, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	with(t, func(o *Options, p *Parts) { withoutAcks(o, p); o.Retry, p.Keep = policy.Retry{}, keep }, func(w *world) {
		away := true
		w.broker.set(func() {
			w.broker.fail = func(m *tidemill.Message) error {
				if m.To == "out" && m.ID != "2" {
					return tidemill.Fail(tidemill.Validation, "no such topic")
				}
				switch {
				case m.To == "dead" && m.ID == "1" && away:
					return errAway
				case m.To == "dead" && m.ID == "4":
					return tidemill.Fail(tidemill.Validation, "the packet is too large")
				}
				return nil
			}
		})
		w.add("1", "2", "3", "4")
		w.rest(3 * lease)
		w.books(tidemill.Books{Accepted: 4, Pending: 1, Settled: tidemill.Count{Delivered: 1, Dead: 2}})
		if l := w.broker.letters(t); len(l) != 1 || l[0]["message_id"] != "3" {
			t.Errorf("letters are %v, want that of 3", l)
		}
		w.broker.set(func() { away = false })
		w.rest(3 * lease)
		w.books(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 1, Dead: 3}})
		if l := w.broker.letters(t); len(l) != 2 || l[1]["message_id"] != "1" {
			t.Errorf("letters are %v, want those of 3 and 1", l)
		}
		var kept []string
		for l, err := range keep.List(w.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, l.Message.ID)
		}
		slices.Sort(kept)
		if !slices.Equal(kept, []string{"1", "3", "4"}) {
			t.Errorf("kept are %q, want 1, 3 and 4", kept)
		}
	})
}

// keeper refuses some letters, and keeps the others.
type keeper struct {
	tidemill.DeadLetters
	refuse string
	kept   []string
}

func (k *keeper) Put(_ context.Context, letters []tidemill.DeadLetter) error {
	p := &tidemill.Partial{}
	for i := range letters {
		if id := letters[i].Message.ID; id == k.refuse {
			p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: errors.New("too large")})
		} else {
			k.kept = append(k.kept, id)
		}
	}
	if len(p.Failed) > 0 {
		return p
	}
	return nil
}

func TestALetterThatWasNotPublishedOrNotKeptIsNamed(t *testing.T) {
	k := &keeper{refuse: "3"}
	b := newBroker()
	b.fail = func(m *tidemill.Message) error {
		if m.ID == "1" {
			return errAway
		}
		return nil
	}
	br, err := New(Parts{Source: emptySource{}, Sink: b, Keep: k}, Options{Topic: "out", Dead: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	var letters []tidemill.DeadLetter
	for _, id := range []string{"0", "1", "2", "3"} {
		letters = append(letters, tidemill.DeadLetter{Message: &tidemill.Message{ID: id}, At: time.Now()})
	}
	partly, ok := errors.AsType[*tidemill.Partial]((&deadTopic{b: br, topic: "dead"}).Put(t.Context(), letters))
	if !ok || len(partly.Failed) != 2 || partly.Failed[0].Index != 1 || partly.Failed[1].Index != 3 {
		t.Errorf("%+v, want 1 and 3", partly)
	}
	if !slices.Equal(k.kept, []string{"0", "2"}) {
		t.Errorf("kept %q, want 0 and 2", k.kept)
	}
}

// A replay is received into memory that was used before, where no payload is an empty one.
func TestAnEntryWithNothingButItsTraceIsReplayedAsItWasPublished(t *testing.T) {
	m := entry("traceparent", "00-1", "tracestate", "a=1")
	m.ID = "1"
	want := string(appendData(nil, m))
	keep, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := keep.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: Name, Message: m}}); err != nil {
		t.Fatal(err)
	}
	if n, err := keep.Replay(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	into := &tidemill.Message{Payload: []byte("of the one before")}
	if n, err := keep.Open(Name).Receive(t.Context(), []*tidemill.Message{into}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := string(appendData(nil, into)); got != want {
		t.Errorf("replayed as %s, published as %s", got, want)
	}
}
