// Package sourcetest is the contract of every tidemill.Source as a table of cases, each
// with its reason. A backend's whole test is one call:
//
//	func TestSource(t *testing.T) {
//		sourcetest.Run(t, func(t *testing.T) sourcetest.Harness { ... })
//	}
//
// A case that needs an ability runs only where the source's Traits have it.
package sourcetest

import (
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemill/tidemill"
)

// Harness is one fresh, empty source under test. Leave nil what cannot be done.
type Harness struct {
	// Accept brings messages in, in this order. When it returns they are durable and count
	// as accepted. Cases tell messages apart by Payload, which the source keeps.
	Accept func(ms ...*tidemill.Message)
	// Open makes one more source of the same messages. All of them stay open.
	Open func() tidemill.Source
	// Kill drops everything that is not durable, as kill -9 and a restart do. Sources
	// opened before are gone; their messages may stay leased until the lease ends.
	Kill func()
	// Lease is how long a hand-out lasts without Keep; 0 where Traits.Keep is 0.
	Lease time.Duration
	// Keeps says which fields come out as they went in, besides the payload.
	Keeps Fields
	// ByID says that a settlement by ID alone, without a mark, ends a message.
	ByID bool
	// Alone says that one source has all messages: promises about several sources are not
	// checked. Open is called once, and again after each Kill.
	Alone bool
	// Live says that time is real, because the backend is a server: waits are then
	// checked by their bounds only. Otherwise every case runs inside a synctest bubble.
	Live bool
	// Soon bounds what ought to happen at once; 0: a quarter of Lease, or 5 seconds without
	// one.
	Soon time.Duration
	// Owned says that a message belongs to one open source until that one is gone, as a
	// record of an assigned partition does: a source that owns none waits in vain.
	Owned bool
}

// Fields of a message, beside its payload, that a source keeps.
type Fields struct{ ID, Tenant, Type, Key, Header, Time, Priority bool }

// AllFields is for sources whose messages come out whole.
var AllFields = Fields{ID: true, Tenant: true, Type: true, Key: true, Header: true, Time: true, Priority: true}

// A promise is one case: its name as a sentence, why it must hold, when it applies.
type promise struct {
	name, reason string
	needs        func(*bench) bool
	holds        func(*bench)
}

func always(*bench) bool     { return true }
func leases(b *bench) bool   { return b.traits.Keep > 0 && b.Lease > 0 }
func delays(b *bench) bool   { return b.traits.Delays }
func forwards(b *bench) bool { return b.traits.Forwards }
func ordered(b *bench) bool  { return b.traits.Ordered && b.Keeps.Key }
func byID(b *bench) bool     { return b.ByID }
func dies(b *bench) bool     { return b.Kill != nil }
func shared(b *bench) bool   { return !b.Owned }
func several(b *bench) bool  { return !b.Alone }
func gates(b *bench) bool    { _, ok := b.src.(tidemill.Gater); return ok }

func both(one, other func(*bench) bool) func(*bench) bool {
	return func(b *bench) bool { return one(b) && other(b) }
}

// Run holds every promise against fresh harnesses in synctest bubbles.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	run(t, fresh, func(t *testing.T, name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	})
}

// RunLive holds every promise against a real server, in real time. Choose short leases,
// of a second or two. atOnce cases run at the same time, each on its own harness: most of a case
// is waiting for the end of a lease.
func RunLive(t *testing.T, atOnce int, fresh func(t *testing.T) Harness) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	run(t, func(t *testing.T) Harness {
		h := fresh(t)
		h.Live = true
		return h
	}, func(t *testing.T, name string, f func(*testing.T)) {
		g.Go(func() error { t.Run(name, f); return nil })
	})
	_ = g.Wait()
}

// run has each promise checked as a test of its name.
func run(t *testing.T, fresh func(*testing.T) Harness, test func(t *testing.T, name string, f func(*testing.T))) {
	for _, table := range [][]promise{handing, settling, outside, leasing, accounting} {
		for _, p := range table {
			test(t, p.name, func(t *testing.T) {
				b := newBench(t, fresh(t))
				if !p.needs(b) {
					return // the source does not claim it
				}
				p.holds(b)
				b.balanced()
				if t.Failed() {
					t.Log("why it matters:", p.reason)
				}
			})
		}
	}
}
