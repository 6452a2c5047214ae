package policy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestRetry(t *testing.T) {
	for _, c := range []struct {
		name   string
		r      policy.Retry
		random float64
		want   []time.Duration // the waits before no try follows; the last repeats for ever below
		ever   bool
	}{
		{"the zero value never tries again", policy.Retry{}, 0, nil, false},
		{"no wait is the quickest retry", policy.Retry{Tries: 2}, .5, []time.Duration{0, 0}, false},
		{"linear waits grow by their base", policy.Retry{Tries: 4, Base: s}, .5, []time.Duration{s, 2 * s, 3 * s, 4 * s}, false},
		{"factor 1 is constant", policy.Retry{Tries: 3, Base: s, Factor: 1}, .5, []time.Duration{s, s, s}, false},
		{"exponential waits double", policy.Retry{Tries: 4, Base: s, Factor: 2}, .5, []time.Duration{s, 2 * s, 4 * s, 8 * s}, false},
		{"no wait is longer than Max", policy.Retry{Tries: 4, Base: s, Factor: 2, Max: 3 * s}, .5, []time.Duration{s, 2 * s, 3 * s, 3 * s}, false},
		{"for ever", policy.Retry{Tries: -1, Base: s, Factor: 2, Max: 3 * s}, .5, []time.Duration{s, 2 * s, 3 * s, 3 * s}, true},
		{"full jitter, least", policy.Retry{Tries: 2, Base: s, Jitter: policy.Full}, 0, []time.Duration{0, 0}, false},
		{"full jitter, middle", policy.Retry{Tries: 2, Base: s, Jitter: policy.Full}, .5, []time.Duration{500 * ms, s}, false},
		{"equal jitter, least", policy.Retry{Tries: 2, Base: s, Jitter: policy.Equal}, 0, []time.Duration{500 * ms, s}, false},
		{"equal jitter, middle", policy.Retry{Tries: 2, Base: s, Jitter: policy.Equal}, .5, []time.Duration{750 * ms, 1500 * ms}, false},
		{"jitter after Max", policy.Retry{Tries: 1, Base: 10 * s, Max: s, Jitter: policy.Equal}, .5, []time.Duration{750 * ms}, false},
		{"the warehouse: three tries in all", policy.Warehouse, .25, []time.Duration{1250 * ms, 2250 * ms}, false},
		{"the database", policy.Database, .25, []time.Duration{250 * ms, 450 * ms}, false},
		{"definitions", policy.Definitions, .5, []time.Duration{75 * ms, 125 * ms}, false},
		{"a single nanosecond is a wait", policy.Retry{Tries: 2, Base: 1}, .5, []time.Duration{1, 2}, false},
		{"and a limit", policy.Retry{Tries: 2, Base: s, Max: 1}, .5, []time.Duration{1, 1}, false},
		{"a partner, earliest", policy.Partner, 0, []time.Duration{750 * ms, 1500 * ms, 3 * s, 6 * s, 12 * s, 24 * s, 48 * s}, false},
		{"a partner, middle", policy.Partner, .5, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s}, false},
	} {
		var got []time.Duration
		for before := range 20 {
			d, more := c.r.Next(before, c.random)
			if c.ever && !more {
				t.Errorf("%s: no try follows failure %d", c.name, before+1)
			}
			if !more && d != 0 {
				t.Errorf("%s: no try follows after %v", c.name, d)
			}
			if !more || len(got) == len(c.want) && c.ever {
				break
			}
			got = append(got, d)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: waits %v, want %v", c.name, got, c.want)
		}
		if err := c.r.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRetryNeverOverflows(t *testing.T) {
	for _, r := range []policy.Retry{{Tries: -1, Base: s, Factor: 2}, {Tries: -1, Base: s}, {Tries: -1, Factor: 9}, {Tries: -1, Base: math.MaxInt64, Factor: 2, Jitter: policy.Added}} {
		for _, n := range []int{0, 1, 60, 1000, math.MaxInt - 1} {
			if d, more := r.Next(n, .99); d < 0 || d > 24*time.Hour || !more {
				t.Errorf("%+v: after %d failures %v, %v", r, n, d, more)
			}
		}
	}
}

func TestRetryRefusesNonsense(t *testing.T) {
	for _, r := range []policy.Retry{{Base: -1}, {Max: -1}, {Factor: -1}, {Factor: .5}, {Factor: math.NaN()}, {Spread: 2}, {Spread: -.1}, {Spread: math.NaN()}, {Tries: -1}} {
		if r.Check() == nil {
			t.Errorf("%+v was taken", r)
		}
	}
}

func TestWaitsForAPartnerAreBounded(t *testing.T) {
	if policy.Partner.Max != 64*s {
		t.Errorf("a partner's waits are limited to %v", policy.Partner.Max)
	}
}

func TestNamesAreReadBack(t *testing.T) {
	for j := policy.Exact; j <= policy.Around; j++ {
		text, _ := j.MarshalText()
		var back policy.Jitter
		if err := back.UnmarshalText(text); err != nil || back != j {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	for d := policy.Retrying; d <= policy.Pause; d++ {
		text, _ := d.MarshalText()
		var back policy.Do
		if err := back.UnmarshalText(text); err != nil || back != d {
			t.Errorf("%s: %v, %v", text, back, err)
		}
	}
	if new(policy.Jitter).UnmarshalText([]byte("x")) == nil || new(policy.Do).UnmarshalText([]byte("x")) == nil {
		t.Error("x was taken")
	}
}

// The whole table, as a page to read.
func TestTable(t *testing.T) {
	const page = `validation    dead
not_found     retry burns
business      dead
timeout       retry burns blames
rate_limit    retry
partner_error retry burns blames
credentials   pause
transient     retry burns blames
internal      retry burns
unknown       dead blames
`
	var b strings.Builder
	for k := tidemill.Validation; k <= tidemill.Unknown; k++ {
		r := policy.Default().For(k)
		fmt.Fprintf(&b, "%-13s %v", k, r.Do)
		if r.CountTry {
			b.WriteString(" burns")
		}
		if r.Blames {
			b.WriteString(" blames")
		}
		b.WriteString("\n")
	}
	if b.String() != page {
		t.Errorf("got\n%s\nwant\n%s", b.String(), page)
	}
	own := policy.Table{tidemill.Validation: {Do: policy.Skip}}
	if own.For(tidemill.Validation).Do != policy.Skip || own.For(tidemill.Business).Do != policy.Dead || own.Complete()[tidemill.Credentials].Do != policy.Pause {
		t.Error("a table needs only what is different")
	}
	if len(own) != 1 {
		t.Error("Complete changed the table")
	}
}

// step is what happens to a circuit: time passes, somebody asks, results come in.
type step struct {
	after      time.Duration
	enter      int           // ask for so many
	pass       int           // and get so many
	wait       time.Duration // or have to wait
	leave      string        // name of the pass the results are of: the step's number
	ok, failed int
	state      policy.State
}

func TestCircuit(t *testing.T) {
	b := policy.Breaker{Fails: 3, Open: 30 * s, Jitter: -1, Probes: 2, Closes: 2}
	closed, open, half := policy.Closed, policy.Open, policy.HalfOpen
	for _, c := range []struct {
		name  string
		b     policy.Breaker
		steps []step
	}{
		{"opens after failures in a row", b, []step{
			{enter: 5, pass: 5, leave: "0", failed: 1, state: closed},
			{enter: 5, pass: 5, leave: "1", failed: 9, state: closed},
			{enter: 5, pass: 5, leave: "2", failed: 1, state: open},
			{after: 10 * s, enter: 1, wait: 20 * s, state: open},
		}},
		{"a success ends the row", b, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "1", failed: 1, state: closed},
			{enter: 2, pass: 2, leave: "2", ok: 1, failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "3", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "4", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "5", failed: 1, state: open},
		}},
		{"what says nothing changes nothing", b, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "1", state: closed},
			{enter: 1, pass: 1, leave: "2", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "3", failed: 1, state: open},
		}},
		{"half-open grants its probes and no more", policy.Breaker{Fails: 1, Open: 30 * s, Jitter: -1, Probes: 2, Closes: 2}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: open},
			{after: 30 * s, enter: 9, pass: 2, state: half},
			{enter: 1, wait: 30 * s / 8, state: half},
			{leave: "1", ok: 2, state: closed},
			{enter: 100, pass: 100, state: closed},
		}},
		{"one failed probe opens it again", policy.Breaker{Fails: 1, Open: 30 * s, Jitter: -1, Probes: 2, Closes: 2}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: open},
			{after: 30 * s, enter: 1, pass: 1, state: half},
			{enter: 1, pass: 1, state: half},
			{leave: "1", ok: 1, state: half},
			{leave: "2", failed: 1, state: open},
			{enter: 1, wait: 30 * s, state: open},
		}},
		{"a probe that says nothing gives its permit back", policy.Breaker{Fails: 1, Open: 30 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: open},
			{after: 30 * s, enter: 1, pass: 1, leave: "1", state: half},
			{enter: 1, pass: 1, leave: "2", ok: 1, state: closed},
		}},
		{"late results of an older state are ignored", policy.Breaker{Fails: 1, Open: 30 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, state: closed},
			{enter: 1, pass: 1, state: closed},
			{leave: "0", failed: 1, state: open},
			{leave: "1", ok: 1, state: open},
			{after: 30 * s, enter: 1, pass: 1, state: half},
			{leave: "1", failed: 1, state: half},
			{leave: "4", ok: 1, state: closed},
		}},
		{"the zero value never opens", policy.Breaker{}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1000, state: closed},
			{enter: 1, pass: 1, leave: "1", failed: 1000, state: closed},
		}},
		{"a rate opens it, not before there is volume", policy.Breaker{Rate: .5, Volume: 20, Window: 10 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 19, state: closed},
			{enter: 1, pass: 1, leave: "1", ok: 20, state: closed},
			{enter: 1, pass: 1, leave: "2", failed: 1, state: open},
			{after: 29 * s, enter: 1, wait: s, state: open},
		}},
		{"a rate forgets what is older than its window", policy.Breaker{Rate: .5, Volume: 20, Window: 10 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 19, state: closed},
			{after: 11 * s, enter: 1, pass: 1, leave: "1", failed: 1, state: closed},
			{after: 9 * s, enter: 1, pass: 1, leave: "2", failed: 18, state: closed},
			{enter: 1, pass: 1, leave: "3", failed: 1, state: open},
		}},
		{"what lies a whole window back is forgotten", policy.Breaker{Rate: .5, Volume: 2, Window: 10, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 1, state: closed},
			{after: 10, enter: 1, pass: 1, leave: "1", failed: 1, state: closed},
			{after: 9, enter: 1, pass: 1, leave: "2", failed: 1, state: open},
		}},
		{"a rate counts successes", policy.Breaker{Rate: .5, Volume: 20, Window: 10 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", ok: 30, state: closed},
			{enter: 1, pass: 1, leave: "1", failed: 29, state: closed},
			{enter: 1, pass: 1, leave: "2", failed: 1, state: open},
		}},
		{"a rate of one is when all fail", policy.Breaker{Rate: 1, Volume: 2, Window: 10 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", ok: 1, state: closed},
			{enter: 1, pass: 1, leave: "1", failed: 9, state: closed},
			{after: 10 * s, enter: 1, pass: 1, leave: "2", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "3", failed: 1, state: open},
		}},
		{"a success opens nothing, whatever the rate", policy.Breaker{Rate: .5, Volume: 20, Window: 10 * s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 19, state: closed},
			{enter: 1, pass: 1, leave: "1", ok: 1, state: closed},
			{enter: 1, pass: 1, leave: "2", failed: 1, state: open},
		}},
		{"what was counted before it closed is forgotten", policy.Breaker{Rate: .5, Volume: 2, Window: 10 * s, Open: s, Jitter: -1}, []step{
			{enter: 1, pass: 1, leave: "0", failed: 2, state: open},
			{after: s, enter: 1, pass: 1, leave: "1", ok: 1, state: closed},
			{enter: 1, pass: 1, leave: "2", failed: 1, state: closed},
			{enter: 1, pass: 1, leave: "3", failed: 1, state: open},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1_700_000_000, 0)
			k := c.b.Circuit()
			passes := map[string]policy.Pass{}
			probing := 0
			for i, st := range c.steps {
				now = now.Add(st.after)
				before, _ := k.State(now)
				if st.enter > 0 {
					p, wait := k.Enter(now, st.enter)
					if p.N != st.pass || wait != st.wait {
						t.Fatalf("step %d: asked for %d, got %d and wait %v; want %d and %v", i, st.enter, p.N, wait, st.pass, st.wait)
					}
					if p.Probe != (before == half && p.N > 0) {
						t.Errorf("step %d: %v, and a probe: %v", i, before, p.Probe)
					}
					if p.Probe {
						probing += p.N
					}
					passes[fmt.Sprint(i)] = p
				}
				changed := false
				if st.leave != "" {
					changed = k.Leave(now, passes[st.leave], st.ok, st.failed, .5)
					if passes[st.leave].Probe {
						probing -= passes[st.leave].N
					}
				}
				got, until := k.State(now)
				if got != st.state || changed != (got != before) {
					t.Fatalf("step %d: %v after %v, want %v; that it changed: %v", i, got, before, st.state, changed)
				}
				if until.After(now) != (got == open) {
					t.Errorf("step %d: %v until %v", i, got, until)
				}
				want := map[policy.State]int{closed: -1, open: 0, half: k.Breaker().Probes - probing}[got]
				if n := k.Permits(now); n != want {
					t.Errorf("step %d: %v, permits for %d, want %d", i, got, n, want)
				}
			}
		})
	}
}

