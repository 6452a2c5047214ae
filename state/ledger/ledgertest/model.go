package ledgertest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemill/tidemill/state/ledger"
)

// row is an entry in the model of a whole ledger.
type row struct {
	holder         string
	state          ledger.State
	token          uint64
	tries          int
	result, cause  string
	created, ended time.Time
	until          time.Time
}

// follows drives a ledger with random calls and compares every answer with a model.
func follows(t *testing.T, open func(t *testing.T) Harness) {
	rapid.Check(t, func(r *rapid.T) {
		h := open(t)
		if h.Close != nil {
			defer h.Close()
		}
		rows := map[string]*row{}
		newest := uint64(0)
		var given []ledger.Entry // as begun, old ones too
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		r.Repeat(map[string]func(*rapid.T){
			"begin": func(r *rapid.T) {
				o := ledger.Begin{Lease: time.Duration(rapid.IntRange(0, 3).Draw(r, "lease")) * time.Second, Anew: rapid.IntRange(0, 4).Draw(r, "anew") == 0}
				holder := rapid.SampledFrom([]string{"", "x", "y"}).Draw(r, "holder")
				var es []*ledger.Entry
				for _, k := range rapid.SliceOfN(names, 1, 4).Draw(r, "keys") {
					es = append(es, &ledger.Entry{Key: k, Holder: holder})
				}
				if err := h.Ledger.Begin(t.Context(), es, o); err != nil {
					r.Fatal(err)
				}
				now, again, before := h.Clock.Now(), map[string]bool{}, newest
				for _, e := range es {
					w := rows[e.Key]
					if w == nil {
						w = &row{created: now}
						rows[e.Key] = w
					}
					var opens bool
					switch w.state {
					case ledger.Running:
						opens = !now.Before(w.until) || holder != "" && holder == w.holder
					case ledger.Done, ledger.Held:
						opens = o.Anew
					default:
						opens = true
					}
					if !opens || again[e.Key] {
						if e.State != w.state || e.Token != 0 || e.Holder != w.holder || e.Tries != w.tries ||
							e.State == ledger.Done && string(e.Result) != w.result {
							r.Fatalf("Begin %q: %+v, want %+v", e.Key, e, w)
						}
						continue
					}
					again[e.Key] = true
					if e.State != ledger.Fresh || e.Broken != (w.state == ledger.Running) || e.Token <= before || e.Tries != w.tries+1 || !e.Created.Equal(w.created) {
						r.Fatalf("Begin %q: %+v, want it opened after %+v, token over %d", e.Key, e, w, before)
					}
					newest = max(newest, e.Token)
					w.holder, w.state, w.token, w.tries, w.ended = holder, ledger.Running, e.Token, e.Tries, time.Time{}
					w.until = now.Add(cmp.Or(o.Lease, time.Minute))
					given = append(given, *e)
				}
			},
			"end": func(r *rapid.T) {
				if len(given) == 0 {
					r.Skip()
				}
				var es []*ledger.Entry
				for range rapid.IntRange(1, 3).Draw(r, "ends") {
					e := given[len(given)-1-rapid.IntRange(0, min(len(given)-1, 5)).Draw(r, "which")]
					e.State = rapid.SampledFrom([]ledger.State{ledger.Done, ledger.Done, ledger.Failed, ledger.Held}).Draw(r, "state")
					e.Result, e.Err = []byte(rapid.StringN(0, 3, 10).Draw(r, "result")), rapid.StringN(0, 3, 10).Draw(r, "cause")
					es = append(es, &e)
				}
				if err := h.Ledger.End(t.Context(), es); err != nil {
					r.Fatal(err)
				}
				for _, e := range es {
					w := rows[e.Key]
					stale := w == nil || w.token != e.Token || w.state == ledger.Done && e.State != ledger.Done
					if e.Stale != stale {
						r.Fatalf("End %q as %v under %d: stale %v, want %v for %+v", e.Key, e.State, e.Token, e.Stale, stale, w)
					}
					if !stale && w.state != ledger.Done {
						w.state, w.result, w.cause, w.ended = e.State, string(e.Result), e.Err, h.Clock.Now()
					}
				}
			},
			"time passes": func(r *rapid.T) {
				h.Clock.Advance(time.Duration(rapid.IntRange(1, 3000).Draw(r, "ms")) * time.Millisecond)
			},
			"expire": func(r *rapid.T) {
				before := h.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 3).Draw(r, "seconds")) * time.Second)
				n, err := h.Ledger.Expire(t.Context(), before, 0)
				if err != nil {
					r.Fatal(err)
				}
				want := 0
				for k, w := range rows {
					if w.state == ledger.Running && w.until.Before(before) || (w.state == ledger.Done || w.state == ledger.Failed) && w.ended.Before(before) {
						delete(rows, k)
						want++
					}
				}
				if n != want {
					r.Fatalf("Expire: %d, want %d", n, want)
				}
			},
			"restart": func(r *rapid.T) {
				if h.Reopen == nil || rapid.IntRange(0, 9).Draw(r, "really") > 0 {
					r.Skip()
				}
				h.Ledger = h.Reopen(t)
			},
			"": func(r *rapid.T) {
				var want []string
				for k := range rows {
					want = append(want, k)
				}
				slices.SortFunc(want, func(a, b string) int {
					return cmp.Or(rows[a].created.Compare(rows[b].created), cmp.Compare(a, b))
				})
				got := all(t, h.Ledger, ledger.Filter{})
				if !slices.Equal(keys(got), want) {
					r.Fatalf("entries %q, want %q", keys(got), want)
				}
				for _, e := range got {
					w := rows[e.Key]
					ended := w.state != ledger.Running
					if e.State != w.state || e.Token != w.token || e.Tries != w.tries || !e.Ended.Equal(w.ended) ||
						ended && (string(e.Result) != w.result || e.Err != w.cause) {
						r.Fatalf("%q: %+v, want %+v", e.Key, e, w)
					}
				}
			},
		})
	})
}
