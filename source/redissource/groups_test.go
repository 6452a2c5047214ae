package redissource

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Each entry that a group has not read, or has read and not finished, stays with all after it.
func TestNothingIsTrimmedThatAGroupStillNeeds(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := b.add(10)
	one := b.open(b.client, Options{})
	b.do("XGROUP", "CREATE", b.stream, "other", "0")
	b.do("XGROUP", "CREATE", b.stream, "slow", "0")
	if n := b.deliver(one, b.take(one, 10, soon)...); n != 10 {
		t.Fatalf("%d settlements were applied, want 10", n)
	}
	b.do("XREADGROUP", "GROUP", "other", "theirs", "COUNT", "10", "STREAMS", b.stream, ">")
	b.do("XREADGROUP", "GROUP", "slow", "theirs", "COUNT", "6", "STREAMS", b.stream, ">")
	want := tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 10}}
	there := func(n int, what string) {
		t.Helper()
		b.books(one, want)
		if got := b.length(); got != int64(n) {
			t.Errorf("%s: the stream has %d entries, want %d", what, got, n)
		}
		if rows, err := b.do("XRANGE", b.stream, "-", "+").ToArray(); err != nil || len(rows) != n {
			t.Errorf("%s: %v", what, err)
		} else if n > 0 {
			first, _ := rows[0].ToArray()
			if id, _ := first[0].ToString(); id != ids[10-n] {
				t.Errorf("%s: the first is %s, want %s", what, id, ids[10-n])
			}
		}
	}
	there(10, "read by all, finished by one")
	b.do("XACK", b.stream, "slow", ids[0], ids[1], ids[3], ids[4], ids[5])
	b.do("XACK", b.stream, "other", ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6], ids[7], ids[8], ids[9])
	there(8, "one is pending in the middle")
	b.do("XACK", b.stream, "slow", ids[2])
	there(4, "the rest was not read by one")
	b.do("XREADGROUP", "GROUP", "slow", "theirs", "NOACK", "COUNT", "4", "STREAMS", b.stream, ">")
	there(0, "all have finished all")
	if n := one.Trimmed(); n != 10 {
		t.Errorf("%d are counted as trimmed, want 10", n)
	}
}

func TestTrimmingIsBoundedAndGoesOn(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	const n = 3000
	b.add(n)
	one := b.open(b.client, Options{Lease: time.Minute})
	one.trimMost = 1000
	b.do("XGROUP", "CREATE", b.stream, "other", "0")
	for left := n; left > 0; left -= 1000 {
		if got := b.deliver(one, b.take(one, 1000, soon)...); got != 1000 {
			t.Fatalf("%d settlements were applied, want 1000", got)
		}
	}
	b.do("XREADGROUP", "GROUP", "other", "theirs", "NOACK", "COUNT", fmt.Sprint(n), "STREAMS", b.stream, ">")
	want := tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}}
	b.books(one, want)
	if got := b.length(); got < n-1000 || got > n-500 {
		t.Errorf("after one step there are %d entries, want at most 1000 fewer than %d", got, n)
	}
	begun := time.Now()
	for b.length() > 0 {
		if time.Since(begun) > 5*time.Second { // it would be ten seconds without hurry
			t.Fatalf("%d entries are left", b.length())
		}
		if err := one.join(t.Context()); err != nil { // as each Receive does
			t.Fatal(err)
		}
	}
	b.books(one, want)
	if got := one.Trimmed(); got != n {
		t.Errorf("%d are counted as trimmed, want %d", got, n)
	}
	b.add(3)
	if got := b.deliver(one, b.take(one, 3, soon)...); got != 3 {
		t.Errorf("%d settlements of what came later were applied, want 3", got)
	}
	b.books(one, tidemill.Books{Accepted: n + 3, Settled: tidemill.Count{Delivered: n + 3}})
}

// The other group goes away in the middle of it.
func TestTheBooksAreRightIfAGroupGoesBeforeAllIsTrimmed(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	const n = 2000
	b.add(n + 5)
	one := b.open(b.client, Options{Lease: time.Minute})
	one.trimMost = 500
	b.do("XGROUP", "CREATE", b.stream, "other", "0")
	if got := b.deliver(one, b.take(one, n, soon)...); got != n {
		t.Fatalf("%d settlements were applied, want %d", got, n)
	}
	b.do("XREADGROUP", "GROUP", "other", "theirs", "NOACK", "COUNT", fmt.Sprint(n), "STREAMS", b.stream, ">")
	want := tidemill.Books{Accepted: n + 5, Settled: tidemill.Count{Delivered: n}, Pending: 5}
	b.books(one, want)
	b.do("XGROUP", "DESTROY", b.stream, "other")
	for range 6 {
		b.books(one, want)
	}
	if got := b.length(); got != 5 {
		t.Errorf("the stream has %d entries, want the 5 that are to be done", got)
	}
	if got := b.deliver(one, b.take(one, 5, soon)...); got != 5 {
		t.Errorf("%d settlements were applied, want 5", got)
	}
	b.books(one, tidemill.Books{Accepted: n + 5, Settled: tidemill.Count{Delivered: n + 5}})
}

func TestOtherGroupsSayWhatTheyHold(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	s := b.open(b.client, Options{})
	if all, err := s.Others(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("of no stream there are %+v: %v", all, err)
	}
	ids := b.add(6)
	b.do("XGROUP", "CREATE", b.stream, "idle", "0")
	b.do("XGROUP", "CREATE", b.stream, "reads", "0")
	b.do("XREADGROUP", "GROUP", "reads", "theirs", "COUNT", "4", "STREAMS", b.stream, ">")
	b.do("XACK", b.stream, "reads", ids[0], ids[1])
	b.do("XGROUP", "CREATE", b.stream, "through", "$")
	b.books(s, tidemill.Books{Accepted: 6, Pending: 6})
	all, err := s.Others(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v: %v", all, err)
	}
	if o := all[0]; o.Group != "idle" || o.Held != 6 || !o.Oldest.Equal(addedAt(ids[0])) || o.Idle != -1 {
		t.Errorf("%+v", o)
	}
	if o := all[1]; o.Group != "reads" || o.Held != 4 || !o.Oldest.Equal(addedAt(ids[2])) || o.Idle < 0 || o.Idle > time.Minute {
		t.Errorf("%+v", o)
	}
	if o := all[2]; o.Group != "through" || !o.Oldest.IsZero() {
		t.Errorf("%+v", o)
	}
}
