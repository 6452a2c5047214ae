// Package sinktest is the contract of every tidemill.Sink as a table of cases, each with
// its reason. A backend's whole test is one call:
//
//	func TestSink(t *testing.T) {
//		sinktest.Run(t, func(t *testing.T) sinktest.Harness { ... })
//	}
package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// Harness is one fresh sink under test. Leave nil what cannot be done; cases that need it
// are skipped.
type Harness struct {
	Sink tidemill.Sink
	// Message makes a message that the sink takes, with this payload.
	Message func(payload []byte) *tidemill.Message
	// Invalid makes a message that no retry can save.
	Invalid func() *tidemill.Message
	// Delivered waits until the destination has at least n payloads, or for half a minute,
	// and returns all of them, in the order of arrival.
	Delivered func(n int) [][]byte
	// Cut makes the destination unreachable; messages in flight may be lost. Heal ends it.
	Cut, Heal func()
	// Stick makes the destination accept input and answer nothing.
	Stick func()
	// Repeats says that messages sent around a Cut may arrive more than once.
	Repeats bool
}

type promise struct {
	name, reason string
	needs        func(*Harness) bool
	holds        func(*testing.T, Harness)
}

func always(*Harness) bool { return true }

var promises = []promise{
	{"writes a batch in order",
		"order per key is kept by writing it in order", always, writesInOrder},
	{"nil means that all are at the destination",
		"what is settled as delivered is gone at its source", always, nilMeansAll},
	{"takes an empty batch",
		"a stage may filter everything out", always, takesEmpty},
	{"keeps every byte",
		"payloads are delivered as they were received", always, keepsBytes},
	{"takes batches from several goroutines",
		"lanes share a sink", always, takesConcurrent},
	{"keeps nothing of a batch",
		"the engine uses its memory again at once", always, keepsNothing},
	{"names exactly the invalid message, its neighbours are delivered",
		"one bad message must not cost others a try, nor hide among them",
		func(h *Harness) bool { return h.Invalid != nil }, namesInvalid},
	{"writes nothing under a context that has ended",
		"nobody is there to learn what became of it", always, endedContext},
	{"stops when the context ends",
		"a stuck destination must not block a stop",
		func(h *Harness) bool { return h.Stick != nil }, stopsOnCancel},
	{"an unreachable destination is an error that passes",
		"an outage must not send messages to the dead letters",
		func(h *Harness) bool { return h.Cut != nil }, unreachable},
	{"works again when the destination does",
		"an outage ends without a restart",
		func(h *Harness) bool { return h.Cut != nil && h.Heal != nil }, worksAgain},
	{"loses nothing that it did not name, through an outage",
		"nil and Partial are the only proof of delivery",
		func(h *Harness) bool { return h.Cut != nil && h.Heal != nil }, losesNothing},
}

// Run holds every promise against fresh harnesses.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			h := fresh(t)
			if !p.needs(&h) {
				return // the harness cannot show it
			}
			p.holds(t, h)
			if t.Failed() {
				t.Log("why it matters:", p.reason)
			}
		})
	}
}

// patience bounds what is not under test.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (h *Harness) batch(from, n int) []*tidemill.Message {
	batch := make([]*tidemill.Message, n)
	for i := range batch {
		batch[i] = h.Message(fmt.Appendf(nil, "message %05d", from+i))
	}
	return batch
}

func payloads(batch []*tidemill.Message) [][]byte {
	out := make([][]byte, len(batch))
	for i, m := range batch {
		out[i] = bytes.Clone(m.Payload)
	}
	return out
}

func same(t *testing.T, got, want [][]byte) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("payload %d is %.60q, want %.60q", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d payloads arrived, want %d", len(got), len(want))
	}
}

func write(t *testing.T, h Harness, batch []*tidemill.Message) {
	t.Helper()
	if err := h.Sink.Write(within(t), batch); err != nil {
		t.Fatalf("write %d messages: %v", len(batch), err)
	}
}

