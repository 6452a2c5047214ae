package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// Which jobs a filter chooses.
func TestWhatAFilterChooses(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	job := func(change func(*Job)) *Job {
		j := &Job{Message: tidemill.Message{ID: "1", To: "q", Tenant: "t", Type: "y"}, State: Waiting, Added: at}
		if change != nil {
			change(j)
		}
		return j
	}
	ended := func(j *Job) { j.State, j.Ended = Completed, at.Add(time.Hour) }
	for _, c := range []struct {
		why  string
		f    Filter
		j    *Job
		want bool
	}{
		{"all that are held", Filter{}, job(nil), true},
		{"one that is put off is held", Filter{}, job(func(j *Job) { j.State = Delayed }), true},
		{"one that is out is held", Filter{}, job(func(j *Job) { j.State = Leased }), true},
		{"what has ended is not", Filter{}, job(ended), false},
		{"unless it is asked for", Filter{State: Completed}, job(ended), true},
		{"another state", Filter{State: Delayed}, job(nil), false},
		{"its queue", Filter{Queue: "q"}, job(nil), true},
		{"another queue", Filter{Queue: "r"}, job(nil), false},
		{"its tenant", Filter{Tenant: "t"}, job(nil), true},
		{"another tenant", Filter{Tenant: "u"}, job(nil), false},
		{"its type", Filter{Type: "y"}, job(nil), true},
		{"another type", Filter{Type: "z"}, job(nil), false},
		{"its id", Filter{IDs: []string{"0", "1"}}, job(nil), true},
		{"other ids", Filter{IDs: []string{"0"}}, job(nil), false},
		{"added before", Filter{Before: at.Add(1)}, job(nil), true},
		{"added then", Filter{Before: at}, job(nil), false},
		{"ended before", Filter{State: Completed, Before: at.Add(time.Hour + 1)}, job(ended), true},
		{"behind the end of a page", Filter{After: tidemill.Mark{Lo: 4}}, job(func(j *Job) { j.Mark.Lo = 5 }), true},
		{"at the end of a page", Filter{After: tidemill.Mark{Lo: 5}}, job(func(j *Job) { j.Mark.Lo = 5 }), false},
		{"in a later shard", Filter{After: tidemill.Mark{Hi: 1, Lo: 5}}, job(func(j *Job) { j.Mark.Hi, j.Mark.Lo = 2, 1 }), true},
		{"in an earlier shard", Filter{After: tidemill.Mark{Hi: 1, Lo: 5}}, job(func(j *Job) { j.Mark.Lo = 9 }), false},
		{"ended then, however long it was there", Filter{State: Completed, Before: at.Add(time.Hour)}, job(ended), false},
	} {
		if got := c.f.Matches(c.j); got != c.want {
			t.Errorf("%s: %v", c.why, got)
		}
	}
}

func TestWhatIsNoJobIsRefused(t *testing.T) {
	good := &tidemill.Message{ID: "1", To: "q"}
	for _, c := range []struct {
		why string
		err error
		bad bool
	}{
		{"a job", Check(good), false},
		{"without an id", Check(&tidemill.Message{To: "q"}), true},
		{"without a queue", Check(&tidemill.Message{ID: "1"}), true},
		{"an end", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered}), false},
		{"an end without a fate", CheckEnd(&tidemill.Settlement{}), true},
		{"one that is no end needs none", CheckEnd(&tidemill.Settlement{End: tidemill.Again}), false},
		{"an end of many", CheckEnd(&tidemill.Settlement{Records: tidemill.Count{Skipped: 1}}), false},
		{"with jobs that follow", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered, Next: []*tidemill.Message{good}}), false},
		{"with one that is none", CheckEnd(&tidemill.Settlement{Fate: tidemill.Delivered, Next: []*tidemill.Message{good, {}}}), true},
		{"answers for all names", CheckKnows(t.Context(), make([]Name, 2), make([]bool, 2)), false},
		{"too few answers", CheckKnows(t.Context(), make([]Name, 2), make([]bool, 1)), true},
		{"too many answers", CheckKnows(t.Context(), make([]Name, 2), make([]bool, 3)), true},
	} {
		if (c.err != nil) != c.bad {
			t.Errorf("%s: %v", c.why, c.err)
		}
	}
}

