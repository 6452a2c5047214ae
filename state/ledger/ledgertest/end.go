package ledgertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/ledger"
)

var endCases = []testcase{
	{"takes the End of a lease that ran out and was not taken over", "the work was done, and nobody else began", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Hour)
		if end(t, h.Ledger, e, ledger.Done, "r", "") {
			t.Error("stale")
		}
		if !e.Ended.Equal(h.Clock.Now()) {
			t.Errorf("ended %v, want now", e.Ended)
		}
	}},
	{"takes the same End again and keeps the first", "the answer of the first may have been lost", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		end(t, h.Ledger, e, ledger.Done, "first", "")
		when := e.Ended
		h.Clock.Advance(time.Second)
		if end(t, h.Ledger, e, ledger.Done, "second", "") {
			t.Error("stale")
		}
		if got := begin(t, h.Ledger, "k", "b", ledger.Begin{}); string(got.Result) != "first" || !got.Ended.Equal(when) {
			t.Errorf("result %q ended %v, want the first's", got.Result, got.Ended)
		}
	}},
	{"does not undo what is Done", "done is final", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		end(t, h.Ledger, e, ledger.Done, "r", "")
		for _, s := range []ledger.State{ledger.Failed, ledger.Held} {
			if !end(t, h.Ledger, e, s, "", "late") {
				t.Errorf("%v was taken", s)
			}
		}
		if got := begin(t, h.Ledger, "k", "b", ledger.Begin{}); got.State != ledger.Done || string(got.Result) != "r" {
			t.Errorf("got %v %q", got.State, got.Result)
		}
	}},
	{"refuses an older token, a token of nothing, and an unknown key", "a late owner must not write", func(t *testing.T, h Harness) {
		a := fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Minute)
		b := fresh(t, h.Ledger, "k", "b")
		for _, e := range []*ledger.Entry{a, {Key: "k"}, {Key: "k", Token: b.Token + 1}, {Key: "unknown", Token: b.Token}, {Key: "unknown"}} {
			if !end(t, h.Ledger, e, ledger.Done, "wrong", "") {
				t.Errorf("key %q token %d: was taken", e.Key, e.Token)
			}
		}
		if got := begin(t, h.Ledger, "k", "c", ledger.Begin{}); got.State != ledger.Running || got.Holder != "b" {
			t.Errorf("got %v by %q, want running by b", got.State, got.Holder)
		}
		if end(t, h.Ledger, b, ledger.Done, "right", "") {
			t.Error("the newest was stale")
		}
	}},
	{"ends what is Held under its token", "a person has found out", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Held, "", "answer lost")
		held := all(t, h.Ledger, ledger.Filter{State: ledger.Held})
		if len(held) != 1 || held[0].Token == 0 {
			t.Fatalf("held: %+v", held)
		}
		if end(t, h.Ledger, held[0], ledger.Done, "it had arrived", "") {
			t.Error("stale")
		}
		if got := begin(t, h.Ledger, "k", "b", ledger.Begin{}); got.State != ledger.Done {
			t.Errorf("got %v, want done", got.State)
		}
	}},
	{"ends each of a batch on its own", "one lost lease is one lost lease", func(t *testing.T, h Harness) {
		lost := fresh(t, h.Ledger, "lost", "a")
		h.Clock.Advance(time.Minute)
		fresh(t, h.Ledger, "lost", "b")
		kept, failed := fresh(t, h.Ledger, "kept", "a"), fresh(t, h.Ledger, "failed", "a")
		lost.State, kept.State, failed.State = ledger.Done, ledger.Done, ledger.Failed
		failed.Err = "refused"
		if err := h.Ledger.End(t.Context(), []*ledger.Entry{lost, kept, failed}); err != nil {
			t.Fatal(err)
		}
		if !lost.Stale || kept.Stale || failed.Stale {
			t.Errorf("stale: %v %v %v, want only the first", lost.Stale, kept.Stale, failed.Stale)
		}
		if got := all(t, h.Ledger, ledger.Filter{State: ledger.Failed}); len(got) != 1 || got[0].Err != "refused" {
			t.Errorf("failed: %+v", got)
		}
	}},
	{"takes two Ends of one key in one call in their order", "a batch may hold both", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		one, two, three := *e, *e, *e
		one.State, two.State, three.State = ledger.Failed, ledger.Done, ledger.Failed
		two.Result = []byte("r")
		if err := h.Ledger.End(t.Context(), []*ledger.Entry{&one, &two, &three}); err != nil {
			t.Fatal(err)
		}
		if one.Stale || two.Stale || !three.Stale {
			t.Errorf("stale: %v %v %v, want only the last", one.Stale, two.Stale, three.Stale)
		}
		if got := begin(t, h.Ledger, "k", "b", ledger.Begin{}); got.State != ledger.Done || string(got.Result) != "r" {
			t.Errorf("got %v %q", got.State, got.Result)
		}
	}},
	{"refuses a state that is no end, with the whole call", "a programming error must not pass for success", func(t *testing.T, h Harness) {
		e, good := fresh(t, h.Ledger, "k", "a"), fresh(t, h.Ledger, "good", "a")
		good.State = ledger.Done
		for _, s := range []ledger.State{0, ledger.Fresh, ledger.Running} {
			e.State = s
			if err := h.Ledger.End(t.Context(), []*ledger.Entry{good, e}); err == nil {
				t.Errorf("End as %v: no error", s)
			}
		}
		if got := all(t, h.Ledger, ledger.Filter{State: ledger.Running}); len(got) != 2 {
			t.Errorf("running: %q, want both", keys(got))
		}
	}},
	{"cuts a long cause", "an answer quoted whole must not fill the ledger", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "k", "a"), ledger.Failed, "", strings.Repeat("ä", ledger.MaxErr))
		if got := all(t, h.Ledger, ledger.Filter{}); len(got[0].Err) != ledger.MaxErr || strings.ContainsRune(got[0].Err, '\ufffd') {
			t.Errorf("kept %d bytes, want %d whole characters", len(got[0].Err), ledger.MaxErr)
		}
	}},
}

