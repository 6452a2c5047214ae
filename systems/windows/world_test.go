package windows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
)

// world is a system in memory, with queues for topics.
type world struct {
	*testing.T
	queues  *memoryqueue.Store
	windows window.Store
	letters deadletter.Store
	index   search.Store
	version func(*tidemill.Message) uint64 // of both readers
	out     *out
	sys     *windows.System
	ended   chan error
	stop    context.CancelFunc
	sent    int
}

// out is where deliveries go; it fails as a test says.
type out struct {
	tidemill.Sink
	mu    sync.Mutex
	fails func(m *tidemill.Message) error
	calls int
	whole bool
}

func (o *out) Begin(context.Context) (windows.Delivery, error) { return &delivery{out: o}, nil }
func (o *out) Whole() bool                                     { return o.whole }

// delivery is a delivery of out; several may run.
type delivery struct {
	out  *out
	open []*tidemill.Message // if it is atomic
}

func (d *delivery) Write(ctx context.Context, batch []*tidemill.Message) error {
	d.out.mu.Lock()
	fails := d.out.fails
	d.out.calls++
	d.out.mu.Unlock()
	var partly tidemill.Partial
	var good []*tidemill.Message
	for i, m := range batch {
		if err := error(nil); fails != nil {
			if err = fails(m); err != nil {
				partly.Failed = append(partly.Failed, tidemill.Failed{Index: i, Err: err})
				continue
			}
		}
		good = append(good, m)
	}
	if d.out.whole {
		for _, m := range good {
			c := deadletter.Copy(m)
			d.open = append(d.open, &c)
		}
	} else if err := d.out.Sink.Write(ctx, good); err != nil {
		return err
	}
	if partly.Failed != nil {
		return &partly
	}
	return nil
}

func (d *delivery) Abort(context.Context) { d.open = nil }
func (d *delivery) Commit(ctx context.Context) error {
	if !d.out.whole {
		return nil
	}
	open := d.open
	d.open = nil
	return d.out.Sink.Write(ctx, open)
}

// asked is how often a write was tried.
func (o *out) asked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

func (o *out) set(fails func(*tidemill.Message) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fails = fails
}

// in runs a test with a world in a bubble.
func in(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, queues: memoryqueue.New(memoryqueue.Options{}), windows: must(tablewindow.Memory(window.Options{})),
			letters: must(tabledeadletter.Memory(deadletter.Options{})), index: must(memorysearch.New(memorysearch.Options{}, search.Events(), search.Mentions()))}
		w.out = &out{Sink: queue.Sink(w.queues)}
		test(w)
		w.down()
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// up starts the system.
func (w *world) up(o windows.Options, steps ...process.Step) {
	w.Helper()
	o.Topics = windows.Topics{Results: "results"}
	sys, err := windows.New(windows.Parts{
		Intakes: []windows.Intake{
			{Name: "adapter-event", Source: w.queues.Open("adapter-event", queue.Options{}), Kind: record.Event},
			{Name: "adapter-mention", Source: w.queues.Open("adapter-mention", queue.Options{}), Kind: record.Mention},
		},
		Windows: w.windows, DeadLetters: w.letters, Chain: must(process.New(steps, process.Options{})), Out: w.out,
		Readers: []windows.Reader{
			{Name: "index-event", Source: w.queues.Open("processor-event", queue.Options{}), Schema: search.Events(), Version: w.version},
			{Name: "index-mention", Source: w.queues.Open("processor-mention", queue.Options{}), Schema: search.Mentions(), Version: w.version},
		},
		Index: w.index,
	}, o)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.sys, w.stop, w.ended = sys, stop, make(chan error, 1)
	go func() { w.ended <- sys.Run(ctx) }()
}

// down stops it.
func (w *world) down() {
	w.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	if err := <-w.ended; err != nil {
		w.Error(err)
	}
}

// send puts a record into its topic.
func (w *world) send(batch, kind, payload string) {
	w.Helper()
	w.sent++
	m := &tidemill.Message{ID: fmt.Sprint(w.sent), To: "adapter-" + kind, Payload: []byte(payload)}
	if batch != "" {
		m.Header = []tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte(batch)}}
	}
	if err := w.queues.Add(w.Context(), []*tidemill.Message{m}, nil); err != nil {
		w.Fatal(err)
	}
}

func event(id int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"day":20250323,"actor1Name":"ACTOR %d","sourceUrl":"https://example.com/%d","numMentions":%d}`, id, id, id, id%10)
}

func mention(id int, url string, sentence int) string {
	return fmt.Sprintf(`{"globalEventId":%d,"mentionTimeDate":20250323151500,"mentionIdentifier":"%s","sentenceId":%d}`, id, url, sentence)
}

// rest lets time pass.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// found is how many documents of a family exist.
func (w *world) found(schema string) int {
	w.Helper()
	p, err := w.index.Search(w.Context(), search.Query{Schema: schema, Size: 1})
	if err != nil {
		w.Fatal(err)
	}
	return p.Total
}

// same compares values.
func (w *world) same(what string, got, want any) {
	w.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// books are the books of a pipeline.
func (w *world) books(pipeline string) string {
	w.Helper()
	b, err := w.sys.Books()[pipeline].Books(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if b.Accepted != b.Settled.Total()+b.Pending+b.Lost {
		w.Errorf("the books of %s do not balance: %+v", pipeline, b)
	}
	return fmt.Sprintf("accepted %d, delivered %d, skipped %d, dead %d, in flight %d", b.Accepted, b.Settled.Delivered, b.Settled.Skipped, b.Settled.Dead, b.Pending)
}

// dead are the causes of the dead letters of a pipeline, and their ids.
func (w *world) dead(pipeline string) (all []string) {
	w.Helper()
	for l, err := range w.letters.List(w.Context(), deadletter.Filter{Pipeline: pipeline}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, l.ID+": "+l.Cause)
	}
	return all
}

func has(texts []string, part string) bool {
	for _, t := range texts {
		if strings.Contains(t, part) {
			return true
		}
	}
	return false
}

var errAway = tidemill.Fail(tidemill.Transient, "the brokers are away")

var errLarge = tidemill.Fail(tidemill.Validation, "%w", errors.New("the record is too large"))
