package windows_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// whole is a mention without a sentence.
func whole(id int, url string) string {
	return fmt.Sprintf(`{"globalEventId":%d,"mentionTimeDate":20250323151500,"mentionIdentifier":"%s"}`, id, url)
}

// Topics that know their messages by name must not confuse the two.
func TestSentencesAndDocumentsHaveNamesOfTheirOwn(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{})
		w.send("b", "mention", mention(5, "https://example.com/a", 1))
		w.send("b", "mention", whole(5, "https://example.com/a/1"))
		rest(70 * time.Second)
		w.same("books", w.books(windows.Delivered), "accepted 2, delivered 2, skipped 0, dead 0, in flight 0")
		w.same("in the index", w.found(search.Mentions().Name), 2)
	})
}

func TestSentencesAndDocumentsAreDocumentsOfTheirOwn(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{BySentence: true})
		w.send("b", "mention", mention(5, "https://example.com/a", 1))
		w.send("b", "mention", mention(5, "https://example.com/a", 2))
		w.send("b", "mention", whole(5, "https://example.com/a"))
		w.send("b", "mention", whole(5, "https://example.com/a_1"))
		w.send("b", "event", event(5))
		rest(70 * time.Second)
		w.same("in the index", []int{w.found(search.Events().Name), w.found(search.Mentions().Name)}, []int{1, 4})
	})
}

func TestAResultThatIsRefusedDiesAlone(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("wholly ", whole), func(t *testing.T) {
			in(t, func(w *world) {
				w.out.whole = whole
				w.out.set(func(m *tidemill.Message) error {
					if m.Type == "result" {
						return errLarge
					}
					return nil
				})
				w.up(windows.Options{}, process.Step{Processor: must(process.Aggregate{Of: record.Event}.New())})
				for i := range 10 {
					w.send("b", "event", event(i))
				}
				rest(5 * time.Minute)
				w.same("books", w.books(windows.Delivered), "accepted 10, delivered 10, skipped 0, dead 0, in flight 0")
				w.same("in the index", w.found(search.Events().Name), 10)
				if all := w.dead(windows.Delivered); len(all) != 1 || !has(all, "/result/0: the record is too large") {
					w.Errorf("letters %q", all)
				}
				if n, err := w.letters.Replay(w.Context(), deadletter.Filter{}); n != 1 || err != nil {
					w.Error(n, err)
				}
				rest(time.Minute) // it is not a record, and is a dead letter again
				w.same("letters", len(w.dead(windows.Delivered)), 1)
			})
		})
	}
}

// In a long outage of the index, the queues that it reads from are full: windows wait.
func TestATopicThatIsFullUsesUpNoTry(t *testing.T) {
	for _, kind := range []tidemill.Kind{tidemill.RateLimit, tidemill.Credentials} {
		t.Run(kind.String(), func(t *testing.T) {
			in(t, func(w *world) {
				w.out.set(func(m *tidemill.Message) error {
					if string(m.Key) >= "5" {
						return tidemill.Fail(kind, "there is no room")
					}
					return nil
				})
				w.up(windows.Options{Tries: 2})
				for i := range 10 {
					w.send("b", "event", event(i))
				}
				rest(time.Hour)
				info := w.only()
				w.same("after an hour", fmt.Sprint(info.State != window.Parked, info.Tries), "true 0")
				w.out.set(nil)
				rest(3 * time.Minute)
				w.same("books", w.books(windows.Delivered), "accepted 10, delivered 10, skipped 0, dead 0, in flight 0")
			})
		})
	}
}

// failing is an index that fails some documents for a while.
type failing struct {
	search.Store
	until time.Time
	kind  tidemill.Kind
}

func (x failing) Index(ctx context.Context, docs []search.Doc) error {
	if time.Now().Before(x.until) {
		return &tidemill.Partial{Failed: []tidemill.Failed{{Index: 0, Err: tidemill.Fail(x.kind, "not now")}}}
	}
	return x.Store.Index(ctx, docs)
}

