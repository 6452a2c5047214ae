package redissource

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestForeignDeletionIsCountedExactly(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := b.add(10)
	s := b.open(b.client, Options{})
	got := b.take(s, 4, soon)
	b.do("XDEL", b.stream, ids[1], ids[9])
	b.do("XTRIM", b.stream, "MAXLEN", "2") // 7 and 8 are left
	b.books(s, tidemill.Books{Accepted: 10, Pending: 6, Lost: 4})
	if b.deliver(s, got[0]) != 1 { // its bytes were here in time
		t.Error("an entry that was handed out before its deletion could not be settled")
	}
	b.books(s, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 1}, Pending: 5, Lost: 4})
	if b.deliver(s, b.take(s, 2, soon)...) != 2 {
		t.Error("what is left could not be settled")
	}
	b.nothing(s, 2*testLease) // 1, 2 and 3 are found idle, and gone
	b.books(s, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 3}, Lost: 7})
	if n := b.reported(Lost); n != 7 {
		t.Errorf("%d entries were reported lost, want 7: %+v", n, b.reports)
	}
}

// An owner has the bytes: what is deleted while it works is delivered, not lost, however
// often it says that it is still there.
func TestWhatIsDeletedWhileItIsWorkedOnIsNotLost(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := b.add(3)
	s := b.open(b.client, Options{})
	got := b.take(s, 3, soon)
	b.do("XDEL", b.stream, ids[1])
	for range 2 {
		if err := s.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.books(s, tidemill.Books{Accepted: 3, Pending: 3})
	if n := b.deliver(s, got...); n != 3 {
		t.Errorf("%d settlements were applied, want 3", n)
	}
	b.books(s, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
	if n := b.reported(Lost); n > 0 {
		t.Errorf("%d entries were reported lost, want none", n)
	}
}

func TestATrimmingProducerIsCountedExactly(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	s := b.open(b.client, Options{})
	b.books(s, tidemill.Books{})
	for range 20 {
		b.do("XADD", b.stream, "MAXLEN", "5", "*", "n", "x")
	}
	b.books(s, tidemill.Books{Accepted: 20, Pending: 5, Lost: 15})
	b.deliver(s, b.take(s, 5, soon)...)
	b.books(s, tidemill.Books{Accepted: 20, Settled: tidemill.Count{Delivered: 5}, Lost: 15})
}

func TestForeignAcksAreCounted(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := b.add(4)
	s := b.open(b.client, Options{})
	got := b.take(s, 4, soon)
	b.do("XACK", b.stream, Group, ids[0], ids[2])
	if n := b.deliver(s, got...); n != 2 {
		t.Errorf("%d settlements were applied, want 2: the others were acked by somebody else", n)
	}
	b.books(s, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 2}, Lost: 2})
	if n, err := b.do("XLEN", b.stream).AsInt64(); err != nil || n != 0 {
		t.Errorf("the stream has %d entries (%v), want none", n, err)
	}
}

// A failover to a replica that lags, or a restore, brings back what there was some time ago.
func TestTheStreamGoesBack(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.add(10)
	s := b.open(b.client, Options{})
	b.deliver(s, b.take(s, 5, soon)...)
	b.books(s, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 5}, Pending: 5})
	kept := map[string]string{}
	for _, key := range []string{b.stream, s.keys.books} {
		dump, err := b.do("DUMP", key).ToString()
		if err != nil {
			t.Fatal(err)
		}
		kept[key] = dump
	}
	b.add(4)
	late := b.take(s, 7, soon)
	b.books(s, tidemill.Books{Accepted: 14, Settled: tidemill.Count{Delivered: 5}, Pending: 9})
	for key, dump := range kept {
		b.do("RESTORE", key, "0", dump, "REPLACE")
	}
	b.books(s, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 5}, Pending: 5})
	if n := b.reported(WentBack); n != 4 {
		t.Errorf("it is reported to have gone back by %d, want 4: %+v", n, b.reports)
	}
	if n := b.deliver(s, late[:2]...); n != 0 {
		t.Errorf("%d hand-outs that nobody knows of any more were settled", n)
	}
	b.deliver(s, b.take(s, 5, soon)...)
	b.books(s, tidemill.Books{Accepted: 10, Settled: tidemill.Count{Delivered: 10}})
}

func TestAKeyOfTheWrongTypeIsSaid(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	b.do("SET", b.stream, "text")
	s := b.open(b.client, Options{})
	_, err := s.Receive(t.Context(), []*tidemill.Message{new(tidemill.Message)})
	if tidemill.KindOf(err) != tidemill.Validation || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a key of the wrong type says %v", err)
	}
	b.do("DEL", b.stream)
	b.add(1)
	b.deliver(s, b.take(s, 1, soon)...)
}

