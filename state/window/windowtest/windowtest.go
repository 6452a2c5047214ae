// Package windowtest holds every promise of the window role as a case that each backend
// passes. A backend's whole test is one call of Run, and one of package sourcetest with
// Source.
package windowtest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// A Harness is a new, empty store of the backend under test.
type Harness struct {
	Store window.Store
	// Advance moves the store's clock. A server's clock may go on by itself too: by less than
	// a few seconds in a case.
	Advance func(d time.Duration)
	// Reopen ends the process as a crash would, as far as a test can, and opens the durable
	// data anew. Nil: nothing is durable.
	Reopen func(t *testing.T) window.Store
	// Shared says that other instances may use the same windows: those handed out before
	// Reopen stay leased until their lease has ended.
	Shared bool
	// Parts says that batch ids are spread over several parts, each with its own order: across
	// them the oldest need not come first.
	Parts bool
	// Lose removes the records of a window behind the store's back. Nil: not possible.
	Lose func(t *testing.T, id string)
	// Damage changes a byte of the body of one stored record, likewise.
	Damage func(t *testing.T, id string)
	// Close is called before the end of the test, by suites that open many; nil: nothing to close.
	Close func()
}

// Clock is a clock that stands still until it is moved.
type Clock struct{ ns atomic.Int64 }

// NewClock starts at an instant of a plain day.
func NewClock() *Clock {
	c := new(Clock)
	c.ns.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

// Now reads the clock.
func (c *Clock) Now() time.Time { return time.Unix(0, c.ns.Load()).UTC() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.ns.Add(int64(d)) }

// What the stores under test are opened with.
const (
	length = time.Minute // of a window
	lease  = 30 * time.Second
)

type testcase struct {
	name   string
	reason string
	needs  func(Harness) bool // nil: always
	do     func(f *fixture)
}

// fixture is a store on the table of one case. Its methods end the test where it makes no
// sense to go on.
type fixture struct {
	*testing.T
	Harness
	source tidemill.Source
}

// Run runs all cases, each on its own store.
func Run(t *testing.T, open func(t *testing.T, o window.Options) Harness) {
	o := window.Options{Window: length, Lease: lease, Owner: "tester"}
	for _, c := range slices.Concat(putting, closing, handing, settling, paging, losing, inspecting, lasting, crowding) {
		t.Run(c.name, func(t *testing.T) {
			h := open(t, o)
			if c.needs != nil && !c.needs(h) {
				return // the backend cannot do that
			}
			f := &fixture{t, h, h.Store.Open()}
			defer func() {
				if t.Failed() {
					t.Logf("why it matters: %s", c.reason)
				}
			}()
			c.do(f)
			f.balanced()
		})
	}
	t.Run("behaves as its model over random histories", func(t *testing.T) { follows(t, open) })
}

// rec makes a record of kind event.
func rec(batch, id, body string) window.Record {
	return window.Record{Batch: batch, Kind: "event", ID: id, Body: []byte(body)}
}

// some makes n records of a batch, with ids from 0.
func some(batch string, n int) []window.Record {
	rs := make([]window.Record, n)
	for i := range rs {
		rs[i] = rec(batch, fmt.Sprintf("%06d", i), fmt.Sprintf("body %d of %s", i, batch))
	}
	return rs
}

// put puts records and returns their results.
func (f *fixture) put(rs ...window.Record) []window.Kept {
	f.Helper()
	kept := make([]window.Kept, len(rs))
	if err := f.Store.Put(f.Context(), rs, kept); err != nil {
		f.Fatalf("Put: %v", err)
	}
	return kept
}

// fresh puts records that must all be New.
func (f *fixture) fresh(rs ...window.Record) {
	f.Helper()
	for i, k := range f.put(rs...) {
		if k != window.New {
			f.Fatalf("record %d (%s) is %d, want New", i, rs[i].ID, k)
		}
	}
}

// sweep sweeps until nothing is left to do, and checks how many windows were closed.
func (f *fixture) sweep(want int) window.Swept {
	f.Helper()
	closed := 0
	for range 1000 {
		done, err := f.Store.Sweep(f.Context())
		if err != nil {
			f.Fatalf("Sweep: %v", err)
		}
		if closed += done.Closed; done.Next != 0 {
			if closed != want {
				f.Fatalf("closed %d windows, want %d", closed, want)
			}
			return done
		}
	}
	f.Fatal("there is always more to sweep")
	return window.Swept{}
}

// closed puts records and lets their window's time pass.
func (f *fixture) closed(rs ...window.Record) {
	f.Helper()
	batches := map[string]bool{}
	for i := range rs {
		batches[rs[i].Batch] = true
	}
	f.put(rs...)
	f.Advance(length)
	f.sweep(len(batches))
}

func (f *fixture) closeNow(batch string) {
	f.Helper()
	if ok, err := f.Store.CloseNow(f.Context(), batch); !ok || err != nil {
		f.Fatalf("CloseNow %q: %v, %v", batch, ok, err)
	}
}

// take receives n messages that must be available.
func (f *fixture) take(n int) []*tidemill.Message { f.Helper(); return f.takeFrom(f.source, n) }

func (f *fixture) takeFrom(src tidemill.Source, n int) []*tidemill.Message {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	var got []*tidemill.Message
	for len(got) < n {
		into := make([]*tidemill.Message, n-len(got))
		for i := range into {
			into[i] = &tidemill.Message{ID: "old", Payload: []byte("of before"), Header: []tidemill.Field{{Name: []byte("old")}}, Tries: 9}
		}
		k, err := src.Receive(ctx, into)
		if err != nil {
			f.Fatalf("received %d of %d windows, then: %v", len(got), n, err)
		}
		got = append(got, into[:k]...)
	}
	return got
}

// takeBatches receives the windows of n batch ids, by batch id.
func (f *fixture) takeBatches(n int) map[string]*tidemill.Message {
	f.Helper()
	by := map[string]*tidemill.Message{}
	for _, m := range f.take(n) {
		by[string(m.Key)] = m
	}
	if len(by) != n {
		f.Fatalf("received windows of %d batch ids, want %d", len(by), n)
	}
	return by
}

// nothing checks that nothing can be received.
func (f *fixture) nothing() {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 30*time.Millisecond)
	defer cancel()
	m := new(tidemill.Message)
	if n, err := f.source.Receive(ctx, []*tidemill.Message{m}); n != 0 || err == nil {
		f.Fatalf("received %d (%q), %v; want nothing until the context ends", n, m.ID, err)
	}
}

