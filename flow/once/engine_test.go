package once_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/flow/once"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

// An order whose answer was lost is held in the ledger and dead. Replays are a pipeline
// whose source is the dead letters: without a decision it dies again, with one it is done.
func TestReplayingWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := tableledger.Memory(tableledger.Options{})
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := &ledger.Entry{Key: "order-1", Holder: "0/0/7"}
		if err := book.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		e.State, e.Err = ledger.Held, "answer lost"
		if err := book.End(t.Context(), []*ledger.Entry{e}); err != nil {
			t.Fatal(err)
		}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "orders", Kind: tidemill.Unknown, Cause: "answer lost", At: time.Now(),
			Message: &tidemill.Message{ID: "order-1", Payload: []byte("12"), Mark: tidemill.Mark{Lo: 7}}}}); err != nil {
			t.Fatal(err)
		}
		source := letters.Open("orders")
		books := func() tidemill.Books {
			b, err := source.(tidemill.Bookkeeper).Books(context.WithoutCancel(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for _, c := range []struct {
			decided bool
			effects int
			books   tidemill.Books
		}{
			{false, 0, tidemill.Books{Accepted: 1, Pending: 1}},
			{true, 1, tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}}},
		} {
			if n, err := letters.Replay(t.Context(), deadletter.Filter{Pipeline: "orders"}); n != 1 || err != nil {
				t.Fatalf("Replay: %d, %v", n, err)
			}
			effects := 0
			guard := once.Guard{Ledger: book, Key: func(m *tidemill.Message) string { return m.ID }, Anew: func(*tidemill.Message) bool { return c.decided }}
			engine, err := flow.New(flow.Pipeline{Name: "orders-replay", Source: source, Batch: 10, Work: guard.Around(func(flow.Env) flow.Work {
				return work(func(_ context.Context, b []*flow.Task) error {
					effects += len(b)
					return nil
				})
			})})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() { ran <- engine.Run(ctx) }()
			time.Sleep(time.Minute) // of the bubble: all is quiet after it
			stop()
			if err := <-ran; err != nil {
				t.Fatalf("Run: %v", err)
			}
			if effects != c.effects {
				t.Errorf("decided %v: it happened %d times, want %d", c.decided, effects, c.effects)
			}
			if got := books(); got != c.books {
				t.Errorf("decided %v: books %+v, want %+v", c.decided, got, c.books)
			}
		}
	})
}
