package bridge

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

func withoutAcks(_ *Options, p *Parts) { p.Acks = nil }

func TestWithoutAcksTheBrokersWordCounts(t *testing.T) {
	with(t, withoutAcks, func(w *world) {
		w.add("1", "2", "3")
		w.rest(time.Second)
		w.published("1", "2", "3")
		w.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
		if got, want := w.broker.bodies[0], `{"message":{"payload":{"of":"1"}},"redis":{"payload":{"id":"1"}}}`; got != want {
			t.Errorf("published %s, want %s", got, want)
		}
		if s := w.bridge.Stats(); s.Published != 3 || s.Acked != 3 || s.Publishing.Count != 3 || s.Errors != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestAnEntryStaysUntilTheFarSideHasIt(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1", "2")
		w.rest(time.Second)
		w.published("1", "2")
		w.books(tidemill.Books{Accepted: 2, Pending: 2})
		w.broker.ack("1")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1}, Pending: 1})
		if s := w.bridge.Stats(); s.Acked != 1 || s.Acking.Count != 1 || s.Acking.Sum < .9 {
			t.Errorf("stats %+v", s)
		}
		w.broker.ack("2")
		w.rest(time.Second)
		w.published("1", "2")
	})
}

func TestAnAckMeetsItsMessageOnTheWayOut(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1")
		w.rest(time.Second)
		w.rest(10*lease - time.Second) // published again at this very instant
		w.broker.ack("1")
		w.rest(time.Second)
		if s := w.bridge.Stats(); s.Acked != 1 || s.Unknown != 0 {
			t.Errorf("stats %+v", s)
		}
		w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
		if st := w.bridge.Pipeline.Stats(); st.Stale != 0 {
			t.Errorf("%d ends were stale", st.Stale)
		}
	})
}

func TestSilenceIsNoFailure(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1")
		w.rest(200*lease + lease/2)
		if n := len(w.broker.ids()); n < 190 {
			t.Errorf("published %d times in 200 leases", n)
		}
		if l := w.broker.letters(t); len(l) != 0 {
			t.Errorf("silence made a dead letter: %v", l)
		}
		w.broker.ack("1")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
	})
}

func TestAcksAreCountedOnce(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1", "2", "3", "4")
		w.rest(time.Second)
		w.broker.ack("1", "1", "never", "1")
		w.rest(time.Second)
		if s := w.bridge.Stats(); s.Acked != 1 || s.Unknown != 3 {
			t.Errorf("stats %+v, want 1 acked and 3 unknown", s)
		}
		w.broker.acks <- `{"ids":["2","3","2"],"stream":"entries","ack":true}`
		w.broker.acks <- `{"ids":["4"],"stream":"another","ack":true}`
		w.rest(time.Second)
		if s := w.bridge.Stats(); s.Acked != 3 || s.Unknown != 5 {
			t.Errorf("stats %+v, want 3 acked and 5 unknown", s)
		}
		w.books(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 3}, Pending: 1})
	})
}

func TestGarbageOnTheTopicOfAcks(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1")
		w.rest(time.Second)
		garbage := []string{``, `{`, `null`, `[]`, `"1"`, `1`, `{"ack":true}`, `{"id":"","ack":true}`, `{"id":1,"ack":true}`, `{"id":"1"}`,
			`{"id":"1","ack":"true"}`, `{"id":"1","ack":null}`, `{"ids":[],"ack":true}`, `{"ids":"1","ack":true}`, `{"ids":[""],"ack":true}`,
			"\xff\xfe", `{"id":"1","ack":true} x`, `{"ID":"1","ACK":true}`}
		for _, g := range garbage {
			w.broker.acks <- g
		}
		w.rest(time.Second)
		if s := w.bridge.Stats(); s.Garbage != uint64(len(garbage)) || s.Acked != 0 || s.Refused != 0 {
			t.Errorf("stats %+v, want %d of garbage", s, len(garbage))
		}
		w.broker.acks <- " {\n \"id\" : \"1\" , \"ack\" : true }\n"
		w.rest(time.Second)
		if s := w.bridge.Stats(); s.Acked != 1 {
			t.Errorf("an ack with blanks was not taken: %+v", s)
		}
	})
}

