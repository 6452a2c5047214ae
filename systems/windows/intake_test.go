package windows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
					Windows: &slow{Store: w.windows, fails: fails}, DeadLetters: w.letters, Out: w.out,
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
				for i, err := range w.windows.List(w.Context(), window.Filter{Batch: of("default", "b").String()}) {
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

// rereader has no records, and reads files again, except unknown ones.
type rereader struct {
	tidemill.Source
	mu    sync.Mutex // guards what follows
	asked []string
}

func (r *rereader) Traits() tidemill.Traits { return tidemill.Traits{} }

func (r *rereader) Again(_ context.Context, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked = append(r.asked, name); name != "a" {
		return tidemill.Fail(tidemill.Validation, "there is no such file here")
	}
	return nil
}

// A dead letter about a refused file has nothing to store: the file is read again, or the error
// says what helps.
func TestALetterAboutAFile(t *testing.T) {
	in(t, func(w *world) {
		files := &rereader{Source: w.queues.Open("files", queue.Options{})}
		sys, err := windows.New(windows.Parts{
			Intakes: []windows.Intake{{Name: "in", Source: w.queues.Open("in", queue.Options{})}, {Name: "files", Source: files}},
			Windows: w.windows, DeadLetters: w.letters, Out: w.out,
		}, windows.Options{})
		if err != nil {
			w.Fatal(err)
		}
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- sys.Run(ctx) }()
		for _, name := range []string{"in/a", "files/a", "files/b"} {
			pipeline, id, _ := strings.Cut(name, "/")
			died := tidemill.DeadLetter{Pipeline: pipeline, Kind: tidemill.Validation, Cause: "the file is refused: it is torn", Tries: 1, At: time.Now(),
				Message: &tidemill.Message{ID: id, Type: "file", Payload: []byte(`{"file":"a"}`)}}
			if err := w.letters.Put(w.Context(), []tidemill.DeadLetter{died}); err != nil {
				w.Fatal(err)
			}
		}
		if n, err := w.letters.Replay(w.Context(), deadletter.Filter{}); n != 3 || err != nil {
			w.Fatal(n, err)
		}
		rest(10 * time.Second)
		var left []string
		for l, err := range w.letters.List(w.Context(), deadletter.Filter{}) {
			if err != nil {
				w.Fatal(err)
			}
			left = append(left, fmt.Sprintf("%s/%s %s after %d replays: %.29s", l.Pipeline, l.Message.ID, l.State, l.Replays, l.Cause))
		}
		slices.Sort(left)
		w.same("letters", strings.Join(left, "\n"), "files/b held after 1 replays: there is no such file here\nin/a held after 1 replays: the letter is about a whole f")
		w.same("asked for", fmt.Sprint(slices.Sorted(slices.Values(files.asked))), "[a b]")
		stop()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}
