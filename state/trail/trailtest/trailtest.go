// Package trailtest holds the promises of every backend of the audit trail as cases: call Run from
// the backend's one test.
package trailtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/trail"
)

// Harness is an empty trail.
type Harness struct {
	Trail  trail.Trail
	Reopen func() trail.Trail // closes and opens the same data again; nil: nothing survives
}

// Run runs every case on its own harness.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.do(t, h(t))
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*testing.T, Harness)
}{
	{"an entry is read as it was written", "it is what happened", roundTrip},
	{"an entry without an end is of an unknown outcome", "a crash leaves it, and not nothing", unknown},
	{"an entry ends once", "what came of it is never rewritten", endsOnce},
	{"entries are listed in both orders, from any on", "people look at the newest, programs read on", paged},
	{"entries are chosen by every filter", "people look for somebody, or for something", filtered},
	{"a whole trail is checked without a finding", "a false alarm is not believed twice", whole},
	{"those who write at once make one chain", "all instances share it", together},
	{"what is expired is not missing", "old entries go, and the rest is proven", expired},
	{"a clock that is far off is no finding", "a computer may begin in 1970", farOff},
	{"long texts are cut", "a row must not grow without bounds", long},
	{"a trail outlives a restart", "its chain goes on", restart},
	{"an ended context writes nothing", "a stop must not be held up", endedContext},
}

// when is a time of the tests, n seconds in.
func when(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 0).UTC() }

// Entry is one of the tests.
func entry(n int, who, op, thing string) trail.Entry {
	return trail.Entry{At: when(n), Who: who, Role: "admin", Via: "password", From: "192.0.2.1", Session: "s", Operation: op, Thing: thing, Filter: "all=true", Request: fmt.Sprint("r", n), Trace: fmt.Sprint("t", n)}
}