func TestARefusalIsAFailedTry(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1")
		w.rest(100 * time.Millisecond)
		at := time.Now()
		for n, wait := range []time.Duration{1, 2, 4, 8, 16} {
			w.broker.refuse("1")
			w.rest(wait*time.Second - 10*time.Millisecond)
			if got := len(w.broker.ids()); got != n+1 {
				t.Fatalf("published %d times %v after refusal %d: too early", got, time.Since(at), n+1)
			}
			w.rest(20 * time.Millisecond)
			if got := len(w.broker.ids()); got != n+2 {
				t.Fatalf("published %d times %v after refusal %d: too late", got, time.Since(at), n+1)
			}
			at = time.Now()
		}
		w.broker.refuse("1")
		w.rest(time.Second)
		letters := w.broker.letters(t)
		if len(letters) != 1 {
			t.Fatalf("letters: %v", letters)
		}
		l := letters[0]
		at, err := time.Parse(time.RFC3339, l["timestamp"].(string))
		if l["original_message"] != `{"of":"1"}` || l["message_id"] != "1" || l["attempts"] != 6. || l["error"] == "" || err != nil || time.Since(at) > time.Minute {
			t.Errorf("the letter is %v", l)
		}
		w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Dead: 1}})
		w.rest(time.Hour)
		if n := len(w.broker.ids()); n != 6 || len(w.broker.letters(t)) != 1 {
			t.Errorf("published %d times and %d letters: what is dead came back", n, len(w.broker.letters(t)))
		}
		if s := w.bridge.Stats(); s.Refused != 6 || s.Dead != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestRetryOffTheFirstFailureIsTheLast(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Retry = policy.Retry{} }, func(w *world) {
		w.add("1", "2")
		w.broker.set(func() {
			w.broker.fail = func(m *tidemill.Message) error {
				if m.ID == "2" && m.To == "out" {
					return tidemill.Fail(tidemill.Partner, "the broker refused a message: %w", errRefused)
				}
				return nil
			}
		})
		w.rest(time.Second)
		w.broker.refuse("1")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Dead: 2}})
		if l := w.broker.letters(t); len(l) != 2 {
			t.Errorf("letters: %v", l)
		}
	})
}

func TestWhileTheBrokerIsAwayNothingIsUsedUp(t *testing.T) {
	for _, retry := range []policy.Retry{{Tries: 5, Base: time.Second, Factor: 2, Max: 30 * time.Second}, {}} {
		t.Run(fmt.Sprintf("%d retries", retry.Tries), func(t *testing.T) {
			with(t, func(o *Options, _ *Parts) { o.Retry = retry }, func(w *world) {
				w.broker.set(func() { w.broker.up = false })
				for n := range 100 {
					w.add(fmt.Sprint(n))
				}
				w.rest(6 * time.Hour)
				w.books(tidemill.Books{Accepted: 100, Pending: 100})
				w.broker.set(func() { w.broker.up = true })
				w.rest(5 * time.Minute)
				if n := len(slices.Compact(slices.Sorted(slices.Values(w.broker.ids())))); n != 100 {
					t.Errorf("%d of 100 were published after the broker came back", n)
				}
				if l := w.broker.letters(t); len(l) != 0 {
					t.Errorf("the outage made dead letters: %v", l)
				}
			})
		})
	}
}

func TestASilentBrokerUsesUpNothing(t *testing.T) {
	with(t, withoutAcks, func(w *world) {
		w.broker.set(func() { w.broker.slow = time.Hour })
		w.add("1", "2")
		w.rest(3 * time.Hour)
		w.books(tidemill.Books{Accepted: 2, Pending: 2})
		w.broker.set(func() { w.broker.slow = 0 })
		w.rest(2 * time.Minute)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	})
}

func TestAnAcknowledgementThatIsLostUsesUpNothing(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Retry = policy.Retry{} }, func(w *world) {
		lost := 0
		w.broker.set(func() {
			w.broker.fail = func(m *tidemill.Message) error {
				if m.ID != "2" || lost == 5 {
					return nil
				}
				lost++
				return tidemill.Fail(tidemill.Unknown, "not acknowledged by the broker: %w", context.DeadlineExceeded)
			}
		})
		w.add("1", "2", "3")
		w.rest(10 * time.Minute)
		w.broker.ack("1", "2", "3")
		w.rest(time.Second)
		if lost != 5 {
			t.Errorf("%d answers were lost", lost)
		}
		w.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
	})
}

func TestTheDeadStayPendingWithoutATopic(t *testing.T) {
	for _, c := range []struct {
		name string
		dead string
		fail func(*tidemill.Message) error
	}{
		{"there is none", "", nil},
		{"it fails", "dead", func(m *tidemill.Message) error {
			if m.To == "dead" {
				return tidemill.Fail(tidemill.Credentials, "not authorized: %w", errRefused)
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			with(t, func(o *Options, _ *Parts) { o.Dead, o.Retry = c.dead, policy.Retry{} }, func(w *world) {
				w.broker.set(func() { w.broker.fail = c.fail })
				w.add("1")
				w.rest(time.Second)
				w.broker.refuse("1")
				w.rest(10 * lease)
				w.published("1") // not for ever
				w.books(tidemill.Books{Accepted: 1, Pending: 1})
				if c.fail != nil { // once it works, the entry leaves
					w.broker.set(func() { w.broker.fail = nil })
					w.rest(2 * lease)
					w.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Dead: 1}})
				}
			})
		})
	}
}

