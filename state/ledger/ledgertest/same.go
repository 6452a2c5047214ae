package ledgertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/ledger"
)

// Same drives a ledger and a reference with the same random calls, with all fields in use,
// and compares every field of every answer. Only tokens are the ledger's own: Same maps
// those of the two to each other.
func Same(t *testing.T, open func(t *testing.T) Harness, reference func(now func() time.Time) ledger.Store) {
	rapid.Check(t, func(r *rapid.T) {
		h := open(t)
		if h.Close != nil {
			defer h.Close()
		}
		p := &pair{t: t, h: h, want: reference(h.Clock.Now), tokens: map[uint64]uint64{0: 0}}
		r.Repeat(map[string]func(*rapid.T){
			"begin": p.begin, "end": p.end, "find": p.find, "range": p.list, "expire": p.expire,
			"time passes": func(r *rapid.T) {
				h.Clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 500, 1000, 2500}).Draw(r, "ms")) * time.Millisecond)
			},
			"restart": func(r *rapid.T) {
				if h.Reopen == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					r.Skip()
				}
				p.h.Ledger = h.Reopen(t)
			},
			"": func(r *rapid.T) { p.compare(r, ledger.Filter{}) },
		})
	})
}

// pair is a ledger and its reference.
type pair struct {
	t      *testing.T
	h      Harness
	want   ledger.Store
	tokens map[uint64]uint64 // of the ledger → of the reference
	given  [][2]ledger.Entry // opened, in both
	at     []time.Time       // when entries were created
}

var (
	someKeys = rapid.SampledFrom([]string{"a", "b", "b\x00", "c", "\xff"})
	some     = rapid.SampledFrom([]string{"", "x", "y\xff"})
)

func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func (p *pair) begin(r *rapid.T) {
	o := ledger.Begin{Lease: time.Duration(rapid.IntRange(0, 3).Draw(r, "lease")) * time.Second, Anew: rapid.IntRange(0, 4).Draw(r, "anew") == 0}
	var got, want []*ledger.Entry
	for _, k := range rapid.SliceOfN(someKeys, 1, 5).Draw(r, "keys") {
		e := ledger.Entry{Key: k, Holder: some.Draw(r, "holder"), Tenant: some.Draw(r, "tenant"), Type: some.Draw(r, "type"),
			Print: bytesOf(some.Draw(r, "print")), Payload: bytesOf(some.Draw(r, "payload")),
			Call: rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(r, "call"), Token: 5, State: ledger.Held, Err: "given"}
		x, y := e, e
		got, want = append(got, &x), append(want, &y)
	}
	if err := p.h.Ledger.Begin(p.t.Context(), got, o); err != nil {
		r.Fatal(err)
	}
	if err := p.want.Begin(p.t.Context(), want, o); err != nil {
		r.Fatal(err)
	}
	for i, e := range got {
		if e.State == ledger.Fresh {
			if old, ok := p.tokens[e.Token]; ok && old != want[i].Token {
				r.Fatalf("token %d was given twice", e.Token)
			}
			p.tokens[e.Token] = want[i].Token
			p.given, p.at = append(p.given, [2]ledger.Entry{*e, *want[i]}), append(p.at, e.Created)
		}
	}
	p.equal(r, "Begin", got, want)
}

func (p *pair) end(r *rapid.T) {
	if len(p.given) == 0 {
		r.Skip()
	}
	var got, want []*ledger.Entry
	for range rapid.IntRange(1, 4).Draw(r, "ends") {
		both := p.given[len(p.given)-1-rapid.IntRange(0, min(len(p.given)-1, 6)).Draw(r, "which")]
		x, y := both[0], both[1]
		x.State = rapid.SampledFrom([]ledger.State{ledger.Done, ledger.Done, ledger.Failed, ledger.Held, ledger.Dropped}).Draw(r, "state")
		x.Result, x.Err = bytesOf(some.Draw(r, "result")), some.Draw(r, "cause")
		y.State, y.Result, y.Err = x.State, x.Result, x.Err
		got, want = append(got, &x), append(want, &y)
	}
	if err := p.h.Ledger.End(p.t.Context(), got); err != nil {
		r.Fatal(err)
	}
	if err := p.want.End(p.t.Context(), want); err != nil {
		r.Fatal(err)
	}
	p.equal(r, "End", got, want)
}