func begin(t *testing.T, tr trail.Trail, e trail.Entry) uint64 {
	t.Helper()
	seq, err := tr.Begin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func end(t *testing.T, tr trail.Trail, seq uint64, e trail.End) {
	t.Helper()
	if err := tr.End(t.Context(), seq, e); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, tr trail.Trail, f trail.Filter) []trail.Entry {
	t.Helper()
	if f.Most == 0 {
		f.Most = 100
	}
	all, err := tr.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checked wants the trail to have no finding.
func checked(t *testing.T, tr trail.Trail) trail.Checked {
	t.Helper()
	c, err := tr.Check(t.Context())
	if err != nil || len(c.Wrong) > 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	return c
}

func roundTrip(t *testing.T, h Harness) {
	e := entry(1, "ada", "pauseQueue", "q")
	e.Seq = begin(t, h.Trail, e)
	e.End = trail.End{Outcome: trail.Failed, Ended: when(2), Status: 500, Detail: "the disk is full", Before: `{"paused":false}`, After: `{"paused":true}`}
	end(t, h.Trail, e.Seq, e.End)
	if got := list(t, h.Trail, trail.Filter{}); !slices.Equal(got, []trail.Entry{e}) {
		t.Errorf("it is %+v, want %+v", got, e)
	}
	checked(t, h.Trail)
}

func unknown(t *testing.T, h Harness) {
	e := entry(1, "ada", "pauseQueue", "q")
	e.End = trail.End{Outcome: trail.Done, Detail: "as if it had ended"}
	e.Seq = begin(t, h.Trail, e)
	e.End = trail.End{Outcome: trail.Unknown}
	if got := list(t, h.Trail, trail.Filter{}); !slices.Equal(got, []trail.Entry{e}) {
		t.Errorf("it is %+v, want %+v", got, e)
	}
	checked(t, h.Trail)
}

func endsOnce(t *testing.T, h Harness) {
	seq := begin(t, h.Trail, entry(1, "ada", "a", ""))
	end(t, h.Trail, seq, trail.End{Outcome: trail.Done, Ended: when(1)})
	for _, of := range []uint64{seq, seq + 1, seq + 9, 0} { // one that has ended, an end, and none
		if err := h.Trail.End(t.Context(), of, trail.End{Outcome: trail.Refused}); err == nil {
			t.Errorf("%d ended again", of)
		}
	}
	if got := list(t, h.Trail, trail.Filter{}); len(got) != 1 || got[0].Outcome != trail.Done {
		t.Errorf("it is %+v", got)
	}
	checked(t, h.Trail)
}

// requests are those of entries.
func requests(all []trail.Entry) string {
	var rs []string
	for _, e := range all {
		rs = append(rs, e.Request)
	}
	return strings.Join(rs, " ")
}

func paged(t *testing.T, h Harness) {
	for n := range 5 {
		end(t, h.Trail, begin(t, h.Trail, entry(n, "ada", "a", "")), trail.End{Outcome: trail.Done, Ended: when(n)})
	}
	for _, back := range []bool{false, true} {
		var got []trail.Entry
		for beyond := uint64(0); ; {
			page := list(t, h.Trail, trail.Filter{Back: back, Beyond: beyond, Most: 2})
			if got = append(got, page...); len(page) < 2 {
				break
			}
			beyond = page[1].Seq
		}
		want := "r0 r1 r2 r3 r4"
		if back {
			want = "r4 r3 r2 r1 r0"
		}
		if requests(got) != want {
			t.Errorf("back %v: %s, want %s", back, requests(got), want)
		}
	}
}

func filtered(t *testing.T, h Harness) {
	for n, e := range []trail.Entry{entry(0, "ada", "pause", "q"), entry(1, "bob", "pause", "p"), entry(2, "ada", "resume", "q"), entry(3, "bob", "resume", "q"), entry(4, "ada", "pause", "q")} {
		seq := begin(t, h.Trail, e)
		if n != 4 {
			end(t, h.Trail, seq, trail.End{Outcome: []string{trail.Done, trail.Refused}[n%2], Ended: when(n)})
		}
	}
	for want, f := range map[string]trail.Filter{
		"r0 r1 r2 r3 r4": {},
		"r0 r2 r4":       {Who: "ada"},
		"r0 r1 r4":       {Operation: "pause"},
		"r0 r2 r3 r4":    {Thing: "q"},
		"r1 r3":          {Outcome: trail.Refused},
		"r4":             {Outcome: trail.Unknown},
		"r0 r4":          {Who: "ada", Operation: "pause", Thing: "q"},
		"r4 r0":          {Who: "ada", Operation: "pause", Back: true},
		"r0 r2":          {Who: "ada", Outcome: trail.Done},
		"r1 r2":          {After: when(1), Before: when(3)},
		"":               {Who: "eve"},
	} {
		if got := requests(list(t, h.Trail, f)); got != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
}

func whole(t *testing.T, h Harness) {
	if c := checked(t, h.Trail); c.Entries != 0 || c.Head != "" {
		t.Errorf("an empty one: %+v", c)
	}
	var open []uint64
	for n := range 300 { // and as many ends: several pages
		open = append(open, begin(t, h.Trail, entry(n, "ada", "a", "")))
		if n%3 == 2 {
			end(t, h.Trail, open[n-1], trail.End{Outcome: trail.Done, Ended: when(n)})
			end(t, h.Trail, open[n-2], trail.End{Outcome: trail.Failed, Ended: when(n), Detail: "no"})
		}
	}
	c := checked(t, h.Trail)
	if c.Entries != 300 || c.First != 1 || c.Last != 500 || len(c.Head) != 64 {
		t.Errorf("%+v", c)
	}
}

func together(t *testing.T, h Harness) {
	var wg sync.WaitGroup
	ctx := context.WithoutCancel(t.Context())
	for w := range 4 {
		wg.Go(func() {
			for n := range 10 {
				seq, err := h.Trail.Begin(ctx, entry(n, fmt.Sprint("w", w), "a", ""))
				if err == nil {
					err = h.Trail.End(ctx, seq, trail.End{Outcome: trail.Done, Ended: when(n)})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 { // while they write
		checked(t, h.Trail)
	}
	wg.Wait()
	if c := checked(t, h.Trail); c.Entries != 40 || c.Last != 80 {
		t.Errorf("%+v", c)
	}
}

func expire(t *testing.T, tr trail.Trail, before time.Time, over, want int) {
	t.Helper()
	if n, err := tr.Expire(t.Context(), before, over); n != want || err != nil {
		t.Errorf("forgot %d, %v; want %d", n, err, want)
	}
	checked(t, tr)
}

func expired(t *testing.T, h Harness) {
	expire(t, h.Trail, when(9), 0, 0)
	first := begin(t, h.Trail, entry(0, "ada", "a", ""))
	second := begin(t, h.Trail, entry(1, "ada", "a", ""))
	end(t, h.Trail, first, trail.End{Outcome: trail.Done, Ended: when(5)})
	end(t, h.Trail, second, trail.End{Outcome: trail.Done, Ended: when(6)})
	begin(t, h.Trail, entry(7, "ada", "a", ""))
	expire(t, h.Trail, when(0), 100, 0)
	expire(t, h.Trail, when(1), 100, 1) // and not its end
	if got := requests(list(t, h.Trail, trail.Filter{})); got != "r1 r7" {
		t.Errorf("there are %s", got)
	}
	expire(t, h.Trail, when(0), 2, 2)
	expire(t, h.Trail, when(100), 100, 1) // the newest stays
	if got := requests(list(t, h.Trail, trail.Filter{})); got != "r7" {
		t.Errorf("there are %s", got)
	}
	begin(t, h.Trail, entry(8, "ada", "a", ""))
	if c := checked(t, h.Trail); c.First != 5 || c.Entries != 2 {
		t.Errorf("%+v", c)
	}
}

func farOff(t *testing.T, h Harness) {
	for _, at := range []time.Time{time.UnixMilli(0), time.UnixMilli(1), {}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)} {
		e := entry(0, "ada", "a", "")
		e.At = at
		end(t, h.Trail, begin(t, h.Trail, e), trail.End{Outcome: trail.Done, Ended: at})
	}
	checked(t, h.Trail)
}

func long(t *testing.T, h Harness) {
	e := entry(1, strings.Repeat("ä", 1000), "a", strings.Repeat("x", 1000))
	e.Filter = strings.Repeat("f", 2*trail.Most)
	seq := begin(t, h.Trail, e)
	end(t, h.Trail, seq, trail.End{Outcome: trail.Done, Detail: strings.Repeat("d", 2*trail.Most), Before: strings.Repeat("ä", trail.Most)})
	got := list(t, h.Trail, trail.Filter{})[0]
	if len(got.Filter) != trail.Most || len(got.Detail) != trail.Most || len(got.Who) > 512 || !strings.HasSuffix(got.Who, "ä") || len(got.Thing) > 512 {
		t.Errorf("%d %d %d %d", len(got.Filter), len(got.Detail), len(got.Who), len(got.Thing))
	}
	checked(t, h.Trail)
}

func restart(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("nothing survives")
	}
	begin(t, h.Trail, entry(1, "ada", "a", ""))
	tr := h.Reopen()
	begin(t, tr, entry(2, "ada", "a", ""))
	if got := requests(list(t, tr, trail.Filter{})); got != "r1 r2" {
		t.Errorf("there are %s", got)
	}
	checked(t, tr)
}

func endedContext(t *testing.T, h Harness) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := h.Trail.Begin(ctx, entry(1, "ada", "a", "")); err == nil {
		t.Error("it was written")
	}
	if got := list(t, h.Trail, trail.Filter{}); len(got) != 0 {
		t.Errorf("there are %+v", got)
	}
}
