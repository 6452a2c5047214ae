package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// handing holds what Receive promises.
var handing = []promise{
	{"hands out what was accepted, oldest first",
		"an old message must not starve behind new ones", always, oldestFirst},
	{"hands out a message once",
		"work is done once where nothing went wrong", always, handsOutOnce},
	{"hands out large batches whole",
		"limits inside a backend (arguments, pages) must not cut messages off", always, largeBatches},
	{"waits for the first message and wakes when it comes",
		"polling costs latency when idle and load when busy", always, waitsAndWakes},
	{"wakes the next waiting source when the first has its fill",
		"a wake-up that gets lost is a message that waits for ever", both(shared, several), wakesEach},
	{"ends with its context",
		"a stop must not wait for traffic", always, endsWithContext},
	{"hands out nothing under a context that has ended",
		"nobody is there to work on it: it would be lost for a lease", always, nothingAfterEnd},
	{"keeps every byte",
		"a payload is delivered and shown as it was received", always, keepsBytes},
	{"says the same at every redelivery",
		"ledgers and dead letters know a message by its position", delays, sameAgain},
	{"never hands out one message to two sources at once",
		"two workers on one message undo each other's work", several, disjoint},
	{"holds a key back while an older message of it is out or waits",
		"order per key is what Ordered promises", ordered, holdsKey},
	{"has the same traits always",
		"preflight and construction decide by them once", always, sameTraits},
}

func oldestFirst(b *bench) {
	b.accept(7)
	for at := 0; at < 7; {
		got, err := b.try(b.src, 3, b.atMost(b.soon()))
		if err != nil {
			b.Fatalf("receive after %d: %v", at, err)
		}
		if len(got) > 3 {
			b.Fatalf("asked for 3, received %d", len(got))
		}
		for _, m := range got {
			if want := message(at).Payload; !bytes.Equal(m.Payload, want) {
				b.Fatalf("received %s, want %s", m.Payload, want)
			}
			at++
		}
	}
}

func handsOutOnce(b *bench) {
	b.accept(5)
	got := b.take(5)
	b.nothing(b.src, b.soon())
	b.deliver(b.src, got...)
	b.nothing(b.src, 2*b.soon())
	b.books(tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
}

func largeBatches(b *bench) {
	const many = 3000
	b.accept(many)
	kept := time.Now()
	got := b.collect(b.src, many, 3*b.soon(), func() { // all of it may take longer than a lease
		if time.Since(kept) >= b.traits.Keep {
			b.keep(b.src)
			kept = time.Now()
		}
	})
	for i, m := range got {
		if want := message(i).Payload; !bytes.Equal(m.Payload, want) {
			b.Fatalf("message %d is %s, want %s", i, m.Payload, want)
		}
	}
	// Every third is settled first, then the rest backwards: no order is promised to Settle.
	var first, rest []*tidemill.Message
	for i, m := range got {
		if i%3 == 0 {
			first = append(first, m)
		} else {
			rest = append([]*tidemill.Message{m}, rest...)
		}
	}
	b.keep(b.src)
	b.deliver(b.src, first...)
	b.books(tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: uint64(len(first))}, Pending: uint64(len(rest))})
	b.keep(b.src)
	b.deliver(b.src, rest...)
	b.books(tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
}

func waitsAndWakes(b *bench) {
	type answer struct {
		got []*tidemill.Message
		err error
		at  time.Time
	}
	took := time.Hour
	for try := 0; try == 0 || b.Live && took > b.soon() && try < 3; try++ { // a machine may stand still, not each time
		ch := make(chan answer, 1)
		go func() {
			got, err := b.try(b.src, 10, time.Hour)
			ch <- answer{got, err, time.Now()}
		}()
		if b.Live {
			time.Sleep(b.soon()) // let it wait for real: a message that comes later must wake it
		} else {
			time.Sleep(10 * time.Minute) // nothing to receive for long
			synctest.Wait()
		}
		start := time.Now()
		b.accept(1)
		a := <-ch
		if a.err != nil || len(a.got) != 1 {
			b.Fatalf("the waiting Receive returned %v, %v; want one message", names(a.got), a.err)
		}
		took = a.at.Sub(start)
		b.deliver(b.src, a.got...)
	}
	if !b.Live && took > 0 || took > b.soon() {
		b.Fatalf("the message was handed out %v after it came, want at once", took)
	}
}

