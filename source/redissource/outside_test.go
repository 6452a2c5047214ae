package redissource

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/sourcetest"
)

// The contract again, with entries that somebody else wrote: those go by their entries'
// ids, which acks from outside name.
func TestContractOfForeignEntries(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		sourcetest.RunLive(t, 1, func(t *testing.T) sourcetest.Harness {
			t.Parallel()
			stream := testenv.Name("source")
			var opened atomic.Int64
			return sourcetest.Harness{
				Accept: func(ms ...*tidemill.Message) {
					var cmds rueidis.Commands
					for _, m := range ms {
						cmds = append(cmds, client.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("payload", rueidis.BinaryString(m.Payload)).Build())
					}
					for _, r := range client.DoMulti(t.Context(), cmds...) {
						if err := r.Error(); err != nil {
							t.Fatal(err)
						}
					}
				},
				Open: func() tidemill.Source {
					s, err := New(client, Options{Stream: stream, Consumer: "c" + strconv.FormatInt(opened.Add(1), 10), Lease: testLease})
					if err != nil {
						t.Fatal(err)
					}
					return s
				},
				Kill: func() {}, Lease: testLease, ByID: true,
			}
		})
	})
}

// ack settles by ID alone, and returns the answers.
func (b *table) ack(s *Source, end tidemill.Settlement, ids ...string) (took []tidemill.Outcome) {
	b.Helper()
	ends := make([]tidemill.Settlement, len(ids))
	for i, id := range ids {
		ends[i] = end
		ends[i].ID = id
	}
	if err := s.Settle(b.Context(), ends); err != nil {
		b.Fatal(err)
	}
	for _, e := range ends {
		took = append(took, e.Outcome)
	}
	return took
}

func (b *table) wantTook(got []tidemill.Outcome, want ...tidemill.Outcome) {
	b.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("answers are %v, want %v", got, want)
	}
}

func (b *table) length() int64 {
	b.Helper()
	n, err := b.do("XLEN", b.stream).AsInt64()
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// each runs a test of a table on one node and on a cluster.
func each(t *testing.T, run func(b *table)) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		t.Parallel()
		run(&table{T: t, client: client, stream: testenv.Name("faults")})
	})
}

const (
	applied = tidemill.Applied
	stale   = tidemill.Stale
)

var (
	acked = tidemill.Settlement{Fate: tidemill.Delivered}
	nack  = tidemill.Settlement{End: tidemill.Again, CountTry: true, Cause: "no"}
)

func TestAcksByIDOfWhatIsNotOutChangeNothing(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(4)
		s := b.open(b.client, Options{})
		got := b.take(s, 2, soon)
		p, _ := parsePlace(ids[0])
		waiting, after := ids[3], place{p.ms + 1<<40, 0}.String()
		for _, end := range []tidemill.Settlement{acked, nack, {End: tidemill.Left}} {
			b.wantTook(b.ack(s, end, waiting, after, "0-0", "1-1", "", "nobody", "-", "1700000000000", "+", "99999999999999999999-0", fmt.Sprintf("0%d-%d", p.ms, p.seq), ids[0]+" ", "18446744073709551615-18446744073709551615"),
				stale, stale, stale, stale, stale, stale, stale, stale, stale, stale, stale, stale, stale)
		}
		if n := b.length(); n != 4 {
			b.Fatalf("the stream has %d entries, want all 4", n)
		}
		b.books(s, tidemill.Books{Accepted: 4, Pending: 4})
		// Each once, in one call and in two, in any order.
		b.wantTook(b.ack(s, acked, ids[1], waiting, ids[0], ids[1]), applied, stale, applied, stale)
		b.wantTook(b.ack(s, acked, ids[0], ids[1]), stale, stale)
		if n := b.deliver(s, got...); n != 0 {
			b.Errorf("%d settlements of what was acked from outside were applied", n)
		}
		b.books(s, tidemill.Books{Accepted: 4, Settled: tidemill.Count{Delivered: 2}, Pending: 2})
		b.want(b.take(s, 2, soon), "2", "3")
	})
}

func TestAcksByIDReachWhateverIsPending(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(5)
		s, other := b.open(b.client, Options{}), b.open(b.client, Options{Consumer: "other"})
		mine := b.take(s, 2, soon)
		left := []tidemill.Settlement{{ID: mine[0].ID, Mark: mine[0].Mark, End: tidemill.Left}}
		if err := s.Settle(b.Context(), left); err != nil || left[0].Outcome != applied {
			b.Fatalf("left: %v, %v", left[0].Outcome, err)
		}
		theirs := b.take(other, 1, soon)
		b.do("XREADGROUP", "GROUP", Group, "foreign", "COUNT", "1", "STREAMS", b.stream, ">")
		fresh := b.open(b.client, Options{Consumer: "anew"}) // knows nothing of them
		b.wantTook(b.ack(fresh, acked, ids[:4]...), applied, applied, applied, applied)
		if n := b.deliver(s, mine...) + b.deliver(other, theirs...); n != 0 {
			b.Errorf("%d settlements of what was acked from outside were applied", n)
		}
		b.books(s, tidemill.Books{Accepted: 5, Settled: tidemill.Count{Delivered: 4}, Pending: 1})
		if n := b.length(); n != 1 {
			b.Errorf("the stream has %d entries, want 1", n)
		}
	})
}

