package windowtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// handing holds the promises about the order and the leases of windows, beside what package
// sourcetest checks of every source.
var handing = []testcase{
	{"describes the window in its message",
		"who works on it knows what to expect without reading it", nil, describes},
	{"hands out several windows at once",
		"many small batches need not wait for one another", nil, severalAtOnce},
	{"hands out the windows of a batch id one after another",
		"two instances never process the same batch at once", nil, oneAfterAnother},
	{"holds a later window back while an older one waits for its time",
		"what came later must not be overtaken by what is tried again", nil, holdsBehindDelayed},
	{"lets the next go when one is parked",
		"a batch that cannot be delivered holds up nobody for ever", nil, parkedHoldsNobody},
	{"hands out a window again when its lease has ended",
		"an instance that dies gives the batch back", nil, comesBack},
	{"refuses a late owner everywhere",
		"a late owner's clean-up would delete what another is sending", nil, refusesLate},
	{"keeps nothing for a late owner",
		"who is late must not hold up whoever comes next", nil, keepsNothingLate},
	{"wakes who waits when a window is closed",
		"polling costs latency when idle and load when busy", nil, wakes},
	{"wakes who waits when the window before was settled",
		"the next one must not wait for new traffic", nil, wakesForNext},
}

func describes(f *fixture) {
	before := time.Now()
	f.closed(some("b", 7)...)
	m := f.take(1)[0]
	s, err := window.Read(m)
	if err != nil {
		f.Fatal(err)
	}
	i := f.look(m.ID)
	if m.Type != window.Type || string(m.Key) != "b" || len(m.Header) != 0 || m.Tries != 0 || m.Handed != 1 || m.ID != window.ID("b", s.Revision) ||
		!m.Time.Equal(i.Opened) || s.Batch != "b" || s.Records != 7 || s.Bytes == 0 || s.Why != window.ByTime || !s.Opened.Equal(i.Opened) || !s.Closed.Equal(i.Closed) {
		f.Fatalf("message %+v says %+v of %+v", m, s, i)
	}
	if i.State != window.Leased || i.Owner != "tester" || i.Handed != 1 || i.Due.Before(i.Closed.Add(lease)) || i.Records != 7 {
		f.Fatalf("handed out at %v it is %+v", before, i)
	}
	f.apply(m, delivered)
}

func severalAtOnce(f *fixture) {
	const many = 30
	for i := range many {
		f.fresh(rec(fmt.Sprint("b", i), "1", "x"))
	}
	f.Advance(length)
	f.sweep(many)
	into := make([]*tidemill.Message, many+10)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	n, err := f.source.Receive(f.Context(), into)
	if n < 2 || n < many && !f.Parts || err != nil { // several parts hand out one by one
		f.Fatalf("received %d of %d windows at once, %v", n, many, err)
	}
	ends := make([]tidemill.Settlement, n)
	for i := range ends {
		ends[i] = delivered
		ends[i].ID, ends[i].Mark = into[i].ID, into[i].Mark
	}
	if err := f.source.Settle(f.Context(), ends); err != nil {
		f.Fatal(err)
	}
	for i := range ends {
		if ends[i].Outcome != tidemill.Applied {
			f.Fatalf("settlement %d was taken as %d", i, ends[i].Outcome)
		}
	}
	for _, m := range f.take(many - n) {
		f.apply(m, delivered)
	}
	f.books(tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
}

// three closes three windows of one batch id.
func (f *fixture) three() {
	f.Helper()
	for i := range 3 {
		f.fresh(rec("b", fmt.Sprint(i), "x"))
		f.closeNow("b")
	}
}

func oneAfterAnother(f *fixture) {
	f.three()
	var last uint64
	for i := range 3 {
		m := f.take(1)[0]
		f.nothing()
		f.has(f.read(m, 5), rec("b", fmt.Sprint(i), "x"))
		if m.Mark.Lo <= last {
			f.Fatalf("revision %d came after %d", m.Mark.Lo, last)
		}
		last = m.Mark.Lo
		f.apply(m, []tidemill.Settlement{delivered, skipped, delivered}[i])
	}
	f.books(tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 2, Skipped: 1}})
}