// The texts of the role's errors, and their kinds.
func TestErrorsOfTheRole(t *testing.T) {
	n := Name{Queue: "q", Tenant: "t", ID: "1"}
	for _, c := range []struct {
		err  error
		kind tidemill.Kind
		is   error
		says string
	}{
		{Refused(Full, "q"), tidemill.RateLimit, nil, "full"}, {Refused(Closed, "q"), tidemill.RateLimit, ErrClosed, `"q"`},
		{NotFound(n), tidemill.NotFound, ErrNotFound, `"1"`}, {Out(n), tidemill.Transient, ErrOut, `"t"`},
		{NotEmpty("q"), tidemill.Validation, nil, "holds jobs"}, {NoQueue(), tidemill.Validation, nil, "filter"}, {NotOrdered("q"), tidemill.Validation, nil, "switched off"},
	} {
		if tidemill.KindOf(c.err) != c.kind || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(fmt.Sprint(c.err), c.says) {
			t.Errorf("%v is of kind %v; want %v, %v and %q", c.err, tidemill.KindOf(c.err), c.kind, c.is, c.says)
		}
	}
	if err := errors.Join(Refused(New, "q"), Refused(Known, "q")); err != nil {
		t.Errorf("what was taken is refused: %v", err)
	}
}

// Times of queues are whole milliseconds, and no job comes back before its time.
func TestTimesOfQueues(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	for d, up := range map[time.Duration]time.Duration{0: 0, 1: time.Millisecond, time.Millisecond - 1: time.Millisecond, time.Millisecond: time.Millisecond} {
		if got := Millis(at.Add(d)); got != at.Add(d).Truncate(time.Millisecond).UTC() {
			t.Errorf("Millis of %v later: %v", d, got)
		}
		if got := MillisUp(at.Add(d)); got != at.Add(up).UTC() {
			t.Errorf("MillisUp of %v later: %v", d, got)
		}
	}
	if !Millis(time.Time{}).IsZero() || !MillisUp(time.Time{}).IsZero() {
		t.Error("no time became one")
	}
}

func TestTheDeepestTenantIsFirst(t *testing.T) {
	for _, c := range []struct {
		a, b Depth
		want int
	}{{Depth{Tenant: "a", Waiting: 2}, Depth{Tenant: "b", Waiting: 1}, -1}, {Depth{Tenant: "a", Waiting: 1}, Depth{Tenant: "b", Waiting: 2}, 1},
		{Depth{Tenant: "a", Waiting: 1}, Depth{Tenant: "b", Waiting: 1}, -1}, {Depth{Tenant: "b"}, Depth{Tenant: "a"}, 1}, {Depth{Tenant: "a"}, Depth{Tenant: "a"}, 0}} {
		if got := Deeper(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %d", c.a, c.b, got)
		}
	}
}

// How many may go at once after a pause, and how long one takes.
func TestBursts(t *testing.T) {
	for _, c := range []struct {
		l     Limit
		ahead int
		each  float64
	}{{Limit{}, 1, 0}, {Limit{PerSecond: 1}, 1, 1e6}, {Limit{PerSecond: 10}, 1, 1e5}, {Limit{PerSecond: 19}, 1, 1e6 / 19}, {Limit{PerSecond: 20}, 2, 5e4}, {Limit{PerSecond: 1000}, 100, 1000},
		{Limit{PerSecond: 1000, Burst: 1}, 1, 1000}, {Limit{PerSecond: 1, Burst: 7}, 7, 1e6}, {Limit{PerSecond: .5}, 1, 2e6}} {
		if c.l.Ahead() != c.ahead || c.l.Interval() != c.each {
			t.Errorf("%+v: %d at once, one in %v µs; want %d, %v", c.l, c.l.Ahead(), c.l.Interval(), c.ahead, c.each)
		}
	}
}

