package sourcetest

import (
	"context"
	"errors"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// leasing holds what happens to messages whose owner is slow, gone, or held back.
var leasing = []promise{
	{"brings back what was never settled",
		"the worker may have died with it", leases, comesBack},
	{"refuses a late owner once another holds the message",
		"of two owners exactly one may have an effect", leases, lateOwner},
	{"wakes a waiting source when a lease ends",
		"what a dead worker held must not wait for new traffic", leases, wakesForLost},
	{"keeps what is kept",
		"slow is not dead", leases, keeps},
	{"keeps only its own",
		"a living source must not keep a dead one's messages from coming back", leases, keepsItsOwn},
	{"stops keeping what was left",
		"what was shed has to come back", leases, leftComesBack},
	{"ends nothing under the mark of an older hand-out while a newer one is left",
		"a late owner must not end what was shed since", leases, olderMark},
	{"brings everything pending back after a kill",
		"accepted is accepted", dies, comesBackAfterKill},
	{"hands out nothing while its gate is closed, then probes, then all",
		"a broken destination is left alone and asked carefully", gates, gateHolds},
	{"counts the probes of each closing apart",
		"a late answer to an old probe must not let more of them out than the breaker allows", gates, gateCountsApart},
	{"holds the gate for all sources",
		"a breaker is the destination's, not the instance's", gates, gateForAll},
}

func comesBack(b *bench) {
	b.accept(3)
	start := time.Now()
	first := b.take(3)
	b.deliver(b.src, first[1])
	b.nothing(b.src, b.Lease/2)
	got := b.within(b.src, 2, 2*b.Lease)
	if took := time.Since(start); took < b.Lease {
		b.Fatalf("messages came back after %v, their lease is %v", took, b.Lease)
	}
	if string(got[0].Payload) != "0" || string(got[1].Payload) != "2" {
		b.Fatalf("received %v, want 0 and 2", names(got))
	}
	for i, m := range got {
		if m.Handed != 2 || m.Tries != 0 || m.Mark == first[2*i].Mark || !m.Mark.At(first[2*i].Mark) {
			b.Fatalf("%s came back with %d hand-outs, %d tries, at %+v after %+v", m.Payload, m.Handed, m.Tries, m.Mark, first[2*i].Mark)
		}
	}
	b.deliver(b.src, got...)
	b.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func lateOwner(b *bench) {
	b.accept(3)
	late := b.take(3)
	other := b.Open()
	now := b.within(other, 3, 2*b.Lease)
	ends := []tidemill.Settlement{done(late[0], tidemill.Delivered), done(late[1], tidemill.Dead), left(late[2])}
	if b.traits.Delays {
		ends[2] = again(late[2], 0, true)
	}
	for i, took := range b.settle(b.src, ends...) {
		if took != tidemill.Stale && ends[i].End != tidemill.Left {
			b.Fatalf("settlement %d under a lost lease was taken as %s", i, tookName(took))
		}
	}
	b.books(tidemill.Books{Accepted: 3, Pending: 3})
	if !b.nothingLeased(b.src, other) {
		return
	}
	b.deliver(other, now...)
	b.took(b.src, tidemill.Stale, ends[0])
	b.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

// nothingLeased checks that src hands out nothing that owner has. Where a machine paused for
// longer than the lease of a real server, nothing can be checked any more: it returns false.
func (b *bench) nothingLeased(src, owner tidemill.Source) bool {
	b.Helper()
	kept := time.Now()
	b.keep(owner)
	got, err := b.try(src, 10, b.soon())
	if len(got) > 0 && b.Live && time.Since(kept) > b.Lease {
		b.Logf("the machine paused for %v, the lease is %v", time.Since(kept), b.Lease)
		return false
	}
	if len(got) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		b.Fatalf("received %v, %v; want nothing for %v and the context's error", names(got), err, b.soon())
	}
	return true
}

func wakesForLost(b *bench) {
	b.accept(1)
	start := time.Now()
	b.take(1)
	m := b.within(b.Open(), 1, 2*b.Lease)[0]
	if took := time.Since(start); !b.Live && took > b.Lease+time.Second {
		b.Fatalf("the message came back after %v, its lease was %v", took, b.Lease)
	}
	b.deliver(b.src, m)
}

// keepFor calls Keep as often as the traits ask, for d.
func (b *bench) keepFor(src tidemill.Source, d time.Duration) {
	b.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(b.traits.Keep) {
		b.keep(src)
	}
}

// keep calls Keep where there are leases.
func (b *bench) keep(src tidemill.Source) {
	b.Helper()
	if b.traits.Keep == 0 {
		return
	}
	if err := src.(tidemill.Keeper).Keep(b.Context()); err != nil {
		b.Fatalf("keep: %v", err)
	}
}

func keeps(b *bench) {
	b.accept(4)
	got := b.take(4)
	b.deliver(b.src, got[0])
	other := b.Open()
	for range 3 {
		b.keepFor(b.src, b.Lease)
		b.nothing(other, b.traits.Keep/2)
	}
	b.deliver(b.src, got[1:]...)
	b.books(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
}

func keepsItsOwn(b *bench) {
	b.accept(2)
	gone := b.Open()
	b.within(gone, 1, b.soon())
	mine := b.take(1)[0]
	b.keepFor(b.src, 2*b.Lease)
	got := b.take(1)
	if string(got[0].Payload) != "0" {
		b.Fatalf("received %v, want 0: nobody kept it", names(got))
	}
	b.deliver(b.src, got[0], mine)
}

func leftComesBack(b *bench) {
	b.accept(2)
	got := b.take(2)
	b.took(b.src, tidemill.Applied, left(got[0]))
	b.keepFor(b.src, 2*b.Lease)
	back := b.within(b.src, 1, b.soon())[0]
	if string(back.Payload) != "0" || back.Handed != 2 || back.Tries != 0 {
		b.Fatalf("%s came back with %d hand-outs and %d tries, want 0 with 2 and none", back.Payload, back.Handed, back.Tries)
	}
	b.took(b.src, tidemill.Stale, done(got[0], tidemill.Delivered))
	b.deliver(b.src, back, got[1])
}

func olderMark(b *bench) {
	b.accept(1)
	old := b.take(1)[0]
	b.took(b.src, tidemill.Applied, left(old))
	newer := b.within(b.src, 1, 2*b.Lease+b.soon())[0]
	b.took(b.src, tidemill.Applied, left(newer))
	ends := []tidemill.Settlement{done(old, tidemill.Delivered), left(old)}
	if b.traits.Delays {
		ends = append(ends, again(old, 0, true))
	}
	for i, took := range b.settle(b.src, ends...) {
		if took != tidemill.Stale && ends[i].End != tidemill.Left {
			b.Fatalf("settlement %d of an older hand-out was taken as %s", i, tookName(took))
		}
	}
	b.books(tidemill.Books{Accepted: 1, Pending: 1})
	back := b.within(b.src, 1, 2*b.Lease+b.soon())[0]
	if back.Handed != 3 || back.Tries != 0 {
		b.Fatalf("it came back with %d hand-outs and %d tries, want 3 and none", back.Handed, back.Tries)
	}
	b.deliver(b.src, back)
	b.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
}

func comesBackAfterKill(b *bench) {
	b.accept(6)
	got := b.take(4)
	b.deliver(b.src, got[0])
	if b.traits.Delays {
		b.took(b.src, tidemill.Applied, again(got[1], 0, true))
	}
	b.kill()
	seen := map[string]bool{}
	for len(seen) < 5 { // some at once, others when their lease ends
		m := b.within(b.src, 1, 2*b.Lease+b.soon())[0]
		seen[string(m.Payload)] = true
		b.deliver(b.src, m)
	}
	if seen["0"] {
		b.Fatalf("after the kill %v came, want 1 to 5", seen)
	}
	b.nothing(b.src, 2*b.Lease+b.soon())
	b.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
}

func (b *bench) gate(src tidemill.Source, until time.Time, probes int) {
	b.Helper()
	if err := src.(tidemill.Gater).Gate(b.Context(), until, probes); err != nil {
		b.Fatalf("gate: %v", err)
	}
}

func gateHolds(b *bench) {
	b.accept(6)
	out := b.take(1) // handed out before the gate closed: not a probe
	closed := 2 * b.soon()
	start := time.Now()
	b.gate(b.src, start.Add(closed), 2)
	b.nothing(b.src, closed/2)
	probes := b.within(b.src, 1, closed)
	if took := time.Since(start); took < closed {
		b.Fatalf("a probe was handed out after %v, the gate was closed for %v", took, closed)
	}
	probes = append(probes, b.take(1)...)
	b.nothing(b.src, b.soon()/4)
	b.deliver(b.src, probes[0])
	third := b.take(1)
	b.nothing(b.src, b.soon()/4)
	if b.traits.Delays {
		b.took(b.src, tidemill.Applied, again(probes[1], 0, true))
		probes[1] = b.take(1)[0]
		b.nothing(b.src, b.soon()/4)
	}
	ch := make(chan []*tidemill.Message, 1)
	go func() {
		got, _ := b.try(b.src, 1, time.Hour)
		ch <- got
	}()
	if !b.Live {
		synctest.Wait()
	}
	b.gate(b.src, time.Time{}, 0)
	got := <-ch
	got = append(got, b.take(1)...)
	b.deliver(b.src, got...)
	b.deliver(b.src, third[0], probes[1], out[0])
	b.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
}

func gateCountsApart(b *bench) {
	b.accept(6)
	closed := b.soon()
	b.gate(b.src, time.Now().Add(closed), 2)
	old := b.within(b.src, 1, 2*closed)
	old = append(old, b.take(1)...)
	b.nothing(b.src, b.soon()/4)
	b.gate(b.src, time.Now().Add(closed), 1) // these two are still out
	b.nothing(b.src, closed/2)
	b.keep(b.src) // and are worked on all the time
	probe := b.within(b.src, 1, 2*closed)
	b.nothing(b.src, b.soon()/4)
	b.deliver(b.src, old...) // and free no place among the new ones
	b.nothing(b.src, b.soon()/4)
	b.deliver(b.src, probe...)
	next := b.take(1)
	b.nothing(b.src, b.soon()/4)
	b.gate(b.src, time.Time{}, 0)
	rest := b.take(2)
	b.deliver(b.src, append(next, rest...)...)
	b.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 6}})
}

func gateForAll(b *bench) {
	b.accept(2)
	other := b.Open()
	b.gate(b.src, time.Now().Add(time.Hour), 1)
	b.nothing(other, b.soon())
	b.gate(other, time.Time{}, 0)
	b.deliver(b.src, b.take(2)...)
}