func writesInOrder(t *testing.T, h Harness) {
	all := h.batch(0, 2500)
	for at := 0; at < len(all); at += 1000 {
		write(t, h, all[at:min(at+1000, len(all))])
	}
	same(t, h.Delivered(len(all)), payloads(all))
}

func nilMeansAll(t *testing.T, h Harness) {
	for i := range 20 {
		batch := h.batch(i, 1)
		write(t, h, batch)
		if got := h.Delivered(i + 1); len(got) != i+1 || !bytes.Equal(got[i], batch[0].Payload) {
			t.Fatalf("after nil for message %d the destination has %d", i, len(got))
		}
	}
}

func takesEmpty(t *testing.T, h Harness) {
	write(t, h, nil)
	write(t, h, h.batch(0, 1))
	same(t, h.Delivered(1), payloads(h.batch(0, 1)))
}

func keepsBytes(t *testing.T, h Harness) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var batch []*tidemill.Message
	for _, p := range [][]byte{all, []byte(`{"a":12345678901234567890,"a":1}`), bytes.Repeat(all, 1<<10), []byte("\xff\xfe"), {0}, []byte("\r\n\r\n")} {
		batch = append(batch, h.Message(p))
	}
	want := payloads(batch)
	write(t, h, batch)
	same(t, h.Delivered(len(batch)), want)
	same(t, payloads(batch), want) // a payload is never modified
}

func takesConcurrent(t *testing.T, h Harness) {
	const lanes, batches, each = 4, 10, 100
	ctx := within(t)
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for b := range batches {
				batch := make([]*tidemill.Message, each)
				for i := range batch {
					batch[i] = h.Message(fmt.Appendf(nil, "%d %05d", lane, b*each+i))
				}
				if err := h.Sink.Write(ctx, batch); err != nil {
					t.Errorf("lane %d: %v", lane, err)
				}
			}
		})
	}
	all.Wait()
	next := [lanes]int{}
	for _, p := range h.Delivered(lanes * batches * each) {
		var lane, n int
		if _, err := fmt.Sscanf(string(p), "%d %d", &lane, &n); err != nil {
			t.Fatalf("payload %q: %v", p, err)
		}
		if n != next[lane] {
			t.Fatalf("lane %d: message %d arrived when %d was next", lane, n, next[lane])
		}
		next[lane]++
	}
	if next != [lanes]int{batches * each, batches * each, batches * each, batches * each} {
		t.Fatalf("arrived by lane: %v, want %d each", next, batches*each)
	}
}

func keepsNothing(t *testing.T, h Harness) {
	batch := h.batch(0, 50)
	want := payloads(batch)
	for range 3 {
		write(t, h, batch)
		for _, m := range batch {
			clear(m.Payload)
		}
		for i, m := range batch {
			m.Payload = append(m.Payload[:0], want[i]...)
		}
	}
	same(t, h.Delivered(150), slices.Concat(want, want, want))
}

func namesInvalid(t *testing.T, h Harness) {
	batch := h.batch(0, 5)
	batch[2] = h.Invalid()
	err := h.Sink.Write(within(t), batch)
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(partly.Failed) != 1 || partly.Failed[0].Index != 2 {
		t.Fatalf("Write returned %v (%#v), want a Partial that names message 2 alone", err, err)
	}
	if k := tidemill.KindOf(partly.Failed[0].Err); k != tidemill.Validation {
		t.Fatalf("the invalid message failed as %v (%v), want %v", k, partly.Failed[0].Err, tidemill.Validation)
	}
	same(t, h.Delivered(4), payloads(append(batch[:2:2], batch[3:]...)))
}

func endedContext(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Sink.Write(ctx, h.batch(0, 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("Write returned %v, want %v", err, context.Canceled)
	}
	write(t, h, h.batch(1, 1))
	same(t, h.Delivered(1), payloads(h.batch(1, 1)))
}

func stopsOnCancel(t *testing.T, h Harness) {
	write(t, h, h.batch(0, 1))
	h.Stick()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Sink.Write(ctx, h.batch(1, 100)) }()
	time.AfterFunc(100*time.Millisecond, cancel)
	select {
	case err := <-ended:
		for i := range 100 {
			if e := errorOf(err, i); !errors.Is(e, context.Canceled) {
				t.Fatalf("message %d of a stuck Write: %v, want %v", i, e, context.Canceled)
			}
		}
	case <-time.After(patience):
		t.Fatal("Write does not end with its context")
	}
}