func TestDropPolicies(t *testing.T) {
	for drop, want := range map[flow.Drop]int{flow.DropNone: 0, flow.DropOldest: 1, flow.DropNewest: 1} {
		t.Run(drop.String(), func(t *testing.T) {
			with(t, func(o *Options, p *Parts) {
				p.Acks, o.Drop, o.Threshold, o.Buffer, o.Batch, o.Workers = nil, drop, .5, 64, 8, 1
			}, func(w *world) {
				w.broker.set(func() { w.broker.slow = 3 * time.Second })
				for n := range 500 {
					w.add(fmt.Sprintf("%03d", n))
				}
				w.rest(2 * time.Second)
				st := w.bridge.Pipeline.Stats()
				if want == 0 && (st.Shed != 0 || st.InFlight > 32) || want == 1 && st.Shed == 0 {
					t.Errorf("%d dropped, %d in memory", st.Shed, st.InFlight)
				}
				w.broker.set(func() { w.broker.slow = 0 })
				w.rest(100 * lease)
				w.books(tidemill.Books{Accepted: 500, Settled: tidemill.Count{Delivered: 500}})
			})
		})
	}
}

func TestPausedItStillTakesAcks(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1")
		w.rest(time.Second)
		if err := w.bridge.Pause(); err != nil {
			t.Fatal(err)
		}
		if err := w.bridge.Pause(); err == nil {
			t.Error("pausing twice is no error")
		}
		w.add("2")
		w.broker.ack("1")
		w.rest(5 * time.Minute)
		w.published("1")
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1}, Pending: 1})
		if err := w.bridge.Resume(); err != nil {
			t.Fatal(err)
		}
		w.rest(time.Second)
		w.published("1", "2")
	})
}

func TestAStopTakesAcksToTheEnd(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Pending = 2 * time.Second }, func(w *world) {
		w.add("1", "2")
		w.rest(time.Second)
		stopped := make(chan struct{})
		go func() { w.stop(); close(stopped) }()
		time.Sleep(time.Second)
		w.broker.ack("1") // late, but in time
		<-stopped
		if l := w.broker.log; l[0] != "subscribe" || l[len(l)-1] != "unsubscribe" {
			t.Errorf("what the broker saw: %q", l)
		}
		w.source = w.queue.Open("entries", queueOptions)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1}, Pending: 1})
		w.start(nil) // another one finds the rest
		w.rest(2 * lease)
		w.broker.ack("2")
		w.rest(time.Second)
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
	})
}

func TestTheBreakersCallsAreLimited(t *testing.T) {
	with(t, func(o *Options, p *Parts) { p.Acks, o.Workers, o.Batch, o.Calls = nil, 8, 2, 3 }, func(w *world) {
		w.broker.set(func() { w.broker.slow = time.Second })
		for n := range 100 {
			w.add(fmt.Sprint(n))
		}
		w.rest(2 * time.Minute)
		if w.broker.most != 3 {
			t.Errorf("%d calls at once, want 3", w.broker.most)
		}
		w.books(tidemill.Books{Accepted: 100, Settled: tidemill.Count{Delivered: 100}})
	})
}

func TestATopicOfTheEntrysFields(t *testing.T) {
	with(t, func(o *Options, p *Parts) { p.Acks, o.Prefix, o.Topic = nil, "site-1", "/devices/{device}/{of}" }, func(w *world) {
		w.add("1", "a/b")
		w.rest(time.Second)
		if !slices.Contains(w.broker.log, "site-1/devices/d-1/1 1") {
			t.Errorf("published to %q", w.broker.log)
		}
		w.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1, Dead: 1}})
	})
}

func TestWhatIsRefused(t *testing.T) {
	for _, change := range []func(*Options, *Parts){
		func(_ *Options, p *Parts) { p.Sink = nil },
		func(_ *Options, p *Parts) { p.Source = nil },
		func(o *Options, _ *Parts) { o.Topic = "" },
		func(o *Options, _ *Parts) { o.Topic = "a/+/b" },
		func(o *Options, _ *Parts) { o.Topic = "a/{}" },
		func(o *Options, _ *Parts) { o.Topic = "a/{b" },
		func(o *Options, _ *Parts) { o.Dead = "a/{b}" },
		func(o *Options, _ *Parts) { o.Dead = "#" },
	} {
		w := &world{T: t, broker: newBroker()}
		p := Parts{Source: emptySource{}, Sink: w.broker}
		o := Options{Topic: "out"}
		if _, err := New(p, o); err != nil {
			t.Fatal(err)
		}
		change(&o, &p)
		if _, err := New(p, o); err == nil {
			t.Errorf("%+v is not refused", o)
		}
	}
}
