package sourcetest

import (
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// outside holds what Settle promises where an end from outside, by ID alone, and the end of
// the message's own delivery, with its mark, come in one call. With a prompt receiver that
// is the usual case: its ack comes before the engine has told the source that the message
// was published and left.
var outside = []promise{
	{"takes an ack by ID beside its message's own end",
		"an ack that is lost to the message's own end is asked for again and lost again, for ever", byID, acksBesideOwnEnd},
	{"takes a refusal by ID beside its message that was left",
		"a refusal that is lost is no failed try: the message never dies", both(byID, delays), refusesBesideLeft},
	{"ends a message once of an ack by ID and its own end as done",
		"two ends of one message in one call must not count twice", byID, endsOnceBesideAck},
	{"takes many acks by ID beside their messages' own ends",
		"thousands are told in one call, and each has its own answer", byID, manyAcksBesideLeft},
}

// ack is an end from outside.
func ack(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, End: tidemill.Done, Fate: tidemill.Delivered}
}

// pair settles an end from outside and one with a mark in one call, in either order, and
// returns the answers to the one from outside and to the other.
func (b *bench) pair(outsideFirst bool, outside, own tidemill.Settlement) (tidemill.Outcome, tidemill.Outcome) {
	b.Helper()
	if outsideFirst {
		took := b.settle(b.src, outside, own)
		return took[0], took[1]
	}
	took := b.settle(b.src, own, outside)
	return took[1], took[0]
}

func acksBesideOwnEnd(b *bench) {
	owns := []func(m *tidemill.Message) tidemill.Settlement{left}
	if b.traits.Delays {
		owns = append(owns,
			func(m *tidemill.Message) tidemill.Settlement { return again(m, 0, true) },
			func(m *tidemill.Message) tidemill.Settlement { return again(m, time.Hour, false) })
	}
	b.accept(2 * len(owns))
	got := b.take(2 * len(owns))
	for i, m := range got {
		outsideFirst := i%2 == 0
		theirs, own := b.pair(outsideFirst, ack(m), owns[i/2](m))
		if theirs != tidemill.Applied || own == tidemill.Unanswered {
			b.Fatalf("message %d, the ack first: %t: the ack was taken as %s and the message's own end as %s, want the ack applied",
				i, outsideFirst, tookName(theirs), tookName(own))
		}
	}
	b.nothing(b.src, 2*b.Lease+b.soon())
	n := uint64(len(got))
	b.books(tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
}

func refusesBesideLeft(b *bench) {
	b.accept(2)
	got := b.take(2)
	for i, m := range got {
		refusal := tidemill.Settlement{ID: m.ID, End: tidemill.Again, CountTry: true, Kind: tidemill.Business, Cause: "refused"}
		theirs, own := b.pair(i == 0, refusal, left(m))
		if theirs != tidemill.Applied || own == tidemill.Unanswered {
			b.Fatalf("the refusal first: %t: it was taken as %s and the message's own end as %s, want the refusal applied",
				i == 0, tookName(theirs), tookName(own))
		}
	}
	back := b.take(2)
	for _, m := range back {
		if m.Tries != 1 || m.Handed != 2 {
			b.Errorf("%s came back with %d tries and %d hand-outs, want 1 and 2", m.Payload, m.Tries, m.Handed)
		}
	}
	b.deliver(b.src, back...)
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func endsOnceBesideAck(b *bench) {
	b.accept(2)
	for i, m := range b.take(2) {
		theirs, own := b.pair(i == 0, ack(m), done(m, tidemill.Delivered))
		if (theirs == tidemill.Applied) == (own == tidemill.Applied) {
			b.Fatalf("the ack first: %t: the ack was taken as %s and the message's own end as %s, want one of them applied",
				i == 0, tookName(theirs), tookName(own))
		}
	}
	b.nothing(b.src, 2*b.Lease+b.soon())
	b.books(tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func manyAcksBesideLeft(b *bench) {
	const n = 200
	b.accept(n)
	got := b.take(n)
	for half, outsideFirst := range []bool{true, false} {
		var ends []tidemill.Settlement
		for _, m := range got[half*n/2 : (half+1)*n/2] {
			ends = append(ends, left(m))
		}
		at := len(ends)
		for _, m := range got[half*n/2 : (half+1)*n/2] {
			ends = append(ends, ack(m))
		}
		if outsideFirst {
			slices.Reverse(ends)
			at = 0
		}
		for i, took := range b.settle(b.src, ends...)[at : at+n/2] {
			if took != tidemill.Applied {
				b.Fatalf("the acks first: %t: ack %d of %d was taken as %s, want applied", outsideFirst, i, n/2, tookName(took))
			}
		}
	}
	b.nothing(b.src, 2*b.Lease+b.soon())
	b.books(tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
}