var rangeCases = []testcase{
	{"yields by time of creation, both ends included", "the log is read for a day", func(t *testing.T, h Harness) {
		var at []time.Time
		for _, k := range []string{"c", "a", "b", "d"} {
			h.Clock.Advance(time.Second)
			at = append(at, h.Clock.Now())
			end(t, h.Ledger, fresh(t, h.Ledger, k, "h"), ledger.Done, "r"+k, "")
		}
		fresh(t, h.Ledger, "A", "h") // the same instant as d
		for _, c := range []struct {
			f    ledger.Filter
			want []string
		}{
			{ledger.Filter{}, []string{"c", "a", "b", "A", "d"}},
			{ledger.Filter{From: at[1], To: at[2]}, []string{"a", "b"}},
			{ledger.Filter{From: at[3]}, []string{"A", "d"}},
			{ledger.Filter{To: at[0]}, []string{"c"}},
			{ledger.Filter{To: at[0].Add(-time.Millisecond)}, []string{}},
			{ledger.Filter{Max: 2}, []string{"c", "a"}},
			{ledger.Filter{State: ledger.Running}, []string{"A"}},
		} {
			if got := keys(all(t, h.Ledger, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
		e := all(t, h.Ledger, ledger.Filter{})[0]
		if e.State != ledger.Done || string(e.Result) != "rc" || e.Holder != "h" || e.Tries != 1 || e.Token == 0 || !e.Created.Equal(at[0]) || !e.Ended.Equal(at[0]) {
			t.Errorf("got %+v, want the whole entry", e)
		}
	}},
	{"chooses by tenant and type", "one tenant must not read another's", func(t *testing.T, h Harness) {
		for _, e := range []*ledger.Entry{{Key: "1", Tenant: "a", Type: "x"}, {Key: "2", Tenant: "b", Type: "x"}, {Key: "3", Tenant: "a", Type: "y"}} {
			if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			f    ledger.Filter
			want []string
		}{
			{ledger.Filter{Tenant: "a"}, []string{"1", "3"}},
			{ledger.Filter{Type: "x"}, []string{"1", "2"}},
			{ledger.Filter{Tenant: "a", Type: "x"}, []string{"1"}},
			{ledger.Filter{Tenant: "c"}, []string{}},
		} {
			if got := keys(all(t, h.Ledger, c.f)); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
	}},
	{"yields every entry once over many pages, while others begin and end", "a listing must not hold up work, nor miss what lies still", func(t *testing.T, h Harness) {
		const n = 700
		for i := range n {
			if i%100 == 0 {
				h.Clock.Advance(time.Millisecond)
			}
			fresh(t, h.Ledger, strings.Repeat("k", i%7)+string(rune('a'+i/26%26))+string(rune('a'+i%26))+strings.Repeat("z", i/676), "h")
		}
		want := keys(all(t, h.Ledger, ledger.Filter{}))
		if len(want) != n {
			t.Fatalf("%d entries, want %d", len(want), n)
		}
		h.Clock.Advance(time.Hour)
		var got []string
		for e, err := range h.Ledger.Range(t.Context(), ledger.Filter{To: h.Clock.Now().Add(-time.Minute)}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
			if len(got)%50 == 0 { // from inside the loop: nothing is locked
				fresh(t, h.Ledger, e.Key, "other")
				fresh(t, h.Ledger, "new"+e.Key, "other")
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d keys, want the same %d in the same order", len(got), len(want))
		}
	}},
	{"expires what ended or was abandoned before, never what is Held or at work", "the ledger is bounded, and nothing undecided vanishes", func(t *testing.T, h Harness) {
		end(t, h.Ledger, fresh(t, h.Ledger, "done", "a"), ledger.Done, "", "")
		end(t, h.Ledger, fresh(t, h.Ledger, "failed", "a"), ledger.Failed, "", "")
		end(t, h.Ledger, fresh(t, h.Ledger, "held", "a"), ledger.Held, "", "")
		fresh(t, h.Ledger, "abandoned", "a")
		long := begin(t, h.Ledger, "long", "a", ledger.Begin{Lease: 100 * time.Hour})
		h.Clock.Advance(48 * time.Hour)
		end(t, h.Ledger, fresh(t, h.Ledger, "young", "a"), ledger.Done, "", "")
		n, err := h.Ledger.Expire(t.Context(), h.Clock.Now().Add(-24*time.Hour), 0)
		if err != nil || n != 3 {
			t.Errorf("Expire: %d, %v; want 3", n, err)
		}
		if got := keys(all(t, h.Ledger, ledger.Filter{})); !slices.Equal(got, []string{"held", "long", "young"}) {
			t.Errorf("left: %q, want held, long, young", got)
		}
		if end(t, h.Ledger, long, ledger.Done, "", "") {
			t.Error("the End of what is at work was stale")
		}
		fresh(t, h.Ledger, "done", "b")
	}},
	{"expires at most as many as asked, the oldest first, and not what ended just then", "one call holds nobody up", func(t *testing.T, h Harness) {
		for _, k := range []string{"c", "b", "a"} {
			h.Clock.Advance(time.Second)
			end(t, h.Ledger, fresh(t, h.Ledger, k, "h"), ledger.Done, "", "")
		}
		for i, want := range [][]string{{"b", "a"}, {"a"}, {"a"}} {
			if _, err := h.Ledger.Expire(t.Context(), h.Clock.Now(), 1); err != nil {
				t.Fatal(err)
			}
			if got := keys(all(t, h.Ledger, ledger.Filter{})); !slices.Equal(got, want) {
				t.Errorf("after call %d: %q, want %q", i+1, got, want)
			}
		}
	}},
	{"never gives a token again, also after an entry is gone", "a late owner's token must not open its successor", func(t *testing.T, h Harness) {
		old := fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Hour)
		if n, err := h.Ledger.Expire(t.Context(), h.Clock.Now(), 0); n != 1 || err != nil {
			t.Fatalf("Expire: %d, %v", n, err)
		}
		now := fresh(t, h.Ledger, "k", "b")
		if now.Token <= old.Token || now.Tries != 1 {
			t.Errorf("token %d after %d, tries %d; want a newer token, the first try", now.Token, old.Token, now.Tries)
		}
		if !end(t, h.Ledger, old, ledger.Done, "", "") {
			t.Error("the late owner's End was taken")
		}
	}},
}

var durableCases = []testcase{
	{"finds everything again after a restart", "a ledger that forgets does it twice", func(t *testing.T, h Harness) {
		e := &ledger.Entry{Key: "done\x00\xff", Tenant: "t\xff", Type: "y\x00", Payload: []byte{0, 0xff}, Holder: "h\xff"}
		if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		end(t, h.Ledger, e, ledger.Done, "r\x00\xff", "")
		end(t, h.Ledger, fresh(t, h.Ledger, "held", "a"), ledger.Held, "", "lost")
		end(t, h.Ledger, fresh(t, h.Ledger, "failed", "a"), ledger.Failed, "", "refused")
		running := fresh(t, h.Ledger, "running", "a")
		before := all(t, h.Ledger, ledger.Filter{})
		l := h.Reopen(t)
		after := all(t, l, ledger.Filter{})
		if len(after) != len(before) {
			t.Fatalf("%d entries, want %d", len(after), len(before))
		}
		for i := range before {
			a, b := *after[i], *before[i]
			if a.Key != b.Key || a.Tenant != b.Tenant || a.Type != b.Type || string(a.Payload) != string(b.Payload) || a.Holder != b.Holder ||
				a.Token != b.Token || a.State != b.State || string(a.Result) != string(b.Result) || a.Tries != b.Tries || a.Err != b.Err ||
				!a.Created.Equal(b.Created) || !a.Started.Equal(b.Started) || !a.Ended.Equal(b.Ended) {
				t.Errorf("got %+v, want %+v", a, b)
			}
		}
		if got := begin(t, l, "running", "b", ledger.Begin{}); got.State != ledger.Running {
			t.Errorf("the lease was forgotten: %v", got.State)
		}
		again := fresh(t, l, "running", "a")
		if again.Token <= running.Token || !end(t, l, running, ledger.Done, "", "") {
			t.Errorf("token %d after %d; the old one must be stale", again.Token, running.Token)
		}
	}},
}
