package windows_test

import (
	"context"
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

// patient is a way out on which deliveries appear wholly, and where each part takes its time.
type patient struct {
	takes time.Duration
	seen  map[string]int // by the id of a message: how often it has appeared
	open  []string
}

func (p *patient) Begin(context.Context) (windows.Delivery, error) { p.open = nil; return p, nil }
func (p *patient) Whole() bool                                     { return true }
func (p *patient) Abort(context.Context)                           { p.open = nil }

func (p *patient) Write(_ context.Context, batch []*tidemill.Message) error {
	time.Sleep(p.takes)
	for _, m := range batch {
		p.open = append(p.open, m.ID)
	}
	return nil
}

func (p *patient) Commit(context.Context) error {
	for _, id := range p.open {
		p.seen[id]++
	}
	p.open = nil
	return nil
}

// Who has lost a window while its last part was on its way commits nothing of it: another has
// delivered it meanwhile.
func TestALateOwnerCommitsNothing(t *testing.T) {
	in(t, func(w *world) {
		seen := map[string]int{}
		start := func(store window.Store, takes time.Duration) (end func()) {
			sys := must(windows.New(windows.Parts{Windows: store, Letters: w.letters, Out: &patient{takes: takes, seen: seen}}, windows.Options{}))
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
		if len(seen) != 1 {
			w.Errorf("delivered: %v", seen)
		}
		for id, n := range seen {
			if n != 1 {
				w.Errorf("%s appeared %d times", id, n)
			}
		}
	})
}