// What a limit lets go, by what is out and by what was used up.
func TestWhatALimitLetsGo(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	rate := Limit{PerSecond: 10, Burst: 3}
	used := func(n int) float64 { return rate.Spend(0, n, now) }
	for _, c := range []struct {
		why       string
		l         Limit
		out, most int
		spent     float64
		n         int
		in        time.Duration // when one may go; 0: an end makes room, or some may
	}{
		{"no limit", Limit{}, 99, 5, 0, 5, 0},
		{"at once, none out", Limit{AtOnce: 3}, 0, 5, 0, 3, 0}, {"at once, some out", Limit{AtOnce: 3}, 2, 5, 0, 1, 0}, {"at once, all out", Limit{AtOnce: 3}, 3, 5, 0, 0, 0},
		{"at once, more out than may be", Limit{AtOnce: 3}, 9, 5, 0, 0, 0}, {"fewer are asked for", Limit{AtOnce: 3}, 0, 2, 0, 2, 0},
		{"a rate, unused", rate, 0, 9, 0, 3, 0}, {"fewer than the burst", rate, 0, 2, 0, 2, 0}, {"a rate, partly used", rate, 0, 9, used(2), 1, 0},
		{"a rate, used up", rate, 0, 9, used(3), 0, 100 * time.Millisecond}, {"a rate, one more than used up", rate, 0, 9, used(4), 0, 200 * time.Millisecond},
		{"both, all out", Limit{PerSecond: 10, Burst: 3, AtOnce: 1}, 1, 9, used(3), 0, 0},
	} {
		n, at := c.l.Allow(c.out, c.most, c.spent, now)
		if n != c.n || c.in == 0 && !at.IsZero() || c.in > 0 && at.Sub(now) != c.in {
			t.Errorf("%s: %d may go, or one at %v; want %d, in %v", c.why, n, at, c.n, c.in)
		}
	}
	if later := now.Add(time.Second); rate.Spend(used(3), 1, later) != float64(later.UnixMicro())+1e5 {
		t.Error("what was used up a second ago is still used up")
	}
}

// Turns of a queue outside a store: its gate, its rate and the tenant's.
func TestTurnsOfAQueue(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	s := Settings{Limit: Limit{PerSecond: 10, Burst: 4, AtOnce: 1}, Tenant: Limit{PerSecond: 1, Burst: 2}, Tenants: map[string]Limit{"fast": {}, "slow": {PerSecond: 2, Burst: 1}}}
	var spent [2]float64
	turn := func(tenant string, n int, gate time.Time, may int, in time.Duration) {
		t.Helper()
		got, at := s.Turn(tenant, n, gate, now, &spent)
		if got != may || in == 0 && !at.IsZero() && may == 0 || in > 0 && at.Sub(now) != in {
			t.Errorf("%s: %d of %d may go, or at %v; want %d, in %v", tenant, got, n, at, may, in)
		}
	}
	turn("any", 5, now.Add(time.Minute), 0, time.Minute)
	turn("any", 5, now, 2, 0)
	turn("any", 5, time.Time{}, 0, time.Second)
	spent[1] = 0
	turn("fast", 1, time.Time{}, 1, 0)
	turn("fast", 5, time.Time{}, 1, 0)
	turn("fast", 5, time.Time{}, 0, 100*time.Millisecond)
	if spent[1] != 0 {
		t.Error("a tenant without a rate has used it up")
	}
	spent = [2]float64{}
	turn("slow", 5, time.Time{}, 1, 0)
	turn("slow", 5, time.Time{}, 0, 500*time.Millisecond)
	s.Paused = true
	turn("fast", 1, time.Time{}, 0, 0)
}

