package sourcetest

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
)

// settling holds what Settle promises while leases last.
var settling = []promise{
	{"applies a settlement once",
		"a repeated settlement must not count twice", always, appliesOnce},
	{"answers each of a mixed batch",
		"one settlement must not decide for its neighbours", always, mixedBatch},
	{"takes a settlement again after an error",
		"the answer to a commit may be lost: sending it again has to be safe", always, settlesAfterError},
	{"knows nothing of a message that never was",
		"an ack from outside may be late, repeated or forged", byID, unknownID},
	{"settles by ID alone",
		"an ack from outside knows the message, not the lease", byID, settlesByID},
	{"settles by ID alone after a restart",
		"an ack may come for what was handed out before a crash", both(byID, dies), settlesByIDLater},
	{"settles by ID alone what another source handed out",
		"an ack may reach any instance", both(byID, several), settlesTheirsByID},
	{"brings a message back by ID alone",
		"a refusal from outside is a failed try, whoever holds the message", both(byID, delays), bringsBackByID},
	{"brings a message back, not before its time",
		"a retry before its time is a retry storm", delays, notBefore},
	{"wakes for what comes due",
		"a delay is a time, not a time and then the next message's", both(delays, several), wakesForDue},
	{"counts burnt tries only",
		"an open breaker, or a lost answer, must not use up a message's tries", delays, countsTries},
	{"counts hand-outs",
		"a message that kills its worker is known by them", both(delays, leases), countsHandOuts},
	{"adds what a settlement forwards in the same stroke",
		"a child without its parent's end, or the end without the child, is a loss or a double", forwards, addsNext},
	{"forwards nothing for a stale settlement",
		"the owner who lost the lease must not have any effect", both(forwards, leases), staleAddsNothing},
}

func appliesOnce(b *bench) {
	b.accept(2)
	got := b.take(2)
	m := got[0]
	b.took(b.src, tidemill.Applied, done(m, tidemill.Delivered))
	b.took(b.src, tidemill.Stale, done(m, tidemill.Delivered))
	b.took(b.src, tidemill.Stale, done(m, tidemill.Dead))
	if b.traits.Delays {
		b.took(b.src, tidemill.Stale, again(m, 0, true))
	}
	twice := b.settle(b.src, done(got[1], tidemill.Skipped), done(got[1], tidemill.Delivered))
	if twice[0] != tidemill.Applied || twice[1] != tidemill.Stale {
		b.Fatalf("two settlements of one message in one batch: %s and %s, want applied and stale", tookName(twice[0]), tookName(twice[1]))
	}
	b.nothing(b.src, 2*b.soon())
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1, Skipped: 1}})
}

func mixedBatch(b *bench) {
	b.accept(6)
	got := b.take(6)
	b.deliver(b.src, got[0])
	ends := []tidemill.Settlement{
		done(got[1], tidemill.Delivered),
		done(got[0], tidemill.Delivered), // settled already
		done(got[2], tidemill.Skipped),
		left(got[3]),
		done(got[4], tidemill.Dead),
	}
	if b.traits.Delays {
		ends = append(ends, again(got[5], time.Hour, true))
	} else {
		ends = append(ends, left(got[5]))
	}
	for i, took := range b.settle(b.src, ends...) {
		want := tidemill.Applied
		if i == 1 {
			want = tidemill.Stale
		}
		if took != want {
			b.Errorf("settlement %d was taken as %s, want %s", i, tookName(took), tookName(want))
		}
	}
	if !b.traits.Parks { // a source that parks may still hold its dead messages
		b.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 2, Skipped: 1, Dead: 1}, Pending: 2})
	}
}

func settlesAfterError(b *bench) {
	b.accept(20)
	got := b.take(20)
	ends := make([]tidemill.Settlement, len(got))
	for i, m := range got {
		ends[i] = done(m, tidemill.Delivered)
	}
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	err := b.src.Settle(ctx, ends) // it may have been quick enough: then no error
	for i := range ends {
		if err == nil && ends[i].Outcome != tidemill.Applied {
			b.Fatalf("settlement %d was taken as %s without an error", i, tookName(ends[i].Outcome))
		}
	}
	var rest []tidemill.Settlement
	for _, e := range ends {
		if e.Outcome == tidemill.Unanswered {
			rest = append(rest, e)
		}
	}
	b.settle(b.src, rest...)
	b.nothing(b.src, 2*b.soon())
	b.books(tidemill.Books{Accepted: 20, Settled: tidemill.Count{Delivered: 20}})
}

