package windows_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
)

// cutOff is a window store whose leases an instance cannot renew.
type cutOff struct{ window.Store }

func (c cutOff) Open() tidemill.Source { return forgetful{c.Store.Open().(keeping)} }

type keeping interface {
	tidemill.Source
	tidemill.Keeper
	tidemill.Bookkeeper
}

type forgetful struct{ keeping }

func (forgetful) Keep(context.Context) error { return errAway }

// patient is an atomic Out with slow parts.
type patient struct {
	takes time.Duration
	seen  *appeared
}

// appeared is how often messages have appeared, by their ids.
type appeared struct {
	mu    sync.Mutex
	times map[string]int
}

func (p *patient) Begin(context.Context) (windows.Delivery, error) { return &taking{to: p}, nil }
func (p *patient) Whole() bool                                     { return true }

// taking is one delivery.
type taking struct {
	to   *patient
	open []string
}

func (d *taking) Write(_ context.Context, batch []*tidemill.Message) error {
	time.Sleep(d.to.takes)
	for _, m := range batch {
		d.open = append(d.open, m.ID)
	}
	return nil
}

func (d *taking) Commit(context.Context) error {
	seen := d.to.seen
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, id := range d.open {
		seen.times[id]++
	}
	d.open = nil
	return nil
}

func (d *taking) Abort(context.Context) { d.open = nil }

// An instance that lost a window while its last part was being sent commits nothing of it:
// another has delivered it meanwhile.
func TestALateOwnerCommitsNothing(t *testing.T) {
	in(t, func(w *world) {
		seen := &appeared{times: map[string]int{}}
		start := func(store window.Store, takes time.Duration) (end func()) {
			sys := must(windows.New(windows.Parts{Windows: store, DeadLetters: w.letters, Out: &patient{takes: takes, seen: seen}}, windows.Options{}))
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- sys.Run(ctx) }()
			return func() {
				stop()
				if err := <-ended; err != nil {
					w.Error(err)
				}
			}
		}
		end := start(cutOff{w.windows}, time.Minute)
		defer end()
		if err := w.windows.Put(w.Context(), []window.Record{{Batch: "b", Kind: "event", ID: "1", Body: []byte(event(1))}}, nil); err != nil {
			w.Fatal(err)
		}
		rest(70 * time.Second) // it is the first one's, for half a minute
		defer start(w.windows, 0)()
		rest(5 * time.Minute)
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.times) != 1 {
			w.Errorf("delivered: %v", seen.times)
		}
		for id, n := range seen.times {
			if n != 1 {
				w.Errorf("%s appeared %d times", id, n)
			}
		}
	})
}