func TestBoundsOfSettings(t *testing.T) {
	for i, s := range []Settings{{Max: -1}, {Weights: map[uint8]int{1: 0}}, {Weights: map[uint8]int{1: MaxWeight + 1}}, {Fair: "odd"},
		{Limit: Limit{PerSecond: -1}}, {Tenant: Limit{PerSecond: MaxRate + 1}}, {Key: Limit{Burst: -1}}, {Key: Limit{Burst: MaxRate + 1}}, {Limit: Limit{AtOnce: -1}}, {Limit: Limit{PerSecond: 9e-7}},
		{Tenants: map[string]Limit{"\xff": {}}}, {Tenants: map[string]Limit{"a": {AtOnce: -1}}}, {Completed: Keep{Count: -1}}, {Failed: Keep{Count: MaxKept + 1}}, {Failed: Keep{Age: -1}}} {
		if s.Check() == nil {
			t.Errorf("settings %d are taken: %+v", i, s)
		}
	}
	for i, s := range []Settings{{}, {Max: 1, Fair: ByKey}, {Fair: Unfair}, {Weights: map[uint8]int{1: 1, 2: MaxWeight}}, {Limit: Limit{PerSecond: 1e-6}}, {Limit: Limit{PerSecond: MaxRate, Burst: MaxRate, AtOnce: 1}},
		{Tenants: map[string]Limit{"a": {AtOnce: 1}}}, {Completed: Keep{Count: MaxKept, Age: 1}}} {
		if err := s.Check(); err != nil {
			t.Errorf("settings %d: %v", i, err)
		}
	}
	many := Settings{Tenants: map[string]Limit{}}
	for i := range MaxTenants {
		many.Tenants[fmt.Sprint(i)] = Limit{}
	}
	if err := many.Check(); err != nil {
		t.Error(err)
	}
	if many.Tenants["one more"] = (Limit{}); many.Check() == nil {
		t.Error("one tenant too many is taken")
	}
}

func TestWhatSettingsMean(t *testing.T) {
	s := Settings{Weights: map[uint8]int{2: 7}}
	for p, want := range map[uint8]int{0: 1, 1: 4, 2: 7, 3: 64, 4: 256, 5: 256, 255: 256} {
		if got := s.Weight(p); got != want {
			t.Errorf("priority %d weighs %d, want %d", p, got, want)
		}
	}
	if s.Capacity(9) != 9 || (&Settings{Max: 1}).Capacity(9) != 1 {
		t.Error("not its capacity")
	}
	if s.Keyed() || !(&Settings{Fair: ByKey}).Keyed() || !(&Settings{Key: Limit{AtOnce: 1}}).Keyed() {
		t.Error("not how its keys are kept apart")
	}
	for i, o := range []Settings{{Limit: Limit{AtOnce: 1}}, {Tenant: Limit{AtOnce: 1}}, {Key: Limit{AtOnce: 1}}, {Tenants: map[string]Limit{"a": {}}}} {
		if o.SameLimits(&Settings{}) || !o.SameLimits(&o) {
			t.Errorf("limits %d", i)
		}
	}
}

// One limit of one tenant is a configuration, and so is one job at once.
func TestTheLeastThatIsConfigured(t *testing.T) {
	var s Settings
	s.Configure(Configured{Limit: Limit{AtOnce: 1}, Tenants: map[string]Limit{"a": {AtOnce: 1}}})
	if s.Limit.AtOnce != 1 || s.Tenants["a"].AtOnce != 1 {
		t.Errorf("%+v", s)
	}
	s.Configure(Configured{Limit: Limit{PerSecond: .5}})
	if s.Limit != (Limit{PerSecond: .5}) || len(s.Tenants) != 0 {
		t.Errorf("%+v", s)
	}
	s.Configure(Configured{})
	if s.Limit != (Limit{}) {
		t.Errorf("%+v", s)
	}
}
