package live_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/live"
)

// desk is a feed whose clock stands still until it is moved.
type desk struct {
	*testing.T
	*live.Feed
	at time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, at: time.Unix(1_700_000_000, 0)}
	d.Feed = live.New(func() time.Time { return d.at }, func(n int) int { return n - 1 }) // the first of a group stay
	return d
}

func (d *desk) look(f live.Filter) live.Shown {
	d.Helper()
	s, err := d.Look(f)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

// ends has n messages of a type end in a pipeline of a system.
func (d *desk) ends(system, kind string, n int, fate tidemill.Fate) {
	p := d.Pipeline(system, "p")
	if !p.On() {
		return
	}
	all, of := make([]tidemill.Settlement, n), make([]tidemill.Message, n)
	for i := range all {
		all[i] = tidemill.Settlement{ID: fmt.Sprint(kind, i), Fate: fate, Outcome: tidemill.Applied, Cause: "why " + kind}
		of[i] = tidemill.Message{Tenant: "shop", Type: kind, Time: d.at.Add(-3 * time.Second)}
	}
	p.Ended(all, func(i int) *tidemill.Message { return &of[i] })
}

func TestNothingIsKeptWhileNobodyLooks(t *testing.T) {
	d := newDesk(t)
	d.ends("delivery", "a", 3, tidemill.Delivered)
	if d.On() {
		t.Fatal("it is on, and nobody looks")
	}
	if s := d.look(live.Filter{}); len(s.Fates) != 0 || !s.Since.Equal(d.at) || !d.On() {
		t.Fatalf("the first look shows %+v", s)
	}
	d.ends("delivery", "b", 2, tidemill.Delivered)
	d.at = d.at.Add(time.Second)
	s := d.look(live.Filter{})
	want := live.Fate{At: d.at.Add(-time.Second), System: "delivery", Pipeline: "p", Outcome: live.Delivered, Owner: "shop", Type: "b", ID: "b1", Why: "why b", Count: 1, Delay: 3 * time.Second}
	if len(s.Fates) != 2 || s.Fates[1] != want && s.Fates[0] != want || s.Counts[live.Delivered] != 2 {
		t.Fatalf("it shows %+v", s)
	}
	d.at = d.at.Add(live.Unseen + time.Second)
	if d.ends("delivery", "c", 1, tidemill.Dead); d.On() {
		t.Error("it goes on though nobody has looked for long")
	}
	if s := d.look(live.Filter{}); len(s.Fates) != 0 || len(s.Counts) != 0 {
		t.Errorf("who looks again after that sees %+v", s)
	}
}

func TestASecondHasTenOfAllSystemsAndOutcomes(t *testing.T) {
	d := newDesk(t)
	d.look(live.Filter{})
	d.ends("analytics", "many", 5000, tidemill.Delivered)
	d.ends("crm", "few", 1, tidemill.Dead)
	d.ends("crm", "some", 2, tidemill.Skipped)
	d.Came("delivery", "shop", "accepted", 7, "")
	d.at = d.at.Add(time.Second)
	s := d.look(live.Filter{})
	got := map[string]int{}
	for _, f := range s.Fates {
		got[f.System+" "+f.Outcome]++
	}
	if len(s.Fates) != live.PerSecond || got["analytics delivered"] != 6 || got["crm dead"] != 1 || got["crm skipped"] != 2 || got["delivery accepted"] != 1 {
		t.Errorf("a second has %d: %v", len(s.Fates), got)
	}
	if s.Counts[live.Delivered] != 5000 || s.Counts[live.Accepted] != 7 || s.Counts[live.Dead] != 1 {
		t.Errorf("counted %v", s.Counts)
	}
	for range 3 * live.Kept / live.PerSecond {
		d.ends("analytics", "more", 100, tidemill.Delivered)
		d.at = d.at.Add(time.Second)
		s = d.look(live.Filter{})
	}
	if len(s.Fates) != live.Kept || s.Fates[0].At.Before(s.Fates[1].At) || s.Fates[0].At.Before(d.at.Add(-2*time.Second)) {
		t.Errorf("it keeps %d, the first of %v at %v", len(s.Fates), s.Fates[0].At, d.at)
	}
}

func TestAFilterIsSampledByItself(t *testing.T) {
	d := newDesk(t)
	rare := live.Filter{Type: "rare"}
	d.look(live.Filter{})
	for _, f := range []live.Filter{rare, {System: "crm"}, {Owner: "shop"}, {Owner: "other"}} {
		d.look(f)
	}
	d.ends("delivery", "common", 1000, tidemill.Delivered)
	d.ends("delivery", "rare", 1, tidemill.Delivered)
	d.at = d.at.Add(time.Second)
	for f, want := range map[live.Filter]int{rare: 1, {System: "crm"}: 0, {Owner: "shop"}: live.PerSecond, {Owner: "other"}: 0} {
		if s := d.look(f); len(s.Fates) != want {
			t.Errorf("%+v shows %d, want %d", f, len(s.Fates), want)
		}
	}
	for n := 5; n < live.Looks; n++ {
		d.look(live.Filter{Owner: fmt.Sprint(n)})
	}
	if _, err := d.Look(live.Filter{Owner: "one more"}); !errors.Is(err, live.ErrLooks) {
		t.Errorf("one filter too many: %v", err)
	}
	d.look(rare) // those that are there go on
	d.at = d.at.Add(live.Unseen + time.Second)
	d.look(live.Filter{Owner: "one more"})
}

func TestWhatIsNoEndIsNotShown(t *testing.T) {
	d := newDesk(t)
	d.look(live.Filter{})
	ends := []tidemill.Settlement{
		{ID: "again", End: tidemill.Again, Outcome: tidemill.Applied},
		{ID: "left", End: tidemill.Left, Outcome: tidemill.Applied},
		{ID: "stale", Fate: tidemill.Dead, Outcome: tidemill.Stale},
		{ID: "unanswered", Fate: tidemill.Dead},
		{ID: "acked", Fate: tidemill.Delivered, Outcome: tidemill.Applied},
	}
	d.Pipeline("bridge", "b").Ended(ends, func(int) *tidemill.Message { return nil }) // from outside
	d.at = d.at.Add(time.Second)
	if s := d.look(live.Filter{}); len(s.Fates) != 1 || s.Fates[0].ID != "acked" || s.Fates[0].Delay >= 0 {
		t.Errorf("it shows %+v", s.Fates)
	}
}

func TestWhatCameInIsShownWithItsReason(t *testing.T) {
	d := newDesk(t)
	d.look(live.Filter{})
	for _, c := range [][2]string{{"accepted", ""}, {"known", ""}, {"full", ""}, {"rejected", "invalid: no event is valid"}, {"", "unauthorized: the API key is not known"}} {
		d.Came("delivery", "shop", c[0], 2, c[1])
	}
	d.Came("delivery", "shop", "rejected", 1, strings.Repeat("ä", 500))
	d.at = d.at.Add(time.Second)
	s := d.look(live.Filter{})
	got := map[string]string{}
	for _, f := range s.Fates {
		got[f.Why] = f.Outcome
		if len(f.Why) > 110 {
			t.Errorf("a reason of %d bytes is kept", len(f.Why))
		}
	}
	if s.Counts[live.Accepted] != 2 || s.Counts[live.Duplicate] != 2 || s.Counts[live.Refused] != 7 || got["full"] != live.Refused || got["invalid: no event is valid"] != live.Refused || got["unauthorized: the API key is not known"] != live.Refused {
		t.Errorf("it shows %v of %v", got, s.Counts)
	}
}

func TestManyAtOnce(t *testing.T) {
	f := live.New(time.Now, func(n int) int { return n / 2 })
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			p := f.Pipeline("s", "p")
			m := &tidemill.Message{Tenant: "shop"}
			for range 200 {
				if _, err := f.Look(live.Filter{Owner: fmt.Sprint(n)}); err != nil {
					t.Error(err)
				}
				p.Ended([]tidemill.Settlement{{ID: "x", Outcome: tidemill.Applied, Fate: tidemill.Dead}}, func(int) *tidemill.Message { return m })
				f.Came("s", "shop", "accepted", 1, "")
			}
		})
	}
	all.Wait()
}

// One operation is a batch of a thousand messages.
func BenchmarkABatch(b *testing.B) {
	ends := make([]tidemill.Settlement, 1000)
	for i := range ends {
		ends[i] = tidemill.Settlement{ID: "an-id-of-an-event", Outcome: tidemill.Applied, Fate: tidemill.Delivered}
	}
	m := &tidemill.Message{Tenant: "shop", Type: "purchase"}
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%v", on), func(b *testing.B) {
			b.ReportAllocs()
			f := live.New(time.Now, func(n int) int { return n / 2 })
			if on {
				_, _ = f.Look(live.Filter{})
			}
			p := f.Pipeline("s", "p")
			for b.Loop() {
				if p.On() {
					p.Ended(ends, func(int) *tidemill.Message { return m })
				}
			}
		})
	}
}
