package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tidemill/tidemill/state/ledger"
)

var concurrentCases = []testcase{
	{"gives Fresh to exactly one of many concurrent callers", "two winners are the effect twice", func(t *testing.T, h Harness) {
		const callers, rounds = 50, 10
		for round := range rounds {
			var won atomic.Int32
			var g sync.WaitGroup
			for c := range callers {
				g.Go(func() {
					es := []*ledger.Entry{{Key: fmt.Sprint("a", round), Holder: fmt.Sprint(c)}, {Key: fmt.Sprint("b", round), Holder: fmt.Sprint(c)}}
					if c%2 == 0 { // in any order of requests
						es[0], es[1] = es[1], es[0]
					}
					if err := h.Ledger.Begin(t.Context(), es, ledger.Begin{}); err != nil {
						t.Error(err)
						return
					}
					for _, e := range es {
						switch e.State {
						case ledger.Fresh:
							won.Add(1)
						case ledger.Running:
						default:
							t.Errorf("%v, want fresh or running", e.State)
						}
					}
				})
			}
			g.Wait()
			if n := won.Load(); n != 2 {
				t.Fatalf("round %d: %d of 2 keys were won", round, n)
			}
		}
	}},
	{"does work once however often two owners fight over it", "leases run out while their holders still work", func(t *testing.T, h Harness) {
		const keys = 10
		var ended [keys]atomic.Int32
		var left atomic.Int32
		left.Store(keys)
		var g sync.WaitGroup
		for owner := range 2 {
			g.Go(func() {
				for try := 0; left.Load() > 0 && try < 10_000; try++ {
					for k := range keys {
						e := &ledger.Entry{Key: fmt.Sprint(k), Holder: fmt.Sprint("owner ", owner)}
						if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{Lease: 2 * time.Millisecond}); err != nil {
							t.Error(err)
							return
						}
						if e.State != ledger.Fresh {
							continue
						}
						h.Clock.Advance(time.Millisecond) // so that the other's lease runs out
						if e.State = ledger.Done; try%3 == 0 {
							e.State = ledger.Failed
						}
						if err := h.Ledger.End(t.Context(), []*ledger.Entry{e}); err != nil {
							t.Error(err)
							return
						}
						if !e.Stale && e.State == ledger.Done {
							ended[k].Add(1)
							left.Add(-1)
						}
					}
				}
			})
		}
		g.Wait()
		for k := range ended {
			if n := ended[k].Load(); n != 1 {
				t.Errorf("key %d was done %d times", k, n)
			}
		}
	}},
	{"is linearizable", "leases, fencing and the clock together behave as if one call came after the other", func(t *testing.T, h Harness) {
		for seed := range uint64(15) {
			linearizable(t, h, seed)
		}
	}},
}

// call is one operation of a history on one key.
type call struct {
	op     string // begin, end, advance
	holder string
	anew   bool
	token  uint64
	state  ledger.State
	since  time.Duration // the clock when a begin was called
}

// answer is the answer to a call.
type answer struct {
	state ledger.State
	token uint64
	stale bool
}

// believed is one key in the model. The model is written anew here, not taken from the
// rules that the backends share. A begin reads the clock at some moment of its call, which
// need not be the one from which on others see it: so the end of its lease is known only
// within that span.
type believed struct {
	state    ledger.State
	holder   string
	token    uint64
	now      time.Duration
	earliest time.Duration // the end of the lease, at the earliest
	latest   time.Duration
}

const modelLease = 3 * time.Millisecond

func linearizable(t *testing.T, h Harness, seed uint64) {
	t.Helper()
	key := fmt.Sprint("key ", seed)
	var mu sync.Mutex // guards history
	var history []porcupine.Operation
	began, base := time.Now(), h.Clock.Now()
	var g sync.WaitGroup
	for client := range 3 {
		g.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			var token uint64
			for range 12 {
				in := call{op: "begin", holder: fmt.Sprint(client), anew: rnd.IntN(8) == 0}
				switch n := rnd.IntN(10); {
				case n < 2:
					in = call{op: "advance"}
				case n < 6 && token != 0:
					in = call{op: "end", token: token, state: []ledger.State{ledger.Done, ledger.Failed, ledger.Held}[rnd.IntN(3)]}
				}
				var out answer
				at := time.Since(began)
				switch in.op {
				case "begin":
					in.since = h.Clock.Now().Sub(base)
					e := &ledger.Entry{Key: key, Holder: in.holder}
					if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{Lease: modelLease, Anew: in.anew}); err != nil {
						t.Error(err)
						return
					}
					if out.state, out.token = e.State, e.Token; e.Token != 0 {
						token = e.Token
					}
				case "end":
					e := &ledger.Entry{Key: key, Token: in.token, State: in.state}
					if err := h.Ledger.End(t.Context(), []*ledger.Entry{e}); err != nil {
						t.Error(err)
						return
					}
					out.stale = e.Stale
				case "advance":
					h.Clock.Advance(time.Millisecond)
				}
				done := time.Since(began)
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(at), Output: out, Return: int64(done)})
				mu.Unlock()
			}
		})
	}
	g.Wait()
	switch porcupine.CheckOperationsTimeout(model, history, 10*time.Second) {
	case porcupine.Illegal:
		for _, o := range history {
			t.Logf("client %d [%d,%d] %+v -> %+v", o.ClientId, o.Call, o.Return, o.Input, o.Output)
		}
		t.Errorf("history %d is not linearizable", seed)
	case porcupine.Unknown:
		t.Errorf("history %d could not be checked in time", seed)
	}
}

var model = porcupine.Model{
	Init: func() any { return believed{} },
	Step: func(s, in, out any) (bool, any) {
		b, i, o := s.(believed), in.(call), out.(answer)
		switch i.op {
		case "advance":
			b.now += time.Millisecond
			return true, b
		case "end":
			stale := i.token != b.token || b.state == ledger.Done && i.state != ledger.Done
			if !stale {
				b.state = i.state
			}
			return o.stale == stale, b
		}
		free := b.state == 0 || b.state == ledger.Failed || i.anew && b.state != ledger.Running
		mine := b.state == ledger.Running && b.holder == i.holder
		over := b.state == ledger.Running && b.now >= b.earliest
		if o.state != ledger.Fresh {
			still := b.state != ledger.Running || i.since < b.latest
			return o.state == b.state && o.token == 0 && !free && !mine && still, b
		}
		ok := (free || mine || over) && o.token > b.token
		b.state, b.holder, b.token, b.earliest, b.latest = ledger.Running, i.holder, o.token, i.since+modelLease, b.now+modelLease
		return ok, b
	},
}
