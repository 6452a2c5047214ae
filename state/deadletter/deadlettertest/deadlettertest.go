// Package deadlettertest holds every promise of the dead-letter role as a case that each
// backend passes. A backend's whole test is one call of Run.
package deadlettertest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/sourcetest"
	"github.com/tidemill/tidemill/state/deadletter"
)

// A Harness is a new, empty store of the backend under test.
type Harness struct {
	Store deadletter.Store
	// Reopen ends the process as a crash would, as far as a test can, and opens the durable
	// data anew. Nil: nothing is durable.
	Reopen func(t *testing.T) deadletter.Store
	// Shared says that other instances may use the same dead letters: those handed out
	// before Reopen stay leased until their lease has ended.
	Shared bool
	Close  func() // before the end of the test, for suites that open many; nil: nothing to close
}

// Source makes a harness of package sourcetest out of a store: accepted messages are dead
// letters, put and replayed at once. reopen is as Harness.Reopen, or nil.
func Source(t *testing.T, store deadletter.Store, lease time.Duration, reopen func(t *testing.T) deadletter.Store) sourcetest.Harness {
	n := uint64(0)
	h := sourcetest.Harness{Lease: lease, Keeps: sourcetest.AllFields, ByID: true,
		Accept: func(ms ...*tidemill.Message) {
			t.Helper()
			letters, ids := make([]tidemill.DeadLetter, len(ms)), make([]string, len(ms))
			for i, m := range ms {
				n++
				m.Mark.Lo = n
				letters[i], ids[i] = tidemill.DeadLetter{Pipeline: "p", Message: m, Cause: "it died", Kind: tidemill.Partner, At: time.Now()}, m.ID
			}
			if err := store.Put(t.Context(), letters); err != nil {
				t.Fatalf("Put: %v", err)
			}
			if k, err := store.Replay(t.Context(), deadletter.Filter{Pipeline: "p", IDs: ids}); k != len(ids) || err != nil {
				t.Fatalf("Replay: %d, %v; want %d", k, err, len(ids))
			}
		},
		Open: func() tidemill.Source { return store.Open("p") },
	}
	if reopen != nil {
		h.Kill = func() { store = reopen(t) }
	}
	return h
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

// lease is the lease of the stores under test.
const lease = 30 * time.Second

type testcase struct {
	name   string
	reason string
	o      deadletter.Options
	do     func(t *testing.T, f fixture)
}

// fixture is a store with its clock.
type fixture struct {
	Harness
	clock *Clock
}

// Run runs all cases, each on its own store.
func Run(t *testing.T, open func(t *testing.T, o deadletter.Options) Harness) {
	for _, c := range slices.Concat(putCases, listCases, editCases, replayCases, settleCases, groupCases, ownerCases, boundCases, concurrentCases) {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("why it matters: %s", c.reason)
				}
			}()
			clock := NewClock()
			c.o.Now, c.o.Lease = clock.Now, lease
			c.do(t, fixture{open(t, c.o), clock})
		})
	}
	t.Run("behaves as its model over random histories", func(t *testing.T) { follows(t, open) })
	clock := NewClock()
	o := deadletter.Options{Now: clock.Now, Lease: lease}
	if open(t, o).Reopen != nil {
		for _, c := range durableCases {
			t.Run(c.name, func(t *testing.T) { c.do(t, fixture{open(t, o), clock}) })
		}
	}
	realTime(t, open)
}

// letter makes a dead letter of pipeline p for the message id at position lo.
func (f *fixture) letter(id string, lo uint64) tidemill.DeadLetter {
	return tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: "answered 500", Tries: 3, At: f.clock.Now(),
		Message: &tidemill.Message{ID: id, Tenant: "t", Payload: []byte("payload of " + id), Mark: tidemill.Mark{Shard: 7, Epoch: 1, Hi: 1, Lo: lo}}}
}

