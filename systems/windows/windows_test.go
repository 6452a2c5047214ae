package windows_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

func TestARecordGoesAllTheWay(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		for i := range 500 {
			w.send("20250323151500", "event", event(i))
			w.send("20250323151500", "mention", mention(i, "https://example.com/a", 1))
		}
		w.send("20250323151500", "mention", mention(1, "https://example.com/a", 2)) // another sentence
		w.send("20250323151500", "event", event(7))                                 // once more
		w.send("", "event", event(1))
		w.send("20250323151500", "event", "no json")
		rest(59 * time.Second)
		w.same("before the window is over", w.out.asked(), 0)
		w.same("books of events", w.books("adapter-event"), "accepted 503, delivered 500, skipped 1, dead 2, in flight 0")
		w.same("books of mentions", w.books("adapter-mention"), "accepted 501, delivered 501, skipped 0, dead 0, in flight 0")
		rest(10 * time.Second)
		w.same("books of windows", w.books(windows.Delivered), "accepted 1001, delivered 1001, skipped 0, dead 0, in flight 0")
		w.same("events and mentions in the index", []int{w.found(search.Events().Name), w.found(search.Mentions().Name)}, []int{500, 500}) // one document of a key
		w.same("letters", len(w.dead("adapter-event")), 2)
		if all := w.dead("adapter-event"); !has(all, "no batch id") || !has(all, "JSON") {
			w.Errorf("letters %q", all)
		}
	})
}

func TestWhoComesLateOpensAnotherWindow(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		w.send("b", "event", event(1))
		rest(70 * time.Second)
		w.same("sent", w.found(search.Events().Name), 1)
		w.send("b", "event", event(2))
		rest(70 * time.Second)
		w.same("sent", w.found(search.Events().Name), 2)
		w.same("books", w.books(windows.Delivered), "accepted 2, delivered 2, skipped 0, dead 0, in flight 0")
	})
}

func TestAnExpectedCountClosesEarly(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{Expect: "X-Batch-Count"})
		for i := range 3 {
			w.sent++
			m := &tidemill.Message{ID: fmt.Sprint(w.sent), To: "adapter-event", Payload: []byte(event(i)), Header: []tidemill.Field{
				{Name: []byte("batchId"), Value: []byte(`"b"`)}, {Name: []byte("X-Batch-Count"), Value: []byte("3")}}}
			if err := w.queues.Add(w.Context(), []*tidemill.Message{m}, nil); err != nil {
				w.Fatal(err)
			}
		}
		rest(10 * time.Second)
		w.same("sent", w.found(search.Events().Name), 3)
	})
}

func TestTopicsThatAreAwayUseUpNoTry(t *testing.T) {
	in(t, func(w *world) {
		w.out.set(func(*tidemill.Message) error { return errAway })
		w.up(windows.Options{})
		for i := range 100 {
			w.send("b", "event", event(i))
		}
		rest(time.Hour)
		info := w.only()
		w.same("after an hour", fmt.Sprint(info.State != window.Parked, info.Tries), "true 0")
		if n := w.out.asked(); n < 10 || n > 2000 {
			w.Errorf("%d calls in an hour", n)
		}
		w.out.set(nil)
		rest(2 * time.Minute)
		w.same("books", w.books(windows.Delivered), "accepted 100, delivered 100, skipped 0, dead 0, in flight 0")
		w.same("in the index", w.found(search.Events().Name), 100)
	})
}

// only is the only window.
func (w *world) only() *window.Info {
	w.Helper()
	var all []*window.Info
	for i, err := range w.windows.List(w.Context(), window.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, i)
	}
	if len(all) != 1 {
		w.Fatalf("%d windows, want 1", len(all))
	}
	return all[0]
}

func TestAPartThatFailsKeepsTheWindowUntilItIsParked(t *testing.T) {
	in(t, func(w *world) {
		bad := func(m *tidemill.Message) error {
			if string(m.Key) == "7" {
				return errAway // one partition
			}
			return nil
		}
		w.out.set(bad)
		w.up(windows.Options{Tries: 4})
		for i := range 50 {
			w.send("b", "event", event(i))
		}
		rest(62 * time.Second)
		w.same("not yet parked", fmt.Sprint(w.only().State != window.Parked, w.only().Tries > 0), "true true")
		rest(5 * time.Minute)
		info := w.only()
		w.same("state", info.State, window.Parked)
		w.same("records of it", info.Records, 50)
		w.same("books", w.books(windows.Delivered), "accepted 50, delivered 0, skipped 0, dead 50, in flight 0")
		w.out.set(nil)
		if n, err := w.windows.Replay(w.Context(), window.Filter{State: window.Parked}); n != 1 || err != nil {
			w.Fatal(n, err)
		}
		rest(time.Minute)
		w.same("books", w.books(windows.Delivered), "accepted 100, delivered 50, skipped 0, dead 50, in flight 0")
		w.same("in the index", w.found(search.Events().Name), 50)
		if a, err := w.sys.Audit(w.Context()); err != nil || !a.Balanced || len(a.Pipelines) != 5 {
			w.Errorf("audit %+v, %v", a, err)
		}
	})
}