func TestBreakerDefaults(t *testing.T) {
	want := policy.Breaker{Volume: 20, Window: 10 * s, Open: 30 * s, Jitter: .1, Probes: 1, Closes: 1}
	if got := (policy.Breaker{}).Circuit().Breaker(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCircuitByHandAndHold(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	k := policy.Breaker{}.Circuit()
	k.Hold(now.Add(5 * s))
	k.Hold(now.Add(2 * s)) // an earlier end is ignored
	if p, wait := k.Enter(now, 3); p.N != 0 || wait != 5*s || k.Permits(now) != 0 {
		t.Errorf("held: %+v, %v, %d", p, wait, k.Permits(now))
	}
	if st, until := k.State(now); st != policy.Closed || !until.Equal(now.Add(5*s)) {
		t.Errorf("held: %v until %v", st, until)
	}
	if p, _ := k.Enter(now.Add(5*s), 3); p.N != 3 || k.Permits(now.Add(5*s)) != -1 {
		t.Errorf("after the hold: %+v", p)
	}
	k.Trip(now, 10*s)
	if p, _ := k.Enter(now.Add(10*s), 1); p.N != 1 || !p.Probe {
		t.Errorf("after the cool-down: %+v", p)
	}
	k.Trip(now, 10*s)
	if k.Permits(now) != 0 || k.Permits(now.Add(10*s)) != 1 {
		t.Error("tripped: want no permits, and one after")
	}
	k.Reset()
	if st, until := k.State(now); st != policy.Closed || !until.IsZero() {
		t.Errorf("reset: %v until %v", st, until)
	}
}

func TestCoolDownHasJitter(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for random, want := range map[float64]time.Duration{0: 30 * s, .5: 31500 * ms} {
		k := policy.Breaker{Fails: 1}.Circuit()
		p, _ := k.Enter(now, 1)
		if !k.Leave(now, p, 0, 1, random) {
			t.Error("the change was not told")
		}
		if _, wait := k.Enter(now, 1); wait != want {
			t.Errorf("random %v: %v, want %v", random, wait, want)
		}
	}
}

func TestBreakerRefusesNonsense(t *testing.T) {
	for _, b := range []policy.Breaker{{Fails: -1}, {Rate: 50}, {Rate: -1}, {Open: -1}, {Probes: -1},
		{Volume: -1}, {Closes: -1}, {Window: -1}, {Rate: 1.01}, {Rate: math.NaN()}} {
		if b.Check() == nil {
			t.Errorf("%+v was taken", b)
		}
	}
	if (policy.Limiter{Rate: -1}).Check() == nil || (policy.Limiter{Rate: math.NaN()}).Check() == nil {
		t.Error("a limit below zero was taken, or one that is no number")
	}
	if (policy.Limiter{Burst: -1}).Check() == nil {
		t.Error("a burst below zero was taken")
	}
}

// Zero is a default everywhere, and the largest values there are are fine.
func TestBoundsAreTaken(t *testing.T) {
	for _, c := range []interface{ Check() error }{policy.Breaker{}, policy.Breaker{Rate: 1}, policy.Limiter{},
		policy.Retry{}, policy.Retry{Spread: 1}, policy.Retry{Factor: 1}, policy.Retry{Tries: -1, Base: 1}} {
		if err := c.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestBucket(t *testing.T) {
	type take struct {
		after time.Duration
		n     int
		want  time.Duration
	}
	for _, c := range []struct {
		name  string
		l     policy.Limiter
		takes []take
	}{
		{"no limit", policy.Limiter{}, []take{{0, 1_000_000, 0}}},
		{"a burst is free, then a rate", policy.Limiter{Rate: 10, Burst: 3}, []take{{0, 3, 0}, {0, 1, 100 * ms}, {0, 1, 200 * ms}, {200 * ms, 1, 100 * ms}}},
		{"rest fills up to the burst and no more", policy.Limiter{Rate: 10, Burst: 3}, []take{{0, 3, 0}, {time.Hour, 3, 0}, {0, 1, 100 * ms}}},
		{"a batch beyond the burst owes", policy.Limiter{Rate: 10, Burst: 3}, []take{{0, 13, s}, {s, 0, 0}, {0, 1, 100 * ms}}},
		{"the burst is a second's by default", policy.Limiter{Rate: 10}, []take{{0, 10, 0}, {0, 1, 100 * ms}}},
		{"one a second", policy.Limiter{Rate: 1, Burst: 1}, []take{{0, 1, 0}, {0, 1, s}}},
		{"less than one a second", policy.Limiter{Rate: .5}, []take{{0, 1, 0}, {0, 1, 2 * s}}},
		{"a clock that goes back gives nothing", policy.Limiter{Rate: 10, Burst: 1}, []take{{0, 1, 0}, {-time.Hour, 1, 100 * ms}, {time.Hour, 1, 200 * ms}}},
	} {
		now, b := time.Unix(1_700_000_000, 0), c.l.Bucket()
		for i, x := range c.takes {
			now = now.Add(x.after)
			if got := b.Take(now, x.n); (got-x.want).Abs() > time.Microsecond || x.want == 0 && got != 0 {
				t.Errorf("%s: take %d: wait %v, want %v", c.name, i, got, x.want)
			}
		}
	}
}

// A kind that no table names is transient: it is tried again, counts a try and blames the
// destination.
func TestAKindThatNobodyNamesIsTransient(t *testing.T) {
	for _, table := range []policy.Table{nil, {}, policy.Default()} {
		if got, want := table.For(tidemill.Kind(200)), (policy.Rule{Do: policy.Retrying, CountTry: true, Blames: true}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