// errorOf is what an error of Write says of message i.
func errorOf(err error, i int) error {
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		return err
	}
	for _, f := range partly.Failed {
		if f.Index == i {
			return f.Err
		}
	}
	return nil
}

// passes are the kinds of an outage: the engine repeats without giving a message up.
var passes = []tidemill.Kind{tidemill.Transient, tidemill.Timeout, tidemill.Unknown, tidemill.Partner}

func unreachable(t *testing.T, h Harness) {
	write(t, h, h.batch(0, 1))
	h.Cut()
	for range 2 { // while it is noticed, and once it is known
		err := h.Sink.Write(within(t), h.batch(1, 10))
		if err == nil {
			t.Fatal("Write to a destination that is not there returned nil")
		}
		for i := range 10 {
			if e := errorOf(err, i); e == nil || !slices.Contains(passes, tidemill.KindOf(e)) {
				t.Fatalf("message %d failed as %v (%v), want one of %v", i, tidemill.KindOf(e), e, passes)
			}
		}
	}
}

func worksAgain(t *testing.T, h Harness) {
	write(t, h, h.batch(0, 1))
	h.Cut()
	_ = h.Sink.Write(within(t), h.batch(1, 1)) // the outage is noticed
	h.Heal()
	ctx := within(t)
	for h.Sink.Write(ctx, h.batch(2, 1)) != nil {
		if ctx.Err() != nil {
			t.Fatal("it does not work again")
		}
	}
	arrived(t, h, payloads(h.batch(2, 1)))
}

// losesNothing writes while the destination goes and comes, repeats failures, and checks
// for every message in the end.
func losesNothing(t *testing.T, h Harness) {
	const many, each = 2000, 50
	ctx := within(t)
	all := h.batch(0, many)
	for at := 0; at < many; at += each {
		switch at {
		case many / 4, many / 2:
			h.Cut()
		case many/4 + each, many/2 + each:
			h.Heal()
		}
		left := all[at : at+each]
		for tries := 0; len(left) > 0; tries++ {
			if tries == 1 && (at == many/4 || at == many/2) {
				h.Heal()
			}
			err := h.Sink.Write(ctx, left)
			if ctx.Err() != nil {
				t.Fatalf("%d messages are not delivered in time: %v", len(left), err)
			}
			partly, ok := errors.AsType[*tidemill.Partial](err)
			switch {
			case err == nil:
				left = nil
			case ok:
				var again []*tidemill.Message
				for _, f := range partly.Failed {
					again = append(again, left[f.Index])
				}
				left = again
			}
		}
	}
	arrived(t, h, payloads(all))
}

// arrived checks that every payload arrived, once where nothing repeats.
func arrived(t *testing.T, h Harness, want [][]byte) {
	t.Helper()
	seen := map[string]int{}
	missing := func(got [][]byte) (n int) {
		clear(seen)
		for _, p := range got {
			seen[string(p)]++
		}
		for _, p := range want {
			if seen[string(p)] == 0 {
				n++
			}
		}
		return n
	}
	n := len(want)
	for left := missing(h.Delivered(n)); left > 0; { // repeated ones may have come first
		n += left
		got := h.Delivered(n)
		if left = missing(got); len(got) < n && left > 0 {
			t.Fatalf("%d of %d messages did not arrive, for instance %q", left, len(want), firstMissing(want, seen))
		}
	}
	for _, p := range want {
		if seen[string(p)] > 1 && !h.Repeats {
			t.Fatalf("%q arrived %d times", p, seen[string(p)])
		}
	}
}

func firstMissing(want [][]byte, seen map[string]int) []byte {
	for _, p := range want {
		if seen[string(p)] == 0 {
			return p
		}
	}
	return nil
}