// end settles one message and checks the answer.
func (f *fixture) end(src tidemill.Source, m *tidemill.Message, e tidemill.Settlement, want tidemill.Outcome) {
	f.Helper()
	e.ID, e.Mark = m.ID, m.Mark
	ends := []tidemill.Settlement{e}
	if err := src.Settle(f.Context(), ends); err != nil {
		f.Fatalf("settle %q: %v", m.ID, err)
	}
	if ends[0].Outcome != want {
		f.Fatalf("settle %q with %+v was taken as %d, want %d", m.ID, e, ends[0].Outcome, want)
	}
}

func (f *fixture) apply(m *tidemill.Message, e tidemill.Settlement) {
	f.Helper()
	f.end(f.source, m, e, tidemill.Applied)
}

var (
	delivered = tidemill.Settlement{Fate: tidemill.Delivered}
	skipped   = tidemill.Settlement{Fate: tidemill.Skipped, Cause: "filtered"}
	dead      = tidemill.Settlement{Fate: tidemill.Dead, Kind: tidemill.Partner, Cause: "refused for good"}
)

func again(after time.Duration, count bool) tidemill.Settlement {
	return tidemill.Settlement{End: tidemill.Again, After: after, CountTry: count, Kind: tidemill.Timeout, Cause: "no answer"}
}

// read reads all of a window under its lease, in pages of that size.
func (f *fixture) read(m *tidemill.Message, size int) []window.Record {
	f.Helper()
	rs, lost := f.readLost(m, size)
	if lost != 0 {
		f.Fatalf("%d records of %q are lost", lost, m.ID)
	}
	return rs
}

