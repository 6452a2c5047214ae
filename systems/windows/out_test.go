package windows_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
)

// pinged is an out that can be pinged.
type pinged struct {
	*out
	err error
}

func (p pinged) Ping(context.Context) error { return p.err }

func TestATopicThatTakesNothingUsesUpTries(t *testing.T) {
	for name, c := range map[string]struct {
		ping error
		want window.State
	}{"the brokers answer": {nil, window.Parked}, "nobody is there": {errAway, window.Ready}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				w.out.set(func(*tidemill.Message) error { return errAway })
				sys, err := windows.New(windows.Parts{Windows: w.windows, DeadLetters: w.letters, Out: pinged{w.out, c.ping}}, windows.Options{Tries: 3})
				if err != nil {
					w.Fatal(err)
				}
				ctx, stop := context.WithCancel(w.Context())
				ended := make(chan error, 1)
				go func() { ended <- sys.Run(ctx) }()
				if err := w.windows.Put(w.Context(), []window.Record{{Batch: "b", Kind: "event", ID: "7", Body: []byte(event(7))}}, nil); err != nil {
					w.Fatal(err)
				}
				rest(10 * time.Minute)
				for i, err := range w.windows.List(w.Context(), window.Filter{}) {
					if err != nil || i.State != c.want {
						w.Errorf("the window is %s after %d tries: %s, %v; want %s", i.State, i.Tries, i.Cause, err, c.want)
					}
				}
				stop()
				if err := <-ended; err != nil {
					w.Error(err)
				}
			})
		})
	}
}