func (f *fixture) put(t *testing.T, ls ...tidemill.DeadLetter) {
	t.Helper()
	if err := f.Store.Put(t.Context(), ls); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

// fill puts dead letters id0, id1, … at positions 0, 1, …
func (f *fixture) fill(t *testing.T, n int) {
	t.Helper()
	var ls []tidemill.DeadLetter
	for i := range n {
		ls = append(ls, f.letter(fmt.Sprint("id", i), uint64(i)))
	}
	f.put(t, ls...)
}

func (f *fixture) list(t *testing.T, by deadletter.Filter) []*deadletter.Letter {
	t.Helper()
	var ls []*deadletter.Letter
	for l, err := range f.Store.List(context.WithoutCancel(t.Context()), by) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		ls = append(ls, l)
	}
	return ls
}

// one returns the only dead letter.
func (f *fixture) one(t *testing.T) *deadletter.Letter {
	t.Helper()
	ls := f.list(t, deadletter.Filter{})
	if len(ls) != 1 {
		t.Fatalf("%d letters, want 1", len(ls))
	}
	return ls[0]
}

func (f *fixture) ids(t *testing.T, by deadletter.Filter) []string {
	t.Helper()
	ids := []string{}
	for _, l := range f.list(t, by) {
		ids = append(ids, l.ID)
	}
	return ids
}

func (f *fixture) replay(t *testing.T, by deadletter.Filter, want int) {
	t.Helper()
	n, err := f.Store.Replay(t.Context(), by)
	if err != nil || n != want {
		t.Fatalf("Replay: %d, %v; want %d", n, err, want)
	}
}

func (f *fixture) books(t *testing.T, want tidemill.Books) {
	t.Helper()
	src := f.Store.Open("p")
	b, err := src.(tidemill.Bookkeeper).Books(t.Context())
	if err != nil {
		t.Fatalf("Books: %v", err)
	}
	if b != want {
		t.Errorf("books %+v, want %+v", b, want)
	}
	if b.Off() != 0 {
		t.Errorf("books are off by %d", b.Off())
	}
	if c, ok := src.(tidemill.Counter); ok {
		want.Pending = 0
		if got, err := c.Counters(t.Context()); err != nil || got != want {
			t.Errorf("counters %+v, %v; want %+v", got, err, want)
		}
	}
}

// receive takes up to n messages; it returns none where none comes within a moment.
func receive(t *testing.T, s tidemill.Source, n int) []*tidemill.Message {
	t.Helper()
	into := make([]*tidemill.Message, n)
	for i := range into {
		into[i] = &tidemill.Message{ID: "old", Payload: []byte("a longer payload of before"), Tries: 9, Header: []tidemill.Field{{Name: []byte("old")}}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	k, err := s.Receive(ctx, into)
	if err != nil {
		t.Fatalf("Receive: %v", err)
	}
	return into[:k]
}

// empty checks that nothing can be received: a source that has something hands it out at
// once, even when the context ends meanwhile.
func empty(t *testing.T, s tidemill.Source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	m := new(tidemill.Message)
	if n, err := s.Receive(ctx, []*tidemill.Message{m}); n != 0 || err == nil {
		t.Errorf("received %d (%q), %v; want nothing until the context ends", n, m.ID, err)
	}
}

func settle(t *testing.T, s tidemill.Source, m *tidemill.Message, end tidemill.Settlement, want tidemill.Outcome) {
	t.Helper()
	end.ID, end.Mark = m.ID, m.Mark
	ends := []tidemill.Settlement{end}
	if err := s.Settle(t.Context(), ends); err != nil {
		t.Fatalf("Settle %q: %v", m.ID, err)
	}
	if ends[0].Outcome != want {
		t.Errorf("Settle %q took %d, want %d", m.ID, ends[0].Outcome, want)
	}
}

var (
	delivered = tidemill.Settlement{Fate: tidemill.Delivered}
	skipped   = tidemill.Settlement{Fate: tidemill.Skipped, Cause: "filtered"}
	dead      = tidemill.Settlement{Fate: tidemill.Dead, Kind: tidemill.Business, Cause: "refused again"}
)