func (f *fixture) readLost(m *tidemill.Message, size int) (rs []window.Record, lost int) {
	f.Helper()
	return f.pages(size, func(from string, into []window.Record) (window.Page, error) {
		return f.Store.Page(f.Context(), m.Mark, from, into)
	})
}

func (f *fixture) peek(id string) []window.Record {
	f.Helper()
	rs, _ := f.pages(7, func(from string, into []window.Record) (window.Page, error) {
		return f.Store.Peek(f.Context(), id, from, into)
	})
	return rs
}

func (f *fixture) pages(size int, page func(from string, into []window.Record) (window.Page, error)) (rs []window.Record, lost int) {
	f.Helper()
	for from, first := "", true; first || from != ""; first = false {
		into := make([]window.Record, size)
		p, err := page(from, into)
		if err != nil {
			f.Fatalf("page from %q: %v", from, err)
		}
		if p.N == 0 && p.Next != "" || p.N > size || p.Next != "" && p.Lost != 0 {
			f.Fatalf("page from %q: %+v", from, p)
		}
		rs, lost = append(rs, into[:p.N]...), p.Lost
		from = p.Next
	}
	return rs, lost
}

// ids of records, sorted.
func ids(rs []window.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.ID)
	}
	slices.Sort(out)
	return out
}

// has checks that these records were read, in any order.
func (f *fixture) has(got []window.Record, want ...window.Record) {
	f.Helper()
	texts := func(rs []window.Record) []string {
		out := []string{}
		for _, r := range rs {
			out = append(out, fmt.Sprintf("%q %q %q %q = %q %s", r.Batch, r.Kind, r.ID, r.Qualifier, r.Body, r.Damaged))
		}
		slices.Sort(out)
		return out
	}
	if g, w := texts(got), texts(want); !slices.Equal(g, w) {
		f.Fatalf("read %d records\n%s, want %d\n%s", len(g), shown(g), len(w), shown(w))
	}
}

func shown(texts []string) []string {
	if len(texts) > 8 {
		return append(slices.Clone(texts[:8]), "…")
	}
	return texts
}

func (f *fixture) balanced() {
	f.Helper()
	if b := f.booked(); b.Off() != 0 {
		f.Fatalf("books are off by %d: %+v", b.Off(), b)
	}
}

func (f *fixture) booked() tidemill.Books {
	f.Helper()
	b, err := f.Store.Open().(tidemill.Bookkeeper).Books(f.Context())
	if err != nil {
		f.Fatalf("Books: %v", err)
	}
	return b
}

func (f *fixture) books(want tidemill.Books) {
	f.Helper()
	if b := f.booked(); b != want {
		f.Fatalf("books are\n%+v, want\n%+v", b, want)
	}
	if c, ok := f.Store.Open().(tidemill.Counter); ok {
		want.Pending = 0
		if b, err := c.Counters(f.Context()); err != nil || b != want {
			f.Fatalf("counters are\n%+v, %v; want\n%+v", b, err, want)
		}
	}
}

func (f *fixture) look(id string) *window.Info {
	f.Helper()
	i, err := f.Store.Look(f.Context(), id)
	if err != nil {
		f.Fatalf("Look %q: %v", id, err)
	}
	return i
}

func (f *fixture) list(by window.Filter) []*window.Info {
	f.Helper()
	var is []*window.Info
	for i, err := range f.Store.List(f.Context(), by) {
		if err != nil {
			f.Fatalf("List: %v", err)
		}
		is = append(is, i)
	}
	return is
}

func (f *fixture) stats() window.Stats {
	f.Helper()
	s, err := f.Store.Stats(f.Context())
	if err != nil {
		f.Fatalf("Stats: %v", err)
	}
	return s
}

// restart is Reopen with a new source.
func (f *fixture) restart() {
	f.Store = f.Reopen(f.T)
	f.source = f.Store.Open()
}
