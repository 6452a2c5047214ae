package ledgertest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemill/tidemill/state/ledger"
)

// Bench measures the cost of once on an empty ledger: new entries begun and ended as Done,
// with a fingerprint, an answer of 120 bytes and a payload of that size. Used is the
// processor time of the server so far, in microseconds; nil: not known.
func Bench(b *testing.B, open func(b *testing.B) (l ledger.Ledger, used func() float64)) {
	var callers atomic.Int64 // so far: each has its own keys
	for _, c := range []struct{ batch, payload int }{{100, 0}, {100, 500}, {1, 0}} {
		b.Run(fmt.Sprintf("batch=%d/payload=%d", c.batch, c.payload), func(b *testing.B) {
			l, used := open(b)
			defer cost(b, used)(c.batch)
			run := life(b, l, &callers, c.batch, c.payload)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
	for _, gathered := range []bool{false, true} {
		b.Run(fmt.Sprintf("batch=1/callers=50/gathered=%v", gathered), func(b *testing.B) {
			l, used := open(b)
			if gathered {
				var err error
				if l, err = ledger.Gather(l, ledger.GatherOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			defer cost(b, used)(1)
			b.SetParallelism(25) // times two processors
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				run := life(b, l, &callers, 1, 0)
				for p.Next() {
					run()
				}
			})
		})
	}
	b.Run("known/batch=100", func(b *testing.B) {
		l, used := open(b)
		defer cost(b, used)(100)
		es := entries(100, 0, 0, 0)
		finish(b, l, es)
		for b.Loop() {
			if err := l.Begin(b.Context(), es, ledger.Begin{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// cost reports the cost of an entry, with batch entries a round.
func cost(b *testing.B, used func() float64) func(batch int) {
	before := 0.0
	if used != nil {
		before = used()
	}
	return func(batch int) {
		n := float64(b.N * batch)
		b.ReportMetric(n/b.Elapsed().Seconds(), "entries/s")
		if used != nil {
			b.ReportMetric((used()-before)/n, "server-µs/entry")
		}
	}
}

// life begins and ends a batch of new entries.
func life(b *testing.B, l ledger.Ledger, caller *atomic.Int64, batch, payload int) func() {
	me, i := caller.Add(1), 0
	return func() {
		finish(b, l, entries(batch, payload, me, i))
		i++
	}
}

func entries(batch, payload int, caller int64, i int) []*ledger.Entry {
	es := make([]*ledger.Entry, batch)
	for j := range es {
		n := uint32(i*batch+j) * 2654435761 // spread over the keys
		es[j] = &ledger.Entry{Key: fmt.Sprintf("shop-1/POST/%08x-%06x-%06x", n, caller, i*batch+j), Tenant: "shop-1", Type: "purchase", Call: uint64(n) + 1,
			Print: []byte("0123456789abcdef"), Payload: make([]byte, payload)}
	}
	return es
}

func finish(b *testing.B, l ledger.Ledger, es []*ledger.Entry) {
	if err := l.Begin(b.Context(), es, ledger.Begin{}); err != nil {
		b.Error(err)
		return
	}
	answer := []byte(strings.Repeat("answer ", 17))
	for _, e := range es {
		if e.State != ledger.Fresh {
			b.Errorf("%q: %v", e.Key, e.State)
			return
		}
		e.State, e.Result = ledger.Done, answer
	}
	if err := l.End(b.Context(), es); err != nil {
		b.Error(err)
	}
}