func unknownID(b *bench) {
	b.accept(1)
	b.took(b.src, tidemill.Stale, tidemill.Settlement{ID: "nobody", End: tidemill.Done, Fate: tidemill.Delivered})
	got := b.take(1)
	b.deliver(b.src, got...)
	b.took(b.src, tidemill.Stale, tidemill.Settlement{ID: got[0].ID, End: tidemill.Done, Fate: tidemill.Delivered})
	b.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
}

func settlesByID(b *bench) {
	b.accept(3)
	got := b.take(3)
	for _, m := range got[:2] {
		b.took(b.src, tidemill.Applied, tidemill.Settlement{ID: m.ID, End: tidemill.Done, Fate: tidemill.Delivered})
		b.took(b.src, tidemill.Stale, done(m, tidemill.Dead)) // no holder has it any more
	}
	b.took(b.src, tidemill.Applied, left(got[2]))
	b.took(b.src, tidemill.Applied, tidemill.Settlement{ID: got[2].ID, End: tidemill.Done, Fate: tidemill.Delivered})
	b.nothing(b.src, 2*b.Lease+b.soon())
	b.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func settlesByIDLater(b *bench) {
	b.accept(2)
	got := b.take(2)
	b.kill()
	b.took(b.src, tidemill.Applied, tidemill.Settlement{ID: got[0].ID, End: tidemill.Done, Fate: tidemill.Delivered})
	m := b.within(b.src, 1, 2*b.Lease+b.soon())[0]
	if string(m.Payload) != string(got[1].Payload) {
		b.Fatalf("received %s, want %s: the other one was settled", m.Payload, got[1].Payload)
	}
	b.deliver(b.src, m)
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func settlesTheirsByID(b *bench) {
	b.accept(2)
	got := b.take(2)
	b.took(b.src, tidemill.Applied, left(got[1]))
	other := b.Open()
	for _, m := range got {
		ack := tidemill.Settlement{ID: m.ID, End: tidemill.Done, Fate: tidemill.Delivered}
		b.took(other, tidemill.Applied, ack)
		b.took(b.src, tidemill.Stale, ack)
		b.took(b.src, tidemill.Stale, done(m, tidemill.Dead))
	}
	b.nothing(b.src, 2*b.Lease+b.soon())
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func bringsBackByID(b *bench) {
	b.accept(2)
	got := b.take(2)
	b.took(b.src, tidemill.Applied, left(got[1]))
	for _, m := range got {
		b.took(b.src, tidemill.Applied, tidemill.Settlement{ID: m.ID, End: tidemill.Again, CountTry: true, Kind: tidemill.Business, Cause: "refused"})
	}
	back := b.take(2)
	for i, m := range back {
		if string(m.Payload) != string(got[i].Payload) || m.Tries != 1 || m.Handed != 2 {
			b.Errorf("%s came back with %d tries and %d hand-outs, want %s with 1 and 2", m.Payload, m.Tries, m.Handed, got[i].Payload)
		}
	}
	b.deliver(b.src, back...)
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func notBefore(b *bench) {
	b.accept(3)
	got := b.take(3)
	wait := 2 * b.soon()
	start := time.Now()
	b.settle(b.src, again(got[0], wait, true), again(got[1], 0, true), again(got[2], 2*wait, false))
	m := b.within(b.src, 1, b.soon())[0]
	if string(m.Payload) != "1" {
		b.Fatalf("received %s, want 1: it was to come back at once", m.Payload)
	}
	b.deliver(b.src, m)
	for i, want := range []string{"0", "2"} {
		m := b.within(b.src, 1, 2*wait)[0]
		took, least := time.Since(start), wait*time.Duration(i+1)
		if string(m.Payload) != want || took < least {
			b.Fatalf("received %s after %v, want %s after %v at the earliest", m.Payload, took, want, least)
		}
		if !b.Live && took > least+time.Second {
			b.Fatalf("received %s after %v, want it after %v", m.Payload, took, least)
		}
		b.deliver(b.src, m)
	}
}

func wakesForDue(b *bench) {
	b.accept(2)
	got := b.take(2)
	wait := 2 * b.soon()
	late := b.soon()
	if b.Live { // a server that all tests share may stand still for seconds: only the arrival matters
		late += 10 * time.Second
	}
	ch := make(chan handed, 2)
	wait1 := func(src tidemill.Source) {
		got, _ := b.try(src, 1, 2*(wait+late))
		ch <- handed{src, got}
	}
	if b.Owned {
		go func() { wait1(b.src); wait1(b.src) }()
	} else {
		other := b.Open()
		b.nothing(other, b.soon()/4) // it has joined
		go wait1(b.src)
		go wait1(other)
	}
	if !b.Live {
		synctest.Wait()
	}
	start := time.Now()
	b.settle(b.src, again(got[0], wait, false), again(got[1], wait, false))
	for range 2 {
		h := <-ch
		if took := time.Since(start); len(h.got) != 1 || took < wait || took > wait+late {
			b.Fatalf("received %v after %v, want one message after %v", names(h.got), took, wait)
		}
		b.deliver(h.src, h.got...)
	}
}

func countsTries(b *bench) {
	b.accept(1)
	tries := 0
	for i, burn := range []bool{true, false, true, true, false} {
		m := b.take(1)[0]
		if m.Tries != tries {
			b.Fatalf("hand-out %d has %d tries, want %d", i+1, m.Tries, tries)
		}
		b.took(b.src, tidemill.Applied, again(m, 0, burn))
		if burn {
			tries++
		}
		b.took(b.src, tidemill.Stale, again(m, 0, true)) // the answer was lost, and it is sent again
		if b.Kill != nil && i == 2 {
			b.kill()
		}
	}
	m := b.take(1)[0]
	if m.Tries != 3 {
		b.Fatalf("the message has %d tries, want 3", m.Tries)
	}
	b.deliver(b.src, m)
}

func countsHandOuts(b *bench) {
	b.accept(2)
	for want := 1; want <= 4; want++ {
		for _, m := range b.within(b.src, 2, 2*b.Lease+b.soon()) {
			if m.Handed != want {
				b.Fatalf("hand-out %d of %s says it is number %d", want, m.Payload, m.Handed)
			}
			switch want {
			case 1:
				b.took(b.src, tidemill.Applied, again(m, 0, false))
			case 4:
				b.deliver(b.src, m)
			}
		}
		if b.Kill != nil && (want == 2 || want == 3) {
			b.kill() // while both are handed out; without it their leases end
		}
	}
}

func addsNext(b *bench) {
	b.accept(1)
	m := b.take(1)[0]
	child := message(100)
	child.To = m.To // back to where it came from
	end := done(m, tidemill.Delivered)
	end.Next = []*tidemill.Message{child}
	b.took(b.src, tidemill.Applied, end)
	if b.Kill != nil {
		b.kill()
	}
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 1}, Pending: 1})
	got := b.take(1)[0]
	if string(got.Payload) != "100" {
		b.Fatalf("received %s, want the child", got.Payload)
	}
	b.deliver(b.src, got)
	b.took(b.src, tidemill.Stale, end)
	b.nothing(b.src, b.soon())
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func staleAddsNothing(b *bench) {
	b.accept(1)
	m := b.take(1)[0]
	second := b.within(b.Open(), 1, 2*b.Lease)[0]
	child := message(100)
	child.To = m.To
	end := done(m, tidemill.Delivered)
	end.Next = []*tidemill.Message{child}
	b.took(b.src, tidemill.Stale, end)
	b.books(tidemill.Books{Accepted: 1, Pending: 1})
	b.deliver(b.src, second)
	b.nothing(b.src, b.soon())
}