func (p *pair) find(r *rapid.T) {
	var got, want []*ledger.Entry
	for _, k := range rapid.SliceOfN(someKeys, 1, 5).Draw(r, "keys") {
		got, want = append(got, &ledger.Entry{Key: k}), append(want, &ledger.Entry{Key: k})
	}
	if err := p.h.Ledger.Find(p.t.Context(), got); err != nil {
		r.Fatal(err)
	}
	if err := p.want.Find(p.t.Context(), want); err != nil {
		r.Fatal(err)
	}
	p.equal(r, "Find", got, want)
}

func (p *pair) list(r *rapid.T) {
	when := func(name string) (at time.Time) {
		if n := rapid.IntRange(0, len(p.at)).Draw(r, name); n > 0 {
			at = p.at[n-1]
		}
		return at
	}
	p.compare(r, ledger.Filter{Back: rapid.Bool().Draw(r, "back"), From: when("from"), To: when("to"), After: rapid.SampledFrom([]string{"", "a", "b", "bb"}).Draw(r, "after"),
		Tenant: some.Draw(r, "tenant"), Type: some.Draw(r, "type"), Max: rapid.IntRange(0, 3).Draw(r, "max"),
		State: rapid.SampledFrom([]ledger.State{0, 0, ledger.Running, ledger.Done, ledger.Held, ledger.Failed}).Draw(r, "state")})
}

func (p *pair) compare(r *rapid.T, f ledger.Filter) {
	p.equal(r, fmt.Sprintf("Range %+v", f), all(p.t, p.h.Ledger, f), all(p.t, p.want, f))
}

func (p *pair) expire(r *rapid.T) {
	before := p.h.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 3).Draw(r, "seconds"))*time.Second + 300*time.Microsecond)
	limit := rapid.IntRange(0, 2).Draw(r, "limit")
	got, err := p.h.Ledger.Expire(p.t.Context(), before, limit)
	if err != nil {
		r.Fatal(err)
	}
	if want, err := p.want.Expire(p.t.Context(), before, limit); err != nil || got != want {
		r.Fatalf("Expire: %d, want %d (%v)", got, want, err)
	}
}

// equal compares entries, and tokens by their mapping. Nil and empty bytes are equal.
func (p *pair) equal(r *rapid.T, what string, got, want []*ledger.Entry) {
	same := slices.EqualFunc(got, want, func(a, b *ledger.Entry) bool {
		token, ok := p.tokens[a.Token]
		if a.State == 0 || a.State == ledger.Conflict {
			token, ok = a.Token, true
		}
		return ok && token == b.Token && a.Key == b.Key && a.Tenant == b.Tenant && a.Type == b.Type && a.Holder == b.Holder && a.Call == b.Call &&
			a.State == b.State && string(a.Result) == string(b.Result) && string(a.Payload) == string(b.Payload) && string(a.Print) == string(b.Print) &&
			a.Tries == b.Tries && a.Err == b.Err && a.Created.Equal(b.Created) && a.Started.Equal(b.Started) && a.Ended.Equal(b.Ended) &&
			a.Stale == b.Stale && a.Broken == b.Broken && string(a.LastResult) == string(b.LastResult) && a.LastErr == b.LastErr
	})
	if same {
		return
	}
	for _, e := range got {
		r.Logf("got  %+v", *e)
	}
	for _, e := range want {
		r.Logf("want %+v", *e)
	}
	r.Fatalf("%s differs from the reference", what)
}
