package windows_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// emptied is a store that can be emptied while it is in use.
type emptied struct {
	window.Store
	mu   sync.Mutex // guards what follows
	puts window.Store
}

func (e *emptied) store() window.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.puts
}

func (e *emptied) empty() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.puts = must(tablewindow.Memory(window.Options{}))
}

// Stats say that 7 records were found missing before it was emptied, and one since.
func (e *emptied) Stats(ctx context.Context) (window.Stats, error) {
	st, err := e.store().Stats(ctx)
	if st.Lost = 7; e.store() != e.Store {
		st.Lost = 1
	}
	return st, err
}

func (e *emptied) Put(ctx context.Context, records []window.Record, kept []window.Kept) error {
	return e.store().Put(ctx, records, kept)
}

func (e *emptied) Open() tidemill.Source { return source{e} }

// source is the source of the current store.
type source struct{ e *emptied }

func (s source) Traits() tidemill.Traits {
	return tidemill.Traits{Delays: true, Parks: true, Ordered: true}
}
func (s source) Receive(ctx context.Context, _ []*tidemill.Message) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
func (s source) Settle(context.Context, []tidemill.Settlement) error { return nil }
func (s source) Books(ctx context.Context) (tidemill.Books, error) {
	return s.e.store().Open().(tidemill.Bookkeeper).Books(ctx)
}

func TestAStoreThatIsEmptiedIsNotSilent(t *testing.T) {
	in(t, func(w *world) {
		store := &emptied{Store: w.windows, puts: w.windows}
		sys, err := windows.New(windows.Parts{
			Intakes: []windows.Intake{{Name: "adapter-event", Source: w.queues.Open("adapter-event", queue.Options{}), Kind: record.Event}},
			Windows: store, DeadLetters: w.letters, Out: w.out}, windows.Options{})
		if err != nil {
			w.Fatal(err)
		}
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- sys.Run(ctx) }()
		audit := func(want string) {
			w.Helper()
			a, err := sys.Audit(ctx)
			if err != nil || a.Balanced != (want == "") || !strings.Contains(strings.Join(a.Faults, "\n"), want) {
				w.Errorf("the audit says %+v, %v; want %q", a, err, want)
			}
			st, err := sys.Stats(ctx)
			if lost := map[bool]uint64{true: 7, false: 48}[want == ""]; err != nil || st.Lost != lost {
				w.Errorf("%d records are said to be lost, %v; want %d", st.Lost, err, lost)
			}
		}
		for i := range 40 {
			w.send("b", "event", event(i))
		}
		rest(20 * time.Second)
		audit("")
		store.empty()
		if st, err := sys.Stats(ctx); err != nil || st.Lost != 7 {
			w.Errorf("%d records are said to be lost before anybody looked, %v", st.Lost, err)
		}
		rest(6 * time.Second) // it is checked every 5 seconds
		w.send("b", "event", event(100))
		rest(20 * time.Second)
		audit("intakes have stored 40 records of which the books of windows know nothing")
		stop()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}
