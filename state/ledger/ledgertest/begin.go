package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

var beginCases = []testcase{
	{"opens what is not there", "nobody works on it", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		if e.Tries != 1 || !e.Created.Equal(h.Clock.Now()) || !e.Started.Equal(h.Clock.Now()) || e.Holder != "a" {
			t.Errorf("got %+v, want the first try of a, created and started now", e)
		}
	}},
	{"says Running to others while the lease lasts", "two at work is the effect twice", func(t *testing.T, h Harness) {
		fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Minute - time.Millisecond)
		if e := begin(t, h.Ledger, "k", "b", ledger.Begin{}); e.State != ledger.Running || e.Holder != "a" || e.Token != 0 || e.Tries != 1 {
			t.Errorf("got %+v, want running by a, no token", e)
		}
	}},
	{"opens again for the same holder with a newer token", "a message handed out again after a crash need not wait for its own lease", func(t *testing.T, h Harness) {
		first := fresh(t, h.Ledger, "k", "a")
		again := fresh(t, h.Ledger, "k", "a")
		if again.Token <= first.Token || again.Tries != 2 {
			t.Errorf("token %d after %d, tries %d; want a newer token, two tries", again.Token, first.Token, again.Tries)
		}
		if !end(t, h.Ledger, first, ledger.Done, "late", "") {
			t.Error("the End of the first try was taken")
		}
		if end(t, h.Ledger, again, ledger.Done, "", "") {
			t.Error("the End of the second try was stale")
		}
	}},
	{"never takes an empty holder for the same", "two callers without a name are two callers", func(t *testing.T, h Harness) {
		fresh(t, h.Ledger, "k", "")
		if e := begin(t, h.Ledger, "k", "", ledger.Begin{}); e.State != ledger.Running {
			t.Errorf("got %v, want running", e.State)
		}
	}},
	{"tells who opens it what the last End wrote", "work that builds on what was done before finds it, whoever dies meanwhile", func(t *testing.T, h Harness) {
		tells := func(when string, e *ledger.Entry, result, cause string) {
			t.Helper()
			if e.State != ledger.Fresh || string(e.LastResult) != result || e.LastErr != cause || len(e.Result) != 0 || e.Err != "" {
				t.Errorf("%s: %v, last %q and %q beside %q and %q; want fresh, last %q and %q", when, e.State, e.LastResult, e.LastErr, e.Result, e.Err, result, cause)
			}
		}
		e := fresh(t, h.Ledger, "k", "a")
		tells("new", e, "", "")
		end(t, h.Ledger, e, ledger.Done, "one\x00", "")
		if e = begin(t, h.Ledger, "k", "b", ledger.Begin{}); e.State != ledger.Done || len(e.LastResult) != 0 || string(e.Result) != "one\x00" {
			t.Errorf("done: %+v, want its result, and nothing beside", e)
		}
		e = begin(t, h.Ledger, "k", "b", ledger.Begin{Anew: true})
		tells("anew", e, "one\x00", "")
		if e = begin(t, h.Ledger, "k", "c", ledger.Begin{}); e.State != ledger.Running || len(e.LastResult) != 0 {
			t.Errorf("running: %+v, want nothing of the last", e)
		}
		e = fresh(t, h.Ledger, "k", "b")
		tells("by the same holder", e, "one\x00", "")
		h.Clock.Advance(time.Hour)
		e = &ledger.Entry{Key: "k", Holder: "c", Call: 7}
		for _, when := range []string{"taken over", "the same call again"} {
			if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			tells(when, e, "one\x00", "")
		}
		end(t, h.Ledger, e, ledger.Failed, "two", "refused")
		tells("failed", fresh(t, h.Ledger, "k", "d"), "two", "refused")
		if found := all(t, h.Ledger, ledger.Filter{}); len(found) != 1 || len(found[0].LastResult) != 0 || found[0].LastErr != "" {
			t.Errorf("shown: %+v, want nothing of the last", found)
		}
	}},
	{"takes over a lease that ran out", "its holder is dead or too late", func(t *testing.T, h Harness) {
		a := fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Minute)
		b := fresh(t, h.Ledger, "k", "b")
		if b.Token <= a.Token || b.Tries != 2 || !b.Created.Equal(a.Created) || !b.Started.After(a.Started) {
			t.Errorf("got %+v after %+v, want a newer token, two tries, the same creation, a later start", b, a)
		}
		if !end(t, h.Ledger, a, ledger.Done, "of a", "") {
			t.Error("the late owner's End was taken")
		}
		if e := begin(t, h.Ledger, "k", "c", ledger.Begin{}); e.State != ledger.Running || e.Holder != "b" {
			t.Errorf("got %v by %q, want running by b", e.State, e.Holder)
		}
	}},
	{"says which fresh work was begun before and never ended", "its effect may be there: the caller decides whether to repeat it", func(t *testing.T, h Harness) {
		check := func(e *ledger.Entry, want bool) {
			t.Helper()
			if e.State != ledger.Fresh || e.Broken != want {
				t.Errorf("%v, broken %v; want fresh, broken %v", e.State, e.Broken, want)
			}
		}
		check(begin(t, h.Ledger, "k", "a", ledger.Begin{}), false)
		check(begin(t, h.Ledger, "k", "a", ledger.Begin{}), true)
		h.Clock.Advance(time.Hour)
		b := begin(t, h.Ledger, "k", "b", ledger.Begin{})
		check(b, true)
		if e := begin(t, h.Ledger, "k", "c", ledger.Begin{}); e.Broken {
			t.Error("a running entry is not the caller's to judge")
		}
		end(t, h.Ledger, b, ledger.Failed, "", "refused")
		c := begin(t, h.Ledger, "k", "c", ledger.Begin{})
		check(c, false)
		end(t, h.Ledger, c, ledger.Held, "", "lost")
		check(begin(t, h.Ledger, "k", "d", ledger.Begin{Anew: true}), false)
		if e := all(t, h.Ledger, ledger.Filter{})[0]; e.Broken {
			t.Error("it is an answer of Begin, not a part of the entry")
		}
	}},
	{"leases for a minute when not told", "the zero value is ready to use", func(t *testing.T, h Harness) {
		begin(t, h.Ledger, "k", "a", ledger.Begin{})
		h.Clock.Advance(59 * time.Second)
		if e := begin(t, h.Ledger, "k", "b", ledger.Begin{}); e.State != ledger.Running {
			t.Errorf("after 59s: %v, want running", e.State)
		}
		h.Clock.Advance(time.Second)
		if e := begin(t, h.Ledger, "k", "b", ledger.Begin{}); e.State != ledger.Fresh {
			t.Errorf("after 1m: %v, want fresh", e.State)
		}
	}},
	{"answers Done with the result and who did it", "a message that finds its own work done was delivered", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Done, "201 made", "")
		h.Clock.Advance(48 * time.Hour)
		e := begin(t, h.Ledger, "k", "b", ledger.Begin{})
		if e.State != ledger.Done || e.Holder != "a" || string(e.Result) != "201 made" || e.Token != 0 || e.Tries != 1 || e.Ended.IsZero() {
			t.Errorf("got %+v, want done by a with its result", e)
		}
		if e := begin(t, h.Ledger, "k", "a", ledger.Begin{}); e.State != ledger.Done {
			t.Errorf("the holder itself got %v, want done", e.State)
		}
	}},
	{"says Held until a person has decided", "the outcome is unknown: again could be twice", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Held, "", "answer lost")
		h.Clock.Advance(48 * time.Hour)
		for _, holder := range []string{"a", "b"} {
			if e := begin(t, h.Ledger, "k", holder, ledger.Begin{}); e.State != ledger.Held || e.Err != "answer lost" {
				t.Errorf("%s got %v (%q), want held with its cause", holder, e.State, e.Err)
			}
		}
	}},
	{"opens Failed at once for anybody", "the try failed and nothing happened", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Failed, "", "refused")
		if e := fresh(t, h.Ledger, "k", "b"); e.Tries != 2 || e.Err != "" {
			t.Errorf("got %+v, want the second try, Err empty for its own end", e)
		}
	}},
	{"opens Done and Held anew when asked, but not Running", "a replay is a decision; two at work is not", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "done", "a"), ledger.Done, "old", "")
		end(t, h.Ledger, fresh(t, h.Ledger, "held", "a"), ledger.Held, "", "")
		fresh(t, h.Ledger, "running", "a")
		for key, want := range map[string]ledger.State{"done": ledger.Fresh, "held": ledger.Fresh, "running": ledger.Running} {
			e := begin(t, h.Ledger, key, "b", ledger.Begin{Anew: true})
			if e.State != want || len(e.Result) != 0 {
				t.Errorf("%s: got %v with result %q, want %v", key, e.State, e.Result, want)
			}
			if want == ledger.Fresh && end(t, h.Ledger, e, ledger.Done, "new", "") {
				t.Errorf("%s: its End was stale", key)
			}
		}
		if e := begin(t, h.Ledger, "done", "c", ledger.Begin{}); e.State != ledger.Done || string(e.Result) != "new" || e.Holder != "b" {
			t.Errorf("got %+v, want done by b with the new result", e)
		}
	}},
	{"says Running to a key given twice in one call", "one batch may hold a message and its double", func(t *testing.T, h Harness) {
		for _, o := range []ledger.Begin{{}, {Anew: true}} {
			es := []*ledger.Entry{{Key: "k", Holder: "a"}, {Key: "other", Holder: "a"}, {Key: "k", Holder: "a"}, {Key: "k", Holder: "b"}}
			if err := h.Ledger.Begin(t.Context(), es, o); err != nil {
				t.Fatal(err)
			}
			for i, want := range []ledger.State{ledger.Fresh, ledger.Fresh, ledger.Running, ledger.Running} {
				if es[i].State != want {
					t.Errorf("entry %d: %v, want %v", i, es[i].State, want)
				}
			}
			for _, e := range es[:2] {
				if end(t, h.Ledger, e, ledger.Done, "", "") {
					t.Errorf("%s: its End was stale", e.Key)
				}
			}
		}
	}},
	{"keeps tenant, type and payload of the first", "what comes again under a key is compared with what came first", func(t *testing.T, h Harness) {
		e := &ledger.Entry{Key: "k", Tenant: "t1", Type: "order", Payload: []byte("first\x00\xff"), Holder: "a"}
		if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		for _, holder := range []string{"a", "b"} { // fresh again, and running
			x := &ledger.Entry{Key: "k", Tenant: "t2", Type: "other", Payload: []byte("second"), Holder: holder}
			if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{x}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			if x.Tenant != "t1" || x.Type != "order" || string(x.Payload) != "first\x00\xff" {
				t.Errorf("%v for %s: tenant %q type %q payload %q, want the first's", x.State, holder, x.Tenant, x.Type, x.Payload)
			}
		}
	}},
	{"keeps any bytes in a key apart", "keys come from outside", func(t *testing.T, h Harness) {
		odd := []string{"a", "A", "a\x00", "a\x00b", "\xff\xfe", "ä", "a\u0308", " a", "%", "_", "'", strings.Repeat("x", ledger.MaxKey), strings.Repeat("x", ledger.MaxKey-1)}
		for _, k := range odd {
			fresh(t, h.Ledger, k, "h")
		}
		if got := all(t, h.Ledger, ledger.Filter{}); len(got) != len(odd) {
			t.Errorf("%d entries, want %d: %q", len(got), len(odd), keys(got))
		}
	}},
	{"refuses an empty and a long key with the whole call", "a key cut off would be another's", func(t *testing.T, h Harness) {
		for _, k := range []string{"", strings.Repeat("x", ledger.MaxKey+1)} {
			err := h.Ledger.Begin(t.Context(), []*ledger.Entry{{Key: "good"}, {Key: k}}, ledger.Begin{})
			if !errors.Is(err, ledger.ErrKey) || tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("key of %d bytes: %v, want ErrKey of kind validation", len(k), err)
			}
		}
		if got := all(t, h.Ledger, ledger.Filter{}); len(got) != 0 {
			t.Errorf("left behind: %q", keys(got))
		}
	}},
	{"keeps nothing of the caller's memory", "the engine reuses its messages", func(t *testing.T, h Harness) {
		p, r := []byte("payload"), []byte("result")
		e := &ledger.Entry{Key: "k", Payload: p}
		if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		e.State, e.Result = ledger.Done, r
		if err := h.Ledger.End(t.Context(), []*ledger.Entry{e}); err != nil {
			t.Fatal(err)
		}
		clear(p)
		clear(r)
		for range 2 {
			got := begin(t, h.Ledger, "k", "b", ledger.Begin{})
			if !bytes.Equal(got.Payload, []byte("payload")) || !bytes.Equal(got.Result, []byte("result")) {
				t.Errorf("got %q, %q", got.Payload, got.Result)
			}
			clear(got.Payload) // nor exposes its own memory
			clear(got.Result)
		}
	}},
	{"does nothing under a context that has ended", "a lease nobody knows of blocks the next", func(t *testing.T, h Harness) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Ledger.Begin(ctx, []*ledger.Entry{{Key: "k"}}, ledger.Begin{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Begin: %v, want the context's error", err)
		}
		fresh(t, h.Ledger, "k", "b")
	}},
	{"takes an empty call and a large one", "a batch may hold nothing to guard, or thousands", func(t *testing.T, h Harness) {
		if err := h.Ledger.Begin(t.Context(), nil, ledger.Begin{}); err != nil {
			t.Errorf("Begin of nothing: %v", err)
		}
		if err := h.Ledger.End(t.Context(), nil); err != nil {
			t.Errorf("End of nothing: %v", err)
		}
		const n = 1777
		es := make([]*ledger.Entry, n)
		seen := map[uint64]bool{}
		for round, want := range []ledger.State{ledger.Fresh, ledger.Done} {
			for i := range es {
				es[i] = &ledger.Entry{Key: "key " + string(rune('0'+i%10)) + strings.Repeat("i", i/10), Holder: "h"}
			}
			if err := h.Ledger.Begin(t.Context(), es, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
			for i, e := range es {
				if e.State != want || round == 0 && seen[e.Token] {
					t.Fatalf("round %d, entry %d: %v under token %d, want %v under a token of its own", round, i, e.State, e.Token, want)
				}
				seen[e.Token] = true
				e.State = ledger.Done
			}
			if round == 0 {
				if err := h.Ledger.End(t.Context(), es); err != nil {
					t.Fatal(err)
				}
				for i, e := range es {
					if e.Stale {
						t.Fatalf("the End of entry %d was stale", i)
					}
				}
			}
		}
	}},
}