func wakesEach(b *bench) {
	sources := []tidemill.Source{b.src, b.Open(), b.Open()}
	ch := make(chan handed, len(sources))
	for _, src := range sources {
		go func() {
			got, _ := b.try(src, 1, time.Hour)
			ch <- handed{src, got}
		}()
	}
	if !b.Live {
		synctest.Wait()
	}
	b.accept(len(sources))
	seen := map[string]bool{}
	for range sources {
		h := <-ch
		b.deliver(h.src, h.got...)
		for _, m := range h.got {
			seen[string(m.Payload)] = true
		}
	}
	if len(seen) != len(sources) {
		b.Fatalf("%d waiting sources received %v, want %d different messages", len(sources), seen, len(sources))
	}
}

// handed is what one source received.
type handed struct {
	src tidemill.Source
	got []*tidemill.Message
}

func endsWithContext(b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	ch := make(chan error, 1)
	go func() {
		n, err := b.src.Receive(ctx, []*tidemill.Message{new(tidemill.Message)})
		if n != 0 {
			err = errors.Join(err, errors.New("handed out a message that is not there"))
		}
		ch <- err
	}()
	if !b.Live {
		synctest.Wait()
	}
	start := time.Now()
	cancel()
	if err := <-ch; !errors.Is(err, context.Canceled) {
		b.Fatalf("Receive returned %v, want %v", err, context.Canceled)
	}
	if took := time.Since(start); took > b.soon() {
		b.Fatalf("Receive ended %v after its context", took)
	}
	b.accept(1)
	b.deliver(b.src, b.take(1)...)
}

func nothingAfterEnd(b *bench) {
	b.accept(1)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	refused := func() {
		b.Helper()
		for range 5 {
			if n, err := b.src.Receive(ctx, []*tidemill.Message{new(tidemill.Message)}); n != 0 || !errors.Is(err, context.Canceled) {
				b.Fatalf("Receive returned %d, %v; want 0, %v", n, err, context.Canceled)
			}
		}
	}
	refused()
	got := b.take(1)
	if b.traits.Delays { // nor what is due again
		b.took(b.src, tidemill.Applied, again(got[0], 0, false))
		refused()
		got = b.take(1)
	}
	b.deliver(b.src, got...)
}

func keepsBytes(b *bench) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	sent := []*tidemill.Message{
		{ID: "plain", Tenant: "t", Type: "page", Key: []byte("k"), Payload: []byte(`{"a":12345678901234567890,"a":1}`),
			Header: []tidemill.Field{{Name: []byte("a"), Value: []byte("1")}, {Name: []byte("a"), Value: []byte("2")}},
			Time:   time.Date(2024, 2, 29, 23, 59, 59, 999_000_000, time.UTC), Priority: 7},
		{ID: "every byte", Tenant: "t", Key: all, Payload: append([]byte("!"), all...), Header: []tidemill.Field{{Name: all, Value: all}}, Time: time.UnixMilli(0)},
		{ID: "not UTF-8 \xff\xfe", Tenant: "\xff", Type: "\x00", Key: []byte{0}, Payload: []byte("\x00\xff\xc3\x28"), Time: time.Date(1969, 7, 20, 20, 17, 0, 0, time.UTC)},
		{ID: "large", Payload: bytes.Repeat(all, 4<<10), Time: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
		{ID: "empty value", Payload: []byte("?"), Header: []tidemill.Field{{}, {Name: []byte("n")}, {Value: []byte("v")}}, Time: time.UnixMilli(1)},
		{ID: "empty payload", Time: time.UnixMilli(2)},
	}
	b.Accept(sent...)
	got := b.take(len(sent))
	check := func(got []*tidemill.Message) {
		b.Helper()
		for i, m := range got {
			if diff := b.differ(m, sent[i]); diff != "" {
				b.Errorf("message %q came out with another %s: %+v", sent[i].ID, diff, m)
			}
		}
	}
	check(got)
	// Another hand-out must not write into the memory of those that are still out.
	b.accept(10)
	more := b.take(10)
	check(got)
	b.deliver(b.src, more...)
	b.deliver(b.src, got...)
}