func TestWhatTheIndexDoesNotRefuseIsIndexedInTheEnd(t *testing.T) {
	for _, kind := range []tidemill.Kind{tidemill.Partner, tidemill.RateLimit, tidemill.Transient, tidemill.Timeout, tidemill.Unknown} {
		t.Run(kind.String(), func(t *testing.T) {
			in(t, func(w *world) {
				w.index = failing{w.index, time.Now().Add(10 * time.Minute), kind}
				w.up(windows.Options{})
				w.send("b", "event", event(1))
				rest(20 * time.Minute)
				w.same("letters", len(w.dead("index-event")), 0)
				w.same("in the index", w.found(search.Events().Name), 1)
			})
		})
	}
}

// Records that had arrived before their window was parked arrive once more with its replay, in
// their current form: processors may have been mended meanwhile.
func TestAReplayIsSentWhateverTopicsKnow(t *testing.T) {
	in(t, func(w *world) {
		var mended atomic.Bool
		name, _ := record.Event.Lookup("actor1Name")
		w.up(windows.Options{Tries: 2, Page: 10}, process.Step{OnError: process.Retry, Processor: process.Each("mine", func(_ context.Context, _ string, it *process.Item) error {
			switch {
			case mended.Load():
				return it.Record.Set(name, []byte(`"mended"`))
			case it.Record.ID == 11:
				return tidemill.Fail(tidemill.Partner, "the service cannot")
			}
			return it.Record.Set(name, []byte(`"wrong"`))
		})})
		for i := range 12 {
			w.send("b", "event", event(i))
			rest(time.Millisecond) // in this order
		}
		rest(5 * time.Minute)
		w.same("state", w.only().State, window.Parked)
		w.same("sent before it was parked", w.found(search.Events().Name), 10)
		mended.Store(true)
		if n, err := w.windows.Replay(w.Context(), window.Filter{}); n != 1 || err != nil {
			w.Fatal(n, err)
		}
		rest(5 * time.Minute)
		p, err := w.index.Search(w.Context(), search.Query{Schema: search.Events().Name, Text: "actor1Name:mended", Size: 100})
		if p.Total != 12 || err != nil {
			w.Errorf("%d documents are as they were sent last, %v; want 12", p.Total, err)
		}
	})
}

// A failed call of a service counts as a try of the window; a service that is left alone does
// not.
func TestAServiceThatIsLeftAloneUsesUpNoTry(t *testing.T) {
	in(t, func(w *world) {
		var state atomic.Int32 // 0 left alone, 1 failing, 2 healthy
		w.up(windows.Options{Tries: 3, Page: 10}, process.Step{OnError: process.Retry, Processor: process.Each("mine", func(_ context.Context, _ string, it *process.Item) error {
			switch {
			case state.Load() == 2:
				return nil
			case state.Load() == 1 && it.Record.ID == 7: // the one probe
				return tidemill.Fail(tidemill.Partner, "it answered 500")
			}
			return &tidemill.Error{Kind: tidemill.Transient, After: 10 * time.Second, Err: process.ErrAlone}
		})})
		for i := range 12 {
			w.send("b", "event", event(i))
			rest(time.Millisecond)
		}
		rest(time.Hour)
		info := w.only()
		w.same("after an hour", fmt.Sprint(info.State != window.Parked, info.Tries), "true 0")
		state.Store(1)
		rest(15 * time.Second)
		w.same("asked in vain", w.only().Tries > 0, true)
		rest(10 * time.Minute)
		w.same("state", w.only().State, window.Parked)
		state.Store(2)
		if n, err := w.windows.Replay(w.Context(), window.Filter{}); n != 1 || err != nil {
			w.Fatal(n, err)
		}
		rest(5 * time.Minute)
		w.same("in the index", w.found(search.Events().Name), 12)
	})
}
