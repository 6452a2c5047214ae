package ledgertest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
)

// asked begins one entry with a fingerprint.
func asked(t *testing.T, h Harness, key, print string, o ledger.Begin) *ledger.Entry {
	t.Helper()
	e := &ledger.Entry{Key: key, Print: []byte(print), Payload: []byte("for " + print), Tenant: "of " + print, Err: "given", Result: []byte("given")}
	if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, o); err != nil {
		t.Fatalf("Begin %q: %v", key, err)
	}
	return e
}

var printCases = []testcase{
	{"answers the same request as ever, and another under its key with Conflict", "a key reused for another body must not get the first's answer", func(t *testing.T, h Harness) {
		foreign := func(when string) {
			t.Helper()
			e := asked(t, h, "k", "other", ledger.Begin{})
			if e.State != ledger.Conflict || e.Token != 0 || len(e.Result) != 0 || e.Err != "" || e.Tries != 0 || e.Broken ||
				string(e.Payload) != "for other" || string(e.Print) != "other" || e.Tenant != "of other" || !e.Created.IsZero() {
				t.Errorf("%s: %+v, want a conflict that tells nothing of the first", when, e)
			}
		}
		first := asked(t, h, "k", "print", ledger.Begin{})
		foreign("running")
		if e := asked(t, h, "k", "print", ledger.Begin{}); e.State != ledger.Running {
			t.Errorf("the same while it runs: %v, want running", e.State)
		}
		h.Clock.Advance(time.Hour)
		foreign("its lease over")
		end(t, h.Ledger, first, ledger.Failed, "", "refused")
		foreign("failed")
		again := asked(t, h, "k", "print", ledger.Begin{})
		if again.State != ledger.Fresh || string(again.Print) != "print" {
			t.Errorf("the same after a failure: %+v, want fresh", again)
		}
		end(t, h.Ledger, again, ledger.Held, "", "lost")
		foreign("held")
		end(t, h.Ledger, again, ledger.Done, "201", "")
		foreign("done")
		if e := asked(t, h, "k", "print", ledger.Begin{}); e.State != ledger.Done || string(e.Result) != "201" || string(e.Print) != "print" {
			t.Errorf("the same: %+v, want done with its result", e)
		}
		if e := asked(t, h, "k", "other", ledger.Begin{Anew: true}); e.State != ledger.Conflict {
			t.Errorf("another anew: %v, want conflict", e.State)
		}
	}},
	{"compares no fingerprint with none", "a caller that does not care", func(t *testing.T, h Harness) {
		end(t, h.Ledger, asked(t, h, "with", "print", ledger.Begin{}), ledger.Done, "r", "")
		end(t, h.Ledger, asked(t, h, "without", "", ledger.Begin{}), ledger.Done, "r", "")
		if e := asked(t, h, "with", "", ledger.Begin{}); e.State != ledger.Done {
			t.Errorf("asked without: %v, want done", e.State)
		}
		if e := asked(t, h, "without", "print", ledger.Begin{}); e.State != ledger.Done {
			t.Errorf("kept without: %v, want done", e.State)
		}
	}},
	{"tells a conflict within one call", "one batch may hold both", func(t *testing.T, h Harness) {
		es := []*ledger.Entry{{Key: "k", Print: []byte("a")}, {Key: "k", Print: []byte("b")}, {Key: "k", Print: []byte("a")}}
		if err := h.Ledger.Begin(t.Context(), es, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []ledger.State{ledger.Fresh, ledger.Conflict, ledger.Running} {
			if es[i].State != want {
				t.Errorf("entry %d: %v, want %v", i, es[i].State, want)
			}
		}
	}},
	{"keeps a fingerprint of any bytes, and refuses a long one and long names with the whole call", "they come from outside and are stored", func(t *testing.T, h Harness) {
		print := bytes.Repeat([]byte{0, 0xff}, ledger.MaxPrint/2)
		long := strings.Repeat("x", ledger.MaxKey)
		good := ledger.Entry{Key: "k", Print: print, Tenant: long, Type: long, Holder: long}
		e := good
		if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{&e}, ledger.Begin{}); err != nil {
			t.Fatal(err)
		}
		if got := all(t, h.Ledger, ledger.Filter{})[0]; !bytes.Equal(got.Print, print) || got.Tenant != long || got.Type != long || got.Holder != long {
			t.Errorf("got %+v", got)
		}
		for _, bad := range []ledger.Entry{{Key: "b", Print: append(print, 0)}, {Key: "b", Tenant: long + "x"}, {Key: "b", Type: long + "x"}, {Key: "b", Holder: long + "x"}} {
			if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{{Key: "a"}, &bad}, ledger.Begin{}); !errors.Is(err, ledger.ErrLong) || tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("%v, want ErrLong of kind validation", err)
			}
		}
		if n := len(all(t, h.Ledger, ledger.Filter{})); n != 1 {
			t.Errorf("%d entries, want the first alone", n)
		}
	}},
}