// differ names the first field in which a message differs from what was sent.
func (b *bench) differ(m, sent *tidemill.Message) string {
	k := b.Keeps
	switch {
	case !bytes.Equal(m.Payload, sent.Payload):
		return "payload"
	case k.ID && m.ID != sent.ID:
		return "ID"
	case k.Tenant && m.Tenant != sent.Tenant:
		return "tenant"
	case k.Type && m.Type != sent.Type:
		return "type"
	case k.Key && !bytes.Equal(m.Key, sent.Key):
		return "key"
	case k.Time && !m.Time.Equal(sent.Time):
		return "time"
	case k.Priority && m.Priority != sent.Priority:
		return "priority"
	case k.Header && len(m.Header) != len(sent.Header):
		return "header"
	}
	for i := range sent.Header {
		if k.Header && (!bytes.Equal(m.Header[i].Name, sent.Header[i].Name) || !bytes.Equal(m.Header[i].Value, sent.Header[i].Value)) {
			return "header"
		}
	}
	return ""
}

func sameAgain(b *bench) {
	b.accept(3)
	first := b.take(3)
	for i, m := range first {
		for _, o := range first[i+1:] {
			if m.Mark.At(o.Mark) {
				b.Fatalf("%s and %s have one position: %+v", m.Payload, o.Payload, m.Mark)
			}
		}
		b.took(b.src, tidemill.Applied, again(m, 0, false))
	}
	for i, m := range b.take(3) {
		if diff := b.differ(m, message(i)); diff != "" {
			b.Fatalf("the second hand-out has another %s: %+v", diff, m)
		}
		if m.ID != first[i].ID || !m.Mark.At(first[i].Mark) {
			b.Fatalf("%s was %q at %+v, now %q at %+v: want the same", m.Payload, first[i].ID, first[i].Mark, m.ID, m.Mark)
		}
		b.deliver(b.src, m)
	}
}

func disjoint(b *bench) {
	const many = 600
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	for range 3 {
		src := b.Open()
		all.Go(func() {
			for {
				into := make([]*tidemill.Message, 50)
				for i := range into {
					into[i] = new(tidemill.Message)
				}
				n, err := src.Receive(ctx, into)
				if errors.Is(err, tidemill.ErrFlush) {
					continue
				}
				if err != nil {
					return
				}
				ends := make([]tidemill.Settlement, n)
				for i, m := range into[:n] {
					ends[i] = done(m, tidemill.Delivered)
				}
				if err := src.Settle(b.Context(), ends); err != nil {
					b.Errorf("settle: %v", err)
				}
				mu.Lock()
				for i, m := range into[:n] {
					if ends[i].Outcome == tidemill.Applied {
						seen[string(m.Payload)]++
					}
				}
				if len(seen) == many {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for range many / 100 {
		b.accept(100)
	}
	patience := time.AfterFunc(time.Minute, stop)
	all.Wait()
	patience.Stop()
	for name, times := range seen {
		if times != 1 {
			b.Errorf("%s was applied %d times", name, times)
		}
	}
	if len(seen) != many {
		b.Fatalf("%d of %d messages were applied", len(seen), many)
	}
	b.books(tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
}

func holdsKey(b *bench) {
	first, second, other := message(0), message(1), message(2)
	second.Key = first.Key
	b.Accept(first, second, other)
	got := b.within(b.src, 2, b.soon())
	if string(got[0].Payload) != "0" || string(got[1].Payload) != "2" {
		b.Fatalf("received %v, want 0 and 2: 1 has the key of 0, which is out", names(got))
	}
	if b.traits.Delays {
		b.took(b.src, tidemill.Applied, again(got[0], b.soon(), true))
		b.nothing(b.src, b.soon()/2)
		got[0] = b.within(b.src, 1, b.soon())[0]
	}
	b.deliver(b.src, got...)
	b.deliver(b.src, b.take(1)...)
}

func sameTraits(b *bench) {
	b.accept(1)
	b.deliver(b.src, b.take(1)...)
	now := b.src.Traits()
	if !b.Alone && now == b.traits {
		now = b.Open().Traits()
	}
	if now != b.traits {
		b.Fatalf("traits are %+v, were %+v", now, b.traits)
	}
	_, keeper := b.src.(tidemill.Keeper)
	if b.traits.Keep > 0 && !keeper {
		b.Fatal("Traits.Keep asks for Keep, but the source is no Keeper")
	}
	if b.traits.Keep > 0 && b.Lease > 0 && b.traits.Keep > b.Lease/2 {
		b.Fatalf("Traits.Keep is %v for a lease of %v: one late call loses the lease", b.traits.Keep, b.Lease)
	}
}
