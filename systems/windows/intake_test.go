package windows_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// slow is a store whose first Put takes long, and may fail.
type slow struct {
	window.Store
	fails error
	puts  atomic.Int64
}

func (s *slow) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	if s.puts.Add(1) == 1 {
		time.Sleep(time.Second)
		if s.fails != nil {
			return s.fails
		}
	}
	return s.Store.Put(ctx, records, kept)
}

func TestAnOlderVersionNeverTakesTheNewersPlace(t *testing.T) {
	for name, fails := range map[string]error{"it is slow": nil, "it is tried again": errAway} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				sys, err := windows.New(windows.Parts{
					Intakes: []windows.Intake{{Name: "in", Source: w.queues.Open("in", queue.Options{}), Kind: record.Event}},
					Windows: &slow{Store: w.windows, fails: fails}, Letters: w.letters, Out: w.out,
				}, windows.Options{Store: 1})
				if err != nil {
					w.Fatal(err)
				}
				ctx, stop := context.WithCancel(w.Context())
				ended := make(chan error, 1)
				go func() { ended <- sys.Run(ctx) }()
				for version := 1; version <= 3; version++ {
					m := &tidemill.Message{ID: fmt.Sprint(version), To: "in", Key: []byte("7"), Payload: fmt.Appendf(nil, `{"globalEventId":7,"numArticles":%d}`, version),
						Header: []tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte("b")}}}
					if err := w.queues.Add(w.Context(), []*tidemill.Message{m}, nil); err != nil {
						w.Fatal(err)
					}
				}
				rest(20 * time.Second)
				records := make([]window.Record, 10)
				var id string
				for i, err := range w.windows.List(w.Context(), window.Filter{Batch: "b"}) {
					if err != nil {
						w.Fatal(err)
					}
					id = i.ID
				}
				page, err := w.windows.Peek(w.Context(), id, "", records)
				if err != nil || page.N != 1 || string(records[0].Body) != `{"globalEventId":7,"numArticles":3}` {
					w.Errorf("the window has %d records, %s: %v; want the newest", page.N, records[0].Body, err)
				}
				stop()
				if err := <-ended; err != nil {
					w.Error(err)
				}
			})
		})
	}
}

// A letter about a file that was refused has nothing to store, and says what helps.
func TestALetterAboutAFileSaysWhatHelps(t *testing.T) {
	in(t, func(w *world) {
		sys, err := windows.New(windows.Parts{
			Intakes: []windows.Intake{{Name: "in", Source: w.queues.Open("in", queue.Options{})}},
			Windows: w.windows, Letters: w.letters, Out: w.out,
		}, windows.Options{})
		if err != nil {
			w.Fatal(err)
		}
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- sys.Run(ctx) }()
		died := tidemill.Letter{Pipeline: "in", Kind: tidemill.Validation, Cause: "file a is refused: it is torn", Tries: 1, At: time.Now(),
			Message: &tidemill.Message{ID: "a", Type: "file", Payload: []byte(`{"file":"a"}`)}}
		if err := w.letters.Put(w.Context(), []tidemill.Letter{died}); err != nil {
			w.Fatal(err)
		}
		if n, err := w.letters.Replay(w.Context(), deadletter.Filter{Pipeline: "in"}); n != 1 || err != nil {
			w.Fatal(n, err)
		}
		rest(10 * time.Second)
		for l, err := range w.letters.List(w.Context(), deadletter.Filter{}) {
			if err != nil || l.State != deadletter.Held || l.Replays != 1 || !strings.Contains(l.Cause, "put a good file in its place") {
				w.Errorf("%s after %d replays: %s, %v", l.State, l.Replays, l.Cause, err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}