// called begins one entry by a call of that name, for a minute.
func called(t *testing.T, h Harness, key, holder string, call uint64) *ledger.Entry {
	t.Helper()
	e := &ledger.Entry{Key: key, Holder: holder, Call: call}
	if err := h.Ledger.Begin(t.Context(), []*ledger.Entry{e}, ledger.Begin{}); err != nil {
		t.Fatalf("Begin %q: %v", key, err)
	}
	return e
}

var callCases = []testcase{
	{"opens the same under the same token when a call is sent again", "the answer of the first was lost: it is no other try, and nothing was cut off", func(t *testing.T, h Harness) {
		for _, holder := range []string{"", "a"} {
			const call = 1<<63 | 77
			first := called(t, h, "k"+holder, holder, call)
			h.Clock.Advance(30 * time.Second)
			again := called(t, h, "k"+holder, holder, call)
			if again.State != ledger.Fresh || again.Token != first.Token || again.Tries != 1 || again.Broken || !again.Started.Equal(first.Started) {
				t.Errorf("holder %q: %+v after %+v, want the same", holder, again, first)
			}
			h.Clock.Advance(59 * time.Second)
			if e := called(t, h, "k"+holder, "b", 5); e.State != ledger.Running {
				t.Errorf("the lease did not begin with the second call: %v", e.State)
			}
			if end(t, h.Ledger, again, ledger.Done, "r", "") {
				t.Error("its End was stale")
			}
			if e := called(t, h, "k"+holder, holder, call); e.State != ledger.Done {
				t.Errorf("sent again after its end: %v, want done", e.State)
			}
		}
	}},
	{"says again of the same call what was broken before it", "the second answer must not hide what the first said", func(t *testing.T, h Harness) {
		fresh(t, h.Ledger, "k", "a")
		h.Clock.Advance(time.Hour)
		for range 2 {
			if e := called(t, h, "k", "b", 9); e.State != ledger.Fresh || !e.Broken || e.Tries != 2 {
				t.Errorf("got %+v, want fresh and broken, the second try", e)
			}
		}
	}},
	{"tells another call from the same", "a process that began and died did not lose an answer", func(t *testing.T, h Harness) {
		first := called(t, h, "k", "a", 1)
		second := called(t, h, "k", "a", 2)
		if second.State != ledger.Fresh || second.Token <= first.Token || !second.Broken || second.Tries != 2 {
			t.Errorf("got %+v, want another try", second)
		}
		if e := called(t, h, "k", "b", 1); e.State != ledger.Running {
			t.Errorf("the older call again: %v, want running", e.State)
		}
		if third := begin(t, h.Ledger, "k", "a", ledger.Begin{}); !third.Broken || third.Tries != 3 {
			t.Errorf("a call without a name: %+v, want another try", third)
		}
	}},
	{"finds of a call sent again what it had opened and opens the rest", "it may have been cut in the middle", func(t *testing.T, h Harness) {
		a := called(t, h, "a", "h", 4)
		es := []*ledger.Entry{{Key: "b", Holder: "h", Call: 4}, {Key: "a", Holder: "h", Call: 4}, {Key: "a", Holder: "h", Call: 4}}
		if err := h.Ledger.Begin(t.Context(), es, ledger.Begin{Anew: true}); err != nil {
			t.Fatal(err)
		}
		if es[0].State != ledger.Fresh || es[1].State != ledger.Fresh || es[1].Token != a.Token || es[0].Token == a.Token || es[2].State != ledger.Running {
			t.Errorf("got %+v, %+v, %+v; want fresh, fresh as before, running", es[0], es[1], es[2])
		}
	}},
}

