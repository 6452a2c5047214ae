package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

const lease = time.Minute

// world is a bridge between a queue in memory and a small broker, in a synctest bubble.
type world struct {
	*testing.T
	queue  *memoryqueue.Store
	source tidemill.Source
	broker *broker
	bridge *Bridge
}

// with runs a test in a world whose bridge is started.
func with(t *testing.T, change func(*Options, *Parts), test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, queue: memoryqueue.New(memoryqueue.Options{}), broker: newBroker()}
		w.start(change)
		test(w)
		if w.bridge != nil {
			w.stop()
		}
	})
}

func (w *world) start(change func(*Options, *Parts)) {
	w.source = w.queue.Open("entries", queue.Options{Lease: lease})
	p := Parts{Source: w.source, Sink: w.broker, Up: w.broker.isUp, Acks: w.broker}
	o := Options{Stream: "entries", Topic: "out", Dead: "dead", Workers: 2, Batch: 10, Buffer: 1000,
		Retry:   policy.Retry{Tries: 5, Base: time.Second, Factor: 2, Max: 30 * time.Second},
		Breaker: policy.Breaker{Rate: .5, Volume: 20, Window: time.Minute, Open: 30 * time.Second, Closes: 5}}
	if change != nil {
		change(&o, &p)
	}
	b, err := New(p, o)
	if err != nil {
		w.Fatal(err)
	}
	if o.Tracer != nil {
		b.Each(func(e *flow.Engine) { e.Trace(o.Tracer) })
	}
	if err := b.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.bridge = b
}

func (w *world) stop() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), 2*time.Minute)
	defer cancel()
	if err := w.bridge.Stop(ctx); err != nil {
		w.Error(err)
	}
	w.bridge = nil
}

// add puts entries with a payload into the stream.
func (w *world) add(ids ...string) {
	w.Helper()
	var jobs []*tidemill.Message
	for _, id := range ids {
		jobs = append(jobs, &tidemill.Message{ID: id, To: "entries",
			Header: []tidemill.Field{{Name: []byte("payload"), Value: []byte(`{"of":"` + id + `"}`)}, {Name: []byte("device"), Value: []byte("d-" + id)}}})
	}
	if err := w.queue.Add(w.Context(), jobs, nil); err != nil {
		w.Fatal(err)
	}
}

// rest lets time pass, and everything that has to happen in it.
func (w *world) rest(d time.Duration) { time.Sleep(d); synctest.Wait() }

func (w *world) books(want tidemill.Books) {
	w.Helper()
	got, err := w.source.(tidemill.Bookkeeper).Books(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if got != want {
		w.Errorf("books are %+v, want %+v", got, want)
	}
	if got.Off() != 0 {
		w.Errorf("the books are off by %d", got.Off())
	}
}

func (w *world) published(want ...string) {
	w.Helper()
	if got := w.broker.ids(); !slices.Equal(got, want) {
		w.Errorf("published %q, want %q", got, want)
	}
}

// broker is a small broker: it keeps published messages and hands out acks.
type broker struct {
	mu     sync.Mutex // guards all below
	up     bool
	slow   time.Duration // each write takes so long
	fail   func(*tidemill.Message) error
	log    []string // "topic id", and subscribe, unsubscribe
	bodies []string
	calls  int
	most   int // calls at once
	acks   chan string
}

func newBroker() *broker { return &broker{up: true, acks: make(chan string, 1000)} }

var errAway = tidemill.Fail(tidemill.Transient, "no connection")

func (b *broker) Write(ctx context.Context, batch []*tidemill.Message) error {
	b.mu.Lock()
	b.calls++
	b.most = max(b.most, b.calls)
	slow := b.slow
	b.mu.Unlock()
	defer func() { b.mu.Lock(); b.calls--; b.mu.Unlock() }()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return tidemill.Fail(tidemill.Unknown, "not acknowledged: %w", ctx.Err())
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.up {
		return errAway
	}
	var p tidemill.Partial
	for i, m := range batch {
		if b.fail != nil {
			if err := b.fail(m); err != nil {
				p.Failed = append(p.Failed, tidemill.Failed{Index: i, Err: err})
				continue
			}
		}
		b.log = append(b.log, m.To+" "+m.ID)
		b.bodies = append(b.bodies, string(m.Payload))
	}
	if len(p.Failed) > 0 {
		return &p
	}
	return nil
}

func (b *broker) isUp() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.up }

func (b *broker) set(do func()) { b.mu.Lock(); defer b.mu.Unlock(); do() }

func (b *broker) note(s string) { b.mu.Lock(); defer b.mu.Unlock(); b.log = append(b.log, s) }

// ids are those of messages in the order they were published.
func (b *broker) ids() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, l := range b.log {
		if id, ok := strings.CutPrefix(l, "out "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// letters are the bodies on the topic of the dead.
func (b *broker) letters(t *testing.T) (all []map[string]any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.log {
		topic, _, message := strings.Cut(l, " ")
		if !message {
			continue
		}
		if topic == "dead" {
			var m map[string]any
			if err := json.Unmarshal([]byte(b.bodies[n]), &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		n++
	}
	return all
}

func (b *broker) Subscribe(context.Context) error { b.note("subscribe"); return nil }

func (b *broker) Receive(ctx context.Context, each func([]byte)) error {
	select {
	case a := <-b.acks:
		each([]byte(a))
		return nil
	default:
	}
	select {
	case a := <-b.acks:
		each([]byte(a))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *broker) Unsubscribe(context.Context) error { b.note("unsubscribe"); return nil }

func (b *broker) ack(ids ...string) {
	for _, id := range ids {
		b.acks <- fmt.Sprintf(`{"id":%q,"ack":true}`, id)
	}
}

func (b *broker) refuse(id string) { b.acks <- fmt.Sprintf(`{"id":%q,"ack":false}`, id) }

var errRefused = errors.New("refused")

var queueOptions = queue.Options{Lease: lease}

// emptySource has nothing.
type emptySource struct{}

func (emptySource) Receive(ctx context.Context, _ []*tidemill.Message) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}
func (emptySource) Settle(context.Context, []tidemill.Settlement) error { return nil }
func (emptySource) Traits() tidemill.Traits                             { return tidemill.Traits{Delays: true} }