// A lane may tell of an entry in the same breath as the ack comes for it.
func TestALanesEndAndAnAckInOneCall(t *testing.T) {
	each(t, func(b *table) {
		b.add(3)
		s := b.open(b.client, Options{})
		got := b.take(s, 3, soon)
		ends := []tidemill.Settlement{
			{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Left}, {ID: got[1].ID, Mark: got[1].Mark, Fate: tidemill.Skipped},
			{ID: got[2].ID, Mark: got[2].Mark, End: tidemill.Again, After: time.Hour},
			{ID: got[2].ID, Fate: tidemill.Dead}, {ID: got[1].ID, Fate: tidemill.Delivered}, {ID: got[0].ID, Fate: tidemill.Delivered}}
		if err := s.Settle(b.Context(), ends); err != nil {
			b.Fatal(err)
		}
		var took []tidemill.Outcome
		for _, e := range ends {
			took = append(took, e.Outcome)
		}
		b.wantTook(took, applied, applied, applied, applied, stale, applied)
		b.books(s, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 1, Skipped: 1, Dead: 1}})
		if n, err := b.do("ZCARD", s.keys.due).AsInt64(); n != 0 || err != nil {
			b.Errorf("%d entries are put off (%v), want none", n, err)
		}
	})
}

func TestNacksByIDPutOff(t *testing.T) {
	each(t, func(b *table) {
		ids := b.add(3)
		s := b.open(b.client, Options{})
		got := b.take(s, 3, soon)
		ends := []tidemill.Settlement{{ID: got[0].ID, Mark: got[0].Mark, End: tidemill.Left}}
		if err := s.Settle(b.Context(), ends); err != nil {
			b.Fatal(err)
		}
		later := nack
		later.After = testLease / 2
		start := time.Now()
		b.wantTook(b.ack(s, nack, ids[0]), applied)
		b.wantTook(b.ack(s, later, ids[1], ids[0]), applied, stale) // 1 is out still; 0 is put off already
		if n := b.deliver(s, got[1]); n != 0 {
			b.Error("the lane settled what was put off from outside")
		}
		again := b.take(s, 2, soon)
		b.want(again, "0", "1")
		if took := time.Since(start); took < later.After {
			b.Errorf("1 came back after %v, want %v at least", took, later.After)
		}
		for _, m := range again {
			if m.Tries != 1 || m.Handed != 2 {
				b.Errorf("%s has %d tries and %d hand-outs, want 1 and 2", m.Payload, m.Tries, m.Handed)
			}
		}
		if n := b.deliver(s, append(again, got[2])...); n != 3 {
			b.Errorf("%d settlements were applied, want 3", n)
		}
		b.books(s, tidemill.Books{Accepted: 3, Settled: tidemill.Count{Delivered: 3}})
	})
}

// Acks come in any order, far apart in a long list of what is pending.
func TestManyAcksByID(t *testing.T) {
	each(t, func(b *table) {
		const n = 6000
		var cmds rueidis.Commands
		for i := range n {
			cmds = append(cmds, b.client.B().Xadd().Key(b.stream).Id(fmt.Sprintf("%d-%d", 1000+i/7, i%7)).FieldValue().FieldValue("n", strconv.Itoa(i)).Build())
		}
		b.client.DoMulti(b.Context(), cmds...)
		s := b.open(b.client, Options{})
		got := b.take(s, n, soon)
		left := make([]tidemill.Settlement, n)
		for i, m := range got {
			left[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left}
		}
		if err := s.Settle(b.Context(), left); err != nil {
			b.Fatal(err)
		}
		// Every 3rd, some of every 500th, then the rest, backwards and with strangers among them.
		seen := map[string]bool{}
		for _, step := range []int{500, 3, 1} {
			var ids []string
			for i := n - 1; i >= 0; i -= step {
				ids = append(ids, got[i].ID, strconv.Itoa(1000+i)+"-9")
			}
			for i, took := range b.ack(s, acked, ids...) {
				want := applied
				if i%2 == 1 || seen[ids[i]] {
					want = stale
				}
				if took != want {
					b.Fatalf("ack %d of %s was answered %v, want %v", i, ids[i], took, want)
				}
				seen[ids[i]] = true
			}
		}
		b.books(s, tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}})
		if len(s.outs)+len(s.left.young)+len(s.left.old) != 0 {
			b.Errorf("%d, %d and %d entries are remembered, want none", len(s.outs), len(s.left.young), len(s.left.old))
		}
	})
}