var dropCases = []testcase{
	{"drops an entry as if it had never begun", "a request that failed before anything happened leaves no key behind", func(t *testing.T, h Harness) {
		e := asked(t, h, "k", "print", ledger.Begin{})
		if end(t, h.Ledger, e, ledger.Dropped, "", "") {
			t.Error("stale")
		}
		if got := all(t, h.Ledger, ledger.Filter{}); len(got) != 0 {
			t.Errorf("left: %+v", got[0])
		}
		h.Clock.Advance(time.Second)
		next := asked(t, h, "k", "other", ledger.Begin{})
		if next.State != ledger.Fresh || next.Broken || next.Tries != 1 || next.Token <= e.Token || !next.Created.Equal(h.Clock.Now()) || string(next.Payload) != "for other" {
			t.Errorf("then: %+v, want another first try under a newer token", next)
		}
		if !end(t, h.Ledger, e, ledger.Dropped, "", "") {
			t.Error("its late double dropped the successor")
		}
	}},
	{"takes a drop of what is gone, not of what is another's or Done", "the same sent again is harmless; a late one must not remove", func(t *testing.T, h Harness) {
		e := fresh(t, h.Ledger, "k", "a")
		for range 2 {
			if end(t, h.Ledger, e, ledger.Dropped, "", "") {
				t.Error("stale")
			}
		}
		if !end(t, h.Ledger, &ledger.Entry{Key: "k"}, ledger.Dropped, "", "") {
			t.Error("taken without a token")
		}
		done := fresh(t, h.Ledger, "done", "a")
		end(t, h.Ledger, done, ledger.Done, "r", "")
		if !end(t, h.Ledger, done, ledger.Dropped, "", "") {
			t.Error("what is done was dropped")
		}
		old := fresh(t, h.Ledger, "taken over", "a")
		fresh(t, h.Ledger, "taken over", "a")
		if !end(t, h.Ledger, old, ledger.Dropped, "", "") {
			t.Error("what is another's was dropped")
		}
		if got := keys(all(t, h.Ledger, ledger.Filter{})); len(got) != 2 {
			t.Errorf("left: %q, want two", got)
		}
	}},
	{"drops and ends in one call in their order", "a batch may hold both", func(t *testing.T, h Harness) {
		a, b := fresh(t, h.Ledger, "a", "h"), fresh(t, h.Ledger, "b", "h")
		drop, late, failed, then := *a, *a, *b, *b
		drop.State, late.State, failed.State, then.State = ledger.Dropped, ledger.Done, ledger.Failed, ledger.Dropped
		if err := h.Ledger.End(t.Context(), []*ledger.Entry{&drop, &failed, &late, &then}); err != nil {
			t.Fatal(err)
		}
		if drop.Stale || !late.Stale || failed.Stale || then.Stale {
			t.Errorf("stale: %v %v %v %v, want only the end of what was dropped", drop.Stale, late.Stale, failed.Stale, then.Stale)
		}
		if got := all(t, h.Ledger, ledger.Filter{}); len(got) != 0 {
			t.Errorf("left: %q", keys(got))
		}
	}},
}
