package redissource

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestOwnPendingEntriesComeFirstAfterARestart(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.add(5)
	old := b.open(b.client, Options{Process: "host/1"})
	late := b.take(old, 3, soon)
	// It dies, and is started again at once.
	s := b.open(b.client, Options{Process: "host/1"})
	got := b.take(s, 3, soon)
	b.want(got, "0", "1", "2")
	if got[0].Handed != 2 || b.reported(Renamed) >= 0 {
		t.Errorf("hand-outs %d, want 2; reports %+v", got[0].Handed, b.reports)
	}
	b.want(b.take(s, 2, soon), "3", "4")
	if n := b.deliver(old, late...); n != 0 {
		t.Errorf("%d settlements of the dead process were applied", n)
	}
	if n := b.deliver(s, got...); n != 3 {
		t.Errorf("%d settlements were applied, want 3", n)
	}
}

func TestASecondProcessOfTheSameNameTakesASuffix(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.add(4)
	one := b.open(b.client, Options{Process: "host/1"})
	first := b.take(one, 2, soon)
	two := b.open(b.client, Options{Process: "host/2"})
	second := b.take(two, 2, soon)
	b.want(second, "2", "3") // not what the other one has
	if b.reported(Renamed) < 0 || two.name() != "c-2" {
		t.Errorf("the second goes by %q, reports %+v", two.name(), b.reports)
	}
	if n := b.deliver(one, first...) + b.deliver(two, second...); n != 4 {
		t.Errorf("%d settlements were applied, want 4", n)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	three := b.open(b.client, Options{})
	b.add(1)
	b.take(three, 1, soon)
	if three.name() != "c" {
		t.Errorf("after the first left, the next goes by %q", three.name())
	}
}

func TestWhoeverLostItsNameTakesAnother(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	one := b.open(b.client, Options{Process: "p"})
	b.add(1)
	held := b.take(one, 1, soon)
	two := b.open(b.client, Options{Process: "p"}) // believes that one died
	got := b.take(two, 1, soon)
	b.want(got, "0")
	time.Sleep(testLease/6 + 50*time.Millisecond) // until one looks after its name
	b.add(1)
	more := b.take(one, 1, soon)
	if one.name() != "c-2" || two.name() != "c" {
		t.Errorf("they go by %q and %q", one.name(), two.name())
	}
	if b.deliver(one, held...) != 0 || b.deliver(two, got...) != 1 || b.deliver(one, more...) != 1 {
		t.Error("a settlement went wrong")
	}
	b.books(two, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

func TestWhatWasReadAndNotHandedOutIsDroppedAfterALongSleep(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.add(3)
	s := b.open(b.client, Options{})
	if err := s.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.reader.readNew(t.Context(), 3, 0); err != nil { // as if it froze right here
		t.Fatal(err)
	}
	other := b.open(b.client, Options{Consumer: "other"})
	got := b.take(other, 3, 2*testLease)
	b.nothing(s, testLease/4)
	if b.deliver(other, got...) != 3 {
		t.Error("the new owner could not settle")
	}
	b.books(s, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
}

func TestOtherGroupsKeepTheirEntries(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.add(4)
	one := b.open(b.client, Options{})
	other := b.open(b.client, Options{Group: "other"})
	b.books(other, tidemill.Books{Accepted: 4, Pending: 4})
	if n := b.deliver(one, b.take(one, 4, soon)...); n != 4 {
		t.Errorf("%d settlements were applied, want 4", n)
	}
	b.books(one, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 4}})
	b.books(other, tidemill.Books{Accepted: 4, Pending: 4})
	got := b.take(other, 4, soon)
	b.want(got, "0", "1", "2", "3")
	b.add(1)
	b.deliver(other, got[:3]...)
	b.books(other, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 3}, Pending: 2})
	b.books(one, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 4}, Pending: 1})
	if n, err := b.do("XLEN", b.stream).AsInt64(); err != nil || n != 2 {
		t.Errorf("the stream has %d entries (%v), want those that somebody still needs: 2", n, err)
	}
	// The other group goes away: what is left is the first one's again.
	b.deliver(other, got[3])
	b.do("XGROUP", "DESTROY", b.stream, "other")
	b.books(one, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 4}, Pending: 1})
	b.deliver(one, b.take(one, 1, soon)...)
	b.books(one, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
}

func TestAGroupThatWasHereBefore(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := b.add(10)
	b.do("XGROUP", "CREATE", b.stream, Group, "0")
	b.do("XREADGROUP", "GROUP", Group, "processor-1", "COUNT", "6", "STREAMS", b.stream, ">")
	b.do("XACK", b.stream, Group, ids[0], ids[1], ids[3]) // 2, 4 and 5 are pending
	s := b.open(b.client, Options{})
	b.books(s, tidemill.Books{Accepted: 7, Pending: 7})
	got := b.take(s, 4, soon)
	b.want(got, "6", "7", "8", "9")
	got = append(got, b.take(s, 3, 2*testLease)...)
	b.want(got[4:], "2", "4", "5")
	if n := b.deliver(s, got...); n != 7 {
		t.Errorf("%d settlements were applied, want 7", n)
	}
	b.books(s, tidemill.Books{Accepted: 7, Settled: tidemill.Count{Delivered: 7}})
	if n, err := b.do("XLEN", b.stream).AsInt64(); err != nil || n != 0 {
		t.Errorf("the stream has %d entries (%v), want none: what is acked is removed", n, err)
	}
}
