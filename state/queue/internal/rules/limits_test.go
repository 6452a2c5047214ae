package rules

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/queue"
)

func TestTheDeepestTenantIsFirst(t *testing.T) {
	for _, c := range []struct {
		a, b queue.Depth
		want int
	}{{queue.Depth{Tenant: "a", Waiting: 2}, queue.Depth{Tenant: "b", Waiting: 1}, -1}, {queue.Depth{Tenant: "a", Waiting: 1}, queue.Depth{Tenant: "b", Waiting: 2}, 1},
		{queue.Depth{Tenant: "a", Waiting: 1}, queue.Depth{Tenant: "b", Waiting: 1}, -1}, {queue.Depth{Tenant: "b"}, queue.Depth{Tenant: "a"}, 1}, {queue.Depth{Tenant: "a"}, queue.Depth{Tenant: "a"}, 0}} {
		if got := Deeper(c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: %d", c.a, c.b, got)
		}
	}
}

// How many may go at once after a pause, and how long one takes.
func TestBursts(t *testing.T) {
	for _, c := range []struct {
		l     queue.Limit
		ahead int
		each  float64
	}{{queue.Limit{}, 1, 0}, {queue.Limit{PerSecond: 1}, 1, 1e6}, {queue.Limit{PerSecond: 10}, 1, 1e5}, {queue.Limit{PerSecond: 19}, 1, 1e6 / 19}, {queue.Limit{PerSecond: 20}, 2, 5e4}, {queue.Limit{PerSecond: 1000}, 100, 1000},
		{queue.Limit{PerSecond: 1000, Burst: 1}, 1, 1000}, {queue.Limit{PerSecond: 1, Burst: 7}, 7, 1e6}, {queue.Limit{PerSecond: .5}, 1, 2e6}} {
		if Ahead(c.l) != c.ahead || Interval(c.l) != c.each {
			t.Errorf("%+v: %d at once, one in %v µs; want %d, %v", c.l, Ahead(c.l), Interval(c.l), c.ahead, c.each)
		}
	}
}

// What a limit lets go, by what is out and by what was used up.
func TestWhatALimitLetsGo(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	rate := queue.Limit{PerSecond: 10, Burst: 3}
	used := func(n int) float64 { return Spend(rate, 0, n, now) }
	for _, c := range []struct {
		why       string
		l         queue.Limit
		out, most int
		spent     float64
		n         int
		in        time.Duration // when one may go; 0: an end makes room, or some may
	}{
		{"no limit", queue.Limit{}, 99, 5, 0, 5, 0},
		{"at once, none out", queue.Limit{AtOnce: 3}, 0, 5, 0, 3, 0}, {"at once, some out", queue.Limit{AtOnce: 3}, 2, 5, 0, 1, 0}, {"at once, all out", queue.Limit{AtOnce: 3}, 3, 5, 0, 0, 0},
		{"at once, more out than may be", queue.Limit{AtOnce: 3}, 9, 5, 0, 0, 0}, {"fewer are asked for", queue.Limit{AtOnce: 3}, 0, 2, 0, 2, 0},
		{"a rate, unused", rate, 0, 9, 0, 3, 0}, {"fewer than the burst", rate, 0, 2, 0, 2, 0}, {"a rate, partly used", rate, 0, 9, used(2), 1, 0},
		{"a rate, used up", rate, 0, 9, used(3), 0, 100 * time.Millisecond}, {"a rate, one more than used up", rate, 0, 9, used(4), 0, 200 * time.Millisecond},
		{"both, all out", queue.Limit{PerSecond: 10, Burst: 3, AtOnce: 1}, 1, 9, used(3), 0, 0},
	} {
		n, at := Allow(c.l, c.out, c.most, c.spent, now)
		if n != c.n || c.in == 0 && !at.IsZero() || c.in > 0 && at.Sub(now) != c.in {
			t.Errorf("%s: %d may go, or one at %v; want %d, in %v", c.why, n, at, c.n, c.in)
		}
	}
	if later := now.Add(time.Second); Spend(rate, used(3), 1, later) != float64(later.UnixMicro())+1e5 {
		t.Error("what was used up a second ago is still used up")
	}
}

// Turns of a queue outside a store: its gate, its rate and the tenant's.
func TestTurnsOfAQueue(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	s := queue.Settings{Limit: queue.Limit{PerSecond: 10, Burst: 4, AtOnce: 1}, Tenant: queue.Limit{PerSecond: 1, Burst: 2}, Tenants: map[string]queue.Limit{"fast": {}, "slow": {PerSecond: 2, Burst: 1}}}
	var spent [2]float64
	turn := func(tenant string, n int, gate time.Time, may int, in time.Duration) {
		t.Helper()
		got, at := Turn(&s, tenant, n, gate, now, &spent)
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

func TestWhatSettingsMean(t *testing.T) {
	s := queue.Settings{Weights: map[uint8]int{2: 7}}
	for p, want := range map[uint8]int{0: 1, 1: 4, 2: 7, 3: 64, 4: 256, 5: 256, 255: 256} {
		if got := Weight(&s, p); got != want {
			t.Errorf("priority %d weighs %d, want %d", p, got, want)
		}
	}
	if Capacity(&s, 9) != 9 || Capacity(&queue.Settings{Max: 1}, 9) != 1 {
		t.Error("not its capacity")
	}
	if Keyed(&s) || !Keyed(&queue.Settings{Fair: queue.ByKey}) || !Keyed(&queue.Settings{Key: queue.Limit{AtOnce: 1}}) {
		t.Error("not how its keys are kept apart")
	}
	for i, o := range []queue.Settings{{Limit: queue.Limit{AtOnce: 1}}, {Tenant: queue.Limit{AtOnce: 1}}, {Key: queue.Limit{AtOnce: 1}}, {Tenants: map[string]queue.Limit{"a": {}}}} {
		if SameLimits(&o, &queue.Settings{}) || !SameLimits(&o, &o) {
			t.Errorf("limits %d", i)
		}
	}
}