func TestARefusedRecordDiesAlone(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("wholly ", whole), func(t *testing.T) {
			in(t, func(w *world) {
				w.out.whole = whole
				w.out.set(func(m *tidemill.Message) error {
					if string(m.Key) == "7" || string(m.Key) == "90" {
						return errLarge
					}
					return nil
				})
				w.up(windows.Options{Page: 20})
				for i := range 100 {
					w.send("b", "event", event(i))
				}
				rest(70 * time.Second)
				w.same("books", w.books(windows.Delivered), "accepted 100, delivered 98, skipped 0, dead 2, in flight 0")
				w.same("in the index", w.found(search.Events().Name), 98)
				all := w.dead(windows.Delivered)
				w.same("letters", len(all), 2)
				if !has(all, "too large") {
					w.Errorf("letters %q", all)
				}
				w.out.set(nil)
				if n, err := w.letters.Replay(w.Context(), deadletter.Filter{Pipeline: windows.Delivered}); n != 2 || err != nil {
					w.Fatal(n, err)
				}
				rest(70 * time.Second)
				w.same("in the index after a replay", w.found(search.Events().Name), 100)
				w.same("letters", len(w.dead(windows.Delivered)), 0)
			})
		})
	}
}

func TestProcessorsFilterAndFail(t *testing.T) {
	in(t, func(w *world) {
		var sick atomic.Bool
		sick.Store(true)
		w.up(windows.Options{Tries: 100},
			process.Step{Processor: must(process.Filter{Keep: "numMentions > 1"}.New())},
			process.Step{OnError: process.Retry, Kind: record.Event, Processor: process.Each("mine", func(_ context.Context, _ string, it *process.Item) error {
				if sick.Load() {
					return tidemill.Fail(tidemill.Transient, "the service is away")
				}
				if it.Record.ID == 55 {
					it.Refuse(tidemill.Fail(tidemill.Business, "against the rules"))
				}
				return nil
			})})
		for i := range 100 {
			w.send("b", "event", event(i)) // numMentions is the last digit
		}
		rest(90 * time.Second)
		w.same("while it fails", fmt.Sprint(w.found(search.Events().Name), w.only().Tries > 0), "0 true")
		sick.Store(false)
		rest(2 * time.Minute)
		w.same("books", w.books(windows.Delivered), "accepted 100, delivered 79, skipped 20, dead 1, in flight 0")
		w.same("letters", len(w.dead(windows.Delivered)), 1)
	})
}

func TestWhoIsStoppedGivesWindowsBack(t *testing.T) {
	in(t, func(w *world) {
		w.out.set(func(m *tidemill.Message) error {
			if string(m.Key) == "99" {
				return errAway
			}
			return nil
		})
		w.up(windows.Options{Page: 10})
		for i := range 100 {
			w.send("b", "event", event(i))
		}
		rest(66 * time.Second)
		w.down()
		w.out.set(nil)
		w.up(windows.Options{Page: 10})
		rest(2 * time.Minute)
		w.same("books", w.books(windows.Delivered), "accepted 100, delivered 100, skipped 0, dead 0, in flight 0")
		w.same("in the index", w.found(search.Events().Name), 100)
	})
}

func TestWhatTheIndexRefusesIsALetter(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		w.send("b", "event", `{"globalEventId":1}`) // no day: it has no index
		w.send("b", "event", event(2))
		rest(70 * time.Second)
		w.same("in the index", w.found(search.Events().Name), 1)
		if all := w.dead("index-event"); len(all) != 1 || !has(all, "elasticIndexDate") {
			w.Errorf("letters %q", all)
		}
	})
}

func TestNonsenseIsRefused(t *testing.T) {
	in(t, func(w *world) {
		good := windows.Parts{Intakes: []windows.Intake{{Name: "a", Source: w.queues.Open("a", queue.Options{})}}, Windows: w.windows, DeadLetters: w.letters, Out: w.out}
		for what, spoil := range map[string]func(*windows.Parts, *windows.Options){
			"no windows": func(p *windows.Parts, _ *windows.Options) { p.Windows = nil },
			"no letters": func(p *windows.Parts, _ *windows.Options) { p.DeadLetters = nil },
			"no way out": func(p *windows.Parts, _ *windows.Options) { p.Out = nil },
			"no name": func(p *windows.Parts, _ *windows.Options) {
				p.Intakes = []windows.Intake{{Source: p.Intakes[0].Source}}
			},
			"one name twice": func(p *windows.Parts, _ *windows.Options) { p.Intakes = append(p.Intakes, p.Intakes[0]) },
			"an own name": func(p *windows.Parts, _ *windows.Options) {
				p.Intakes = []windows.Intake{{Name: windows.Delivered, Source: p.Intakes[0].Source}}
			},
			"readers no index": func(p *windows.Parts, _ *windows.Options) { p.Readers = []windows.Reader{{}} },
			"a negative page":  func(_ *windows.Parts, o *windows.Options) { o.Page = -1 },
		} {
			p, o := good, windows.Options{}
			spoil(&p, &o)
			if _, err := windows.New(p, o); err == nil {
				w.Errorf("%s: it was taken", what)
			}
		}
		if _, err := windows.New(good, windows.Options{}); err != nil {
			w.Error(err)
		}
	})
}
