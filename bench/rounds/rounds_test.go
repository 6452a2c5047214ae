package rounds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type result struct {
	Common
	Rate  float64 `json:"per_second" better:"more"`
	CPU   float64 `json:"cpu_us,omitempty" better:"less"`
	Ratio float64 `json:"of_limit,omitempty" better:"more"`
}

func (r *result) Head() string { return "head" }
func (r *result) Line() string { return r.Name + " " + r.Problem }

func parsed(t *testing.T, args ...string) *Flags {
	t.Helper()
	o, err := Parse("test", 3, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestRoundsAreMadeInTurns measures a limit, a row with a second result and one that fails.
func TestRoundsAreMadeInTurns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kept.jsonl")
	var order []string
	rates := []float64{1, 9, 2}
	rows := []Row[result]{
		One("limit", func(_ context.Context, r *result) error {
			r.Rate = rates[strings.Count(strings.Join(order, ","), "limit")] * 2
			order = append(order, "limit")
			return nil
		}),
		{Name: "mine", Also: "second", Do: func(_ context.Context, r, also *result) error {
			r.Rate = rates[strings.Count(strings.Join(order, ","), "mine")]
			also.Rate, also.Late = 5, []time.Duration{time.Millisecond}
			order = append(order, "mine")
			return nil
		}},
		{Name: "once", Also: "never", Once: true, Do: func(_ context.Context, r, also *result) error {
			order = append(order, "once")
			return errors.New("one is left")
		}},
	}
	rows[1].Ratios = func(before []*result, r *result) { r.CPU = r.Rate / before[0].Rate }
	table := Table[result, *result]{Flags: parsed(t, "-json", "-out", file), Round: InTurns[result, *result](rows), Compare: func(round []*result, r *result) {
		if r.Name == "mine" {
			r.Ratio = r.Rate / round[0].Rate
		}
	}}
	if err := table.Measure(t.Context()); err == nil || !strings.Contains(err.Error(), "1 measurements had a problem") {
		t.Errorf("a row with a problem: %v", err)
	}
	if got := strings.Join(order, " "); got != "limit mine once limit mine limit mine" {
		t.Errorf("the order is %s", got)
	}
	k, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	if k.Bench != "test" || k.Rounds != 3 || k.Better["cpu_us"] != "less" || strings.Join(k.names, " ") != "limit mine second once" {
		t.Errorf("it kept %+v, rows %v", k.head, k.names)
	}
	if got := k.figures["mine"]; got["per_second"] != 2 || got["of_limit"] != 0.5 || got["cpu_us"] != 0.5 {
		t.Errorf("medians are %v, want 2 a second and half of the limit", got)
	}
	if got := k.figures["second"]; got["p50_ms"] != 1 {
		t.Errorf("its latency is %v, want 1 ms", got)
	}
}

func TestAMedianHasTheLatencyAndTheProblemsOfAllRounds(t *testing.T) {
	s := Median([]*result{{Common: Common{Round: 1, Name: "x", Late: []time.Duration{time.Millisecond}}, Rate: 1}, {Common: Common{Round: 2, Late: []time.Duration{5 * time.Millisecond, 9 * time.Millisecond}}, Rate: 3},
		{Common: Common{Round: 3, Problem: "one is left"}, Rate: 2}})
	if s.Rate != 2 || s.Latency.P50 != 5 || s.Latency.Max != 9 || s.Problem != "round 3: one is left" || s.Round != 0 || s.Name != "x" {
		t.Errorf("medians are %+v, %+v", s, s.Latency)
	}
	if b, err := json.Marshal(s); err != nil || !strings.Contains(string(b), `"per_second":2`) {
		t.Errorf("as JSON: %s, %v", b, err)
	}
}

func TestFlags(t *testing.T) {
	if o := parsed(t, "-run", "^redis", "-profile", "cpu"); !o.Wants("redis: add") || o.Wants("limit: redis") || o.Rounds != 3 || o.ProfileOf("redis: add, 10") != "cpu-redis-add-10.prof" {
		t.Errorf("%+v", o)
	}
	if o := parsed(t); !o.Wants("anything") || o.ProfileOf("x") != "" {
		t.Errorf("%+v", o)
	}
	for want, args := range map[string][]string{"-rounds is 0": {"-rounds", "0"}, "is no flag": {"redis"}, "missing closing": {"-run", "("}} {
		more := func(f *flag.FlagSet) { f.SetOutput(new(bytes.Buffer)) }
		if _, err := Parse("test", 3, args, more); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	none := Table[result, *result]{Flags: parsed(t, "-json"), Round: InTurns[result, *result](nil)}
	if err := none.Measure(t.Context()); err == nil {
		t.Error("a run of no row succeeds")
	}
}

// TestAComparisonNamesWhatGotWorse has each figure worse and better, and within five per cent.
func TestAComparisonNamesWhatGotWorse(t *testing.T) {
	folder := t.TempDir()
	kept := func(name string, rate, cpu, ratio float64, more ...any) string {
		file := filepath.Join(folder, name)
		o := parsed(t, "-out", file)
		if err := keep(t.Context(), o, append([]any{&result{Common: Common{Name: "mine"}, Rate: rate, CPU: cpu, Ratio: ratio}}, more...)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	before := kept("before", 100, 10, 0.5)
	for name, c := range map[string]struct {
		after string
		err   error
		says  string
	}{
		"the same":       {kept("same", 96, 10.4, 0.5), nil, "nothing got worse by more than 5%"},
		"slower":         {kept("slower", 90, 10, 0.5), ErrWorse, "mine: per_second worse by 10%: 100, now 90"},
		"dearer":         {kept("dearer", 100, 12, 0.5), ErrWorse, "mine: cpu_us worse by 20%: 10, now 12"},
		"of limit":       {kept("ratio", 100, 10, 0.4), ErrWorse, "mine: of_limit worse by 20%"},
		"better":         {kept("better", 200, 5, 0.5), nil, "mine: cpu_us better by 50%: 10, now 5"},
		"does not apply": {kept("none", 100, 0, 0), nil, "nothing got worse"},
	} {
		var out bytes.Buffer
		if err := Compare(&out, before, c.after); !errors.Is(err, c.err) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v, %s", name, err, out.String())
		}
	}
	var out bytes.Buffer
	two := kept("two", 1, 1, 1, &result{Common: Common{Name: "other"}, Rate: 1})
	if err := Compare(&out, two, kept("one", 1, 1, 1)); err != nil || !strings.Contains(out.String(), "other: not measured") {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := os.WriteFile(filepath.Join(folder, "bad"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"bad", "missing"} {
		if err := Compare(&out, before, filepath.Join(folder, file)); err == nil || errors.Is(err, ErrWorse) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