func TestAFullRedisIsDrained(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.PrivateRedis)
	b := newTable(t, s.URL)
	b.add(5)
	b.do("CONFIG", "SET", "maxmemory", "1")
	src := b.open(b.client, Options{})
	if err := src.Gate(t.Context(), time.Now(), 2); err != nil {
		t.Fatal(err)
	}
	got := b.take(src, 2, soon)
	ends := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Again, CountTry: true}, {ID: got[1].ID, Mark: got[1].Mark, Fate: tidemill.Dead}}
	if err := src.Settle(t.Context(), ends); err != nil {
		t.Fatal(err)
	}
	if err := src.Gate(t.Context(), time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	got = b.take(src, 4, soon)
	if err := src.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.deliver(src, got...); n != 4 {
		t.Errorf("%d settlements were applied, want 4", n)
	}
	b.books(src, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 4, Dead: 1}})
	in := NewIntake(b.client, IntakeOptions{})
	err := in.Add(t.Context(), []*tidemill.Message{{ID: "a", To: b.stream}}, nil)
	if tidemill.KindOf(err) != tidemill.RateLimit {
		t.Errorf("adding to a full Redis says %v, want kind rate_limit", err)
	}
	b.do("CONFIG", "SET", "maxmemory", "0")
	if err := in.Add(t.Context(), []*tidemill.Message{{ID: "a", To: b.stream}}, nil); err != nil {
		t.Error(err)
	}
	b.take(src, 1, soon)
}

func TestAClosedGateHoldsWithoutWearing(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	s := b.open(b.client, Options{})
	other := b.open(b.client, Options{Consumer: "other"})
	b.nothing(s, 100*time.Millisecond)
	if err := other.Gate(t.Context(), time.Now().Add(3*testLease), 1); err != nil {
		t.Fatal(err)
	}
	b.add(1) // s reads it before it sees the gate
	start := time.Now()
	into := []*tidemill.Message{new(tidemill.Message)}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), s.Traits().Keep)
		n, err := s.Receive(ctx, into)
		cancel()
		if n == 1 {
			break
		}
		if ctx.Err() == nil {
			t.Fatal(err)
		}
		if err := s.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.nothing(other, time.Millisecond)
		if time.Since(start) > 5*testLease {
			t.Fatal("the gate does not open")
		}
	}
	if took := time.Since(start); took < 2*testLease {
		t.Errorf("an entry came through a closed gate after %v", took)
	}
	if into[0].Handed != 1 {
		t.Errorf("an entry that waited at the gate says that it was handed out %d times", into[0].Handed)
	}
}

func TestAFrozenRedisEndsTheWait(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.PrivateRedis)
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret(s.URL), redisconn.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b := newTable(t, s.URL)
	src := b.open(client, Options{})
	b.nothing(src, 100*time.Millisecond)
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = src.Receive(ctx, []*tidemill.Message{new(tidemill.Message)})
	if took := time.Since(start); err == nil || took > 3*time.Second {
		t.Errorf("Receive returned %v after %v", err, took)
	}
	s.Thaw()
	b.add(1)
	b.deliver(src, b.take(src, 1, soon)...)
}

// Producers may give ids of their own, such as nanoseconds, which are no exact numbers in Lua.
func TestIDsBeyondExactNumbers(t *testing.T) {
	t.Parallel()
	b := newTable(t, testenv.Redis(t))
	ids := []string{"1795875818863000000-0", "1795875818863000001-0", "1795875818863000002-0", "1795875818863000003-18446744073709551614", "1795875818863000003-18446744073709551615"}
	for n, id := range ids {
		b.do("XADD", b.stream, id, "n", fmt.Sprint(n))
	}
	s := b.open(b.client, Options{})
	got := b.take(s, 5, soon)
	if n := b.deliver(s, got[0], got[2]); n != 2 {
		t.Errorf("%d settlements were applied, want 2", n)
	}
	want := tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 2}, Pending: 3}
	b.books(s, want)
	b.do("XGROUP", "DESTROY", b.stream, Group)
	b.books(s, want)
	if n := b.deliver(s, b.take(s, 3, soon)...); n != 3 {
		t.Errorf("%d settlements of the others were applied, want 3", n)
	}
	b.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
	b.do("XGROUP", "CREATE", b.stream, "other", "0")
	b.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 5}})
}