func holdsBehindDelayed(f *fixture) {
	f.three()
	m := f.take(1)[0]
	f.apply(m, again(time.Minute, true))
	f.nothing()
	if i := f.look(m.ID); i.State != window.Ready || i.Due.IsZero() || i.Owner != "" {
		f.Fatalf("after Again it is %+v", i)
	}
	f.Advance(time.Minute)
	if n := f.take(1)[0]; n.ID != m.ID || n.Tries != 1 || n.Handed != 2 {
		f.Fatalf("received %q with %d tries and %d hand-outs, want %q with 1 and 2", n.ID, n.Tries, n.Handed, m.ID)
	}
	f.nothing()
}

func parkedHoldsNobody(f *fixture) {
	f.three()
	first := f.take(1)[0]
	f.apply(first, dead)
	second := f.take(1)[0]
	if second.ID == first.ID {
		f.Fatalf("the parked window came again")
	}
	f.nothing()
	if n, err := f.Store.Replay(f.Context(), window.Filter{}); n != 1 || err != nil {
		f.Fatalf("Replay: %d, %v", n, err)
	}
	f.nothing() // it is the last of them now
	f.apply(second, delivered)
	third := f.take(1)[0]
	f.has(f.read(third, 5), rec("b", "2", "x"))
	f.apply(third, delivered)
	back := f.take(1)[0]
	if back.ID != first.ID || back.Mark.At(first.Mark) {
		f.Fatalf("the replay is %q at %+v, was %q at %+v", back.ID, back.Mark, first.ID, first.Mark)
	}
	f.end(f.source, first, delivered, tidemill.Stale)
	f.apply(back, delivered)
	f.books(tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 3, Dead: 1}})
}

func comesBack(f *fixture) {
	f.closed(some("b", 3)...)
	m := f.take(1)[0]
	f.Advance(lease / 2)
	f.nothing()
	f.Advance(lease)
	back := f.take(1)[0]
	if back.ID != m.ID || !back.Mark.At(m.Mark) || back.Mark == m.Mark || back.Handed != 2 || back.Tries != 0 {
		f.Fatalf("%q came back as %+v", m.ID, back)
	}
	f.has(f.read(back, 5), some("b", 3)...)
	f.apply(back, delivered)
}

func refusesLate(f *fixture) {
	f.closed(some("b", 30)...)
	late := f.take(1)[0]
	p, err := f.Store.Page(f.Context(), late.Mark, "", make([]window.Record, 10))
	if err != nil || p.N == 0 || p.Next == "" {
		f.Fatalf("page %+v, %v", p, err)
	}
	f.Advance(lease)
	other := f.Store.Open()
	now := f.takeFrom(other, 1)[0]
	f.refused(late.Mark, p.Next)
	f.refused(late.Mark, "")
	for _, e := range []tidemill.Settlement{delivered, dead, again(0, true), skipped} {
		f.end(f.source, late, e, tidemill.Stale)
	}
	if err := f.source.(tidemill.Keeper).Keep(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Advance(lease / 2)
	f.has(f.read(now, 7), some("b", 30)...)
	f.end(other, now, delivered, tidemill.Applied)
	f.refused(now.Mark, "")
	f.end(other, now, delivered, tidemill.Stale)
	f.refused(tidemill.Mark{}, "")
	f.refused(tidemill.Mark{Epoch: 1, Lo: 1 << 40}, "")
	f.books(tidemill.Books{Accepted: 30, Settled: tidemill.Count{Delivered: 30}})
}

func keepsNothingLate(f *fixture) {
	f.closed(some("b", 3)...)
	f.take(1)
	f.Advance(lease)
	other := f.Store.Open()
	f.takeFrom(other, 1)
	f.Advance(lease * 2 / 3)
	if err := f.source.(tidemill.Keeper).Keep(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Advance(lease / 3)
	m := f.takeFrom(other, 1)[0] // its lease was not kept
	f.end(other, m, again(0, false), tidemill.Applied)
	if err := f.source.(tidemill.Keeper).Keep(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.apply(f.take(1)[0], delivered)
}

func wakes(f *fixture) {
	got := make(chan *tidemill.Message, 1)
	var all sync.WaitGroup
	all.Go(func() { got <- f.take(1)[0] })
	f.fresh(rec("b", "1", "x"))
	f.Advance(length)
	f.sweep(1)
	all.Wait()
	f.apply(<-got, delivered)
}

func wakesForNext(f *fixture) {
	f.three()
	m := f.take(1)[0]
	got := make(chan *tidemill.Message, 1)
	other := f.Store.Open()
	var all sync.WaitGroup
	all.Go(func() { got <- f.takeFrom(other, 1)[0] })
	f.apply(m, delivered)
	all.Wait()
	f.end(other, <-got, delivered, tidemill.Applied)
}
