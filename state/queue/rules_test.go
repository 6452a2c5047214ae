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
		{FullError("q"), tidemill.RateLimit, nil, "full"}, {ClosedError("q"), tidemill.RateLimit, ErrClosed, `"q"`},
		{NotFound(n), tidemill.NotFound, ErrNotFound, `"1"`}, {Out(n), tidemill.Transient, ErrOut, `"t"`},
	} {
		if tidemill.KindOf(c.err) != c.kind || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(fmt.Sprint(c.err), c.says) {
			t.Errorf("%v is of kind %v; want %v, %v and %q", c.err, tidemill.KindOf(c.err), c.kind, c.is, c.says)
		}
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
