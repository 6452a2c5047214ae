package sourcetest

import (
	"math/rand/v2"
	"time"

	"github.com/tidemill/tidemill"
)

// accounting checks the books against what happened.
var accounting = []promise{
	{"books what a settlement says it was",
		"fates are counted where they are made durable", always, booksFates},
	{"books what a message stands for rather than its fate",
		"a message may stand for many, of which each had a fate of its own", always, booksRecords},
	{"keeps its books through a kill between any two steps",
		"the books change in the same stroke as the settlement", dies, booksThroughKills},
	{"balances whatever happens",
		"accepted = settled + pending, always", always, booksThroughAnything},
}

func booksFates(b *bench) {
	if b.traits.Parks {
		return // its dead messages are its own
	}
	b.accept(6)
	got := b.take(6)
	b.books(tidemill.Books{Accepted: 6, Pending: 6})
	b.settle(b.src, done(got[0], tidemill.Delivered), done(got[1], tidemill.Delivered), done(got[2], tidemill.Delivered),
		done(got[3], tidemill.Skipped), done(got[4], tidemill.Skipped), done(got[5], tidemill.Dead))
	b.books(tidemill.Books{Accepted: 6, Settled: tidemill.Count{Delivered: 3, Skipped: 2, Dead: 1}})
}

func booksRecords(b *bench) {
	// Each stands for one record, so that the books still balance.
	b.accept(1)
	end := done(b.take(1)[0], tidemill.Delivered)
	end.Records = tidemill.Count{Skipped: 1}
	b.took(b.src, tidemill.Applied, end)
	b.books(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Skipped: 1}})
	if b.traits.Parks {
		return // its dead messages are its own
	}
	b.accept(2)
	got := b.take(2)
	ends := []tidemill.Settlement{done(got[0], tidemill.Skipped), done(got[1], tidemill.Delivered)}
	ends[0].Records, ends[1].Records = tidemill.Count{Delivered: 1}, tidemill.Count{Dead: 1}
	for _, end := range ends {
		b.took(b.src, tidemill.Applied, end)
	}
	b.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1, Skipped: 1, Dead: 1}})
}

// booksThroughKills kills after every step and checks the books each time.
func booksThroughKills(b *bench) {
	if b.traits.Parks {
		return
	}
	back := 2*b.Lease + b.soon()
	var want tidemill.Books
	check := func(step string) {
		b.Helper()
		b.books(want)
		b.kill()
		b.books(want)
		b.Logf("step %q holds", step)
	}
	check("nothing yet")
	b.accept(4)
	want.Accepted, want.Pending = 4, 4
	check("accepted")
	b.within(b.src, 4, back)
	check("handed out")
	got := b.within(b.src, 4, back)
	b.deliver(b.src, got[0])
	want.Settled.Delivered, want.Pending = 1, 3
	check("delivered one")
	got = b.within(b.src, 3, back)
	b.settle(b.src, done(got[0], tidemill.Skipped), left(got[1]))
	want.Settled.Skipped, want.Pending = 1, 2
	check("skipped one, left one")
	got = b.within(b.src, 2, back)
	if b.traits.Delays {
		b.settle(b.src, again(got[0], b.soon(), true), done(got[1], tidemill.Dead))
	} else {
		b.settle(b.src, done(got[1], tidemill.Dead))
	}
	want.Settled.Dead, want.Pending = 1, 1
	check("put one off, gave one up")
	b.deliver(b.src, b.within(b.src, 1, back)...)
	want.Settled.Delivered, want.Pending = 2, 0
	check("all done")
	b.nothing(b.src, back)
}

// booksThroughAnything plays at random, with a fixed seed, and drains in the end.
func booksThroughAnything(b *bench) {
	if b.traits.Parks || b.Live {
		return
	}
	rng := rand.New(rand.NewPCG(1, 2))
	sources := []tidemill.Source{b.src, b.Open()}
	held := make([][]*tidemill.Message, len(sources)) // by source: the one that receives settles
	var ended tidemill.Count
	finish := func(src tidemill.Source, ends []tidemill.Settlement) {
		b.Helper()
		for i, took := range b.settle(src, ends...) {
			if took == tidemill.Applied {
				ended.Add(ends[i].Row())
			}
		}
	}
	for range 400 {
		who := rng.IntN(len(sources))
		switch rng.IntN(8) {
		case 0, 1:
			b.accept(rng.IntN(20))
		case 2, 3:
			got, _ := b.try(sources[who], 1+rng.IntN(30), time.Millisecond)
			held[who] = append(held[who], got...)
		case 4, 5:
			var ends []tidemill.Settlement
			for range rng.IntN(len(held[who])/2 + 1) {
				ms := held[who]
				i := rng.IntN(len(ms))
				ends = append(ends, b.anyEnd(rng, ms[i]))
				if rng.IntN(5) > 0 { // else it stays in hand, to be settled twice
					ms[i] = ms[len(ms)-1]
					held[who] = ms[:len(ms)-1]
				}
			}
			finish(sources[who], ends)
		case 6:
			time.Sleep(b.soon())
		case 7:
			if b.Kill != nil && rng.IntN(8) == 0 {
				b.kill()
				sources = []tidemill.Source{b.src, b.Open()}
				held = make([][]*tidemill.Message, len(sources))
			}
		}
		b.balanced()
	}
	for int(ended.Total()) < b.accepted {
		for _, m := range b.within(b.src, 1, 4*b.Lease+4*b.soon()) {
			finish(b.src, []tidemill.Settlement{done(m, tidemill.Delivered)})
		}
	}
	b.books(tidemill.Books{Accepted: uint64(b.accepted), Settled: ended})
}

func (b *bench) anyEnd(rng *rand.Rand, m *tidemill.Message) tidemill.Settlement {
	switch rng.IntN(6) {
	case 0:
		return left(m)
	case 1:
		if b.traits.Delays {
			return again(m, time.Duration(rng.IntN(3))*b.soon(), rng.IntN(2) == 0)
		}
		return left(m)
	case 2:
		return done(m, tidemill.Skipped)
	case 3:
		return done(m, tidemill.Dead)
	}
	return done(m, tidemill.Delivered)
}
