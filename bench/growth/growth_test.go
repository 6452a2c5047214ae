package growth

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/bench/rounds"
)

func parsed(t *testing.T, o options) *options {
	t.Helper()
	flags, err := rounds.Parse("growth", 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Flags = flags
	return &o
}

// TestEachRoleIsMeasuredAsItGrows measures all stores on SQLite, at small sizes.
func TestEachRoleIsMeasuredAsItGrows(t *testing.T) {
	o := parsed(t, options{n: 100_000, persons: 100, turns: 2, of: every, on: onFile})
	if _, err := o.kinds(); err != nil {
		t.Fatal(err)
	}
	for _, k := range o.roles() {
		t.Run(k.name, func(t *testing.T) {
			if k.most, k.part = 1000, 40; k.name == "ledger" { // what expires first is known only of entries of several ms
				k.most = 20_000
			}
			var rows []*result
			if err := k.measure(t.Context(), o, t.TempDir(), func(r *result) { rows = append(rows, r) }); err != nil {
				t.Fatal(err)
			}
			work, read := 0, 0
			for _, r := range rows {
				switch {
				case r.Problem != "":
					t.Errorf("%s: %s", r.Name, r.Problem)
				case r.P50 > 0:
					read++
				case r.Rate <= 0 || r.RateOf <= 0 || r.CPU <= 0 || r.CPUOf <= 0 || r.Bytes <= 0 || r.Size <= 0:
					t.Errorf("a figure is missing: %+v", r)
				default:
					work++
				}
			}
			if sizes := len(k.at) + 1; work != sizes || k.name == "search" && read != 4*sizes {
				t.Errorf("%d rows are of work and %d of pages, at %d sizes", work, read, sizes)
			}
		})
	}
}

// fake is a side whose work takes as long and costs as much as it says.
type fake struct {
	has, closed int
	slow        time.Duration
	spent       time.Duration
	broken      error
	worked      *[]string
	name        string
}

func (f *fake) grow(_ context.Context, to int) error { f.has = max(f.has, to); return nil }
func (f *fake) count() int                           { return f.has }
func (f *fake) work(n int) func(context.Context) error {
	return func(context.Context) error {
		f.spent += f.slow
		f.has += n
		*f.worked = append(*f.worked, f.name)
		return f.broken
	}
}
func (f *fake) pages() []page                        { return nil }
func (f *fake) cost() time.Duration                  { return f.spent }
func (f *fake) bytes() (float64, error)              { return float64(10 * f.has), nil }
func (f *fake) rss() float64                         { return 1 }
func (f *fake) profile(string) (func() error, error) { return func() error { return nil }, nil }
func (f *fake) close() error                         { f.closed++; return nil }
func (f *fake) after(context.Context, *kind, string, func(*result)) error {
	return nil
}

func TestTurnsAreBesideAFreshOne(t *testing.T) {
	o := parsed(t, options{turns: 2})
	var worked []string
	var opened []*fake
	k := kind{name: "fakes", most: 1000, at: []float64{0.5, 1}, part: 10, turns: 2, open: func(_ context.Context, _ string, fresh bool) (side, error) {
		f := &fake{name: "big", slow: 30 * time.Millisecond, worked: &worked}
		if fresh {
			f.name, f.slow = "fresh", 10*time.Millisecond
		}
		opened = append(opened, f)
		return f, nil
	}}
	var rows []*result
	if err := k.measure(t.Context(), o, t.TempDir(), func(r *result) { rows = append(rows, r) }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(worked[:4], " "); got != "big fresh fresh big" {
		t.Errorf("the turns of a size are %s", got)
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
		if r.CPUOf != 3 || r.CPU != 3000 || r.FreshCPU != 1000 || r.Bytes != 10 || r.Problem != "" {
			t.Errorf("a row is %+v, want three times the 1,000 µs of the fresh one", r)
		}
	}
	if got := strings.Join(names, ", "); got != "fakes at 50, fakes at 500, fakes at 1000" {
		t.Errorf("rows are %s", got)
	}
	for i, f := range opened {
		if f.closed != 1 || i > 0 && f.has != 60 {
			t.Errorf("store %d was closed %d times, with %d", i, f.closed, f.has)
		}
	}
}

func TestWhatFailsIsAProblemOfItsRow(t *testing.T) {
	var worked []string
	k := kind{name: "fakes", most: 1000, at: []float64{1}, part: 10, turns: 1, open: func(context.Context, string, bool) (side, error) {
		return &fake{worked: &worked, broken: errors.New("it is broken")}, nil
	}}
	var rows []*result
	if err := k.measure(t.Context(), parsed(t, options{}), t.TempDir(), func(r *result) { rows = append(rows, r) }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Name != "fakes at 50" || rows[0].Problem != "it is broken" {
		t.Errorf("rows are %+v", rows)
	}
}

func TestWhatIsMeasuredWhere(t *testing.T) {
	for on, want := range map[string]string{onFile: "events queue deadletters ledger windows search", "redis": "queue deadletters ledger windows", "postgres": "deadletters ledger windows", onServers: "events"} {
		o := &options{n: 20_000_000, persons: 1_000_000, turns: 2, of: every, on: on}
		kinds, err := o.kinds()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		if got := strings.Join(names, " "); got != want || o.part != 200_000 {
			t.Errorf("on %s: %s, %d events a turn", on, got, o.part)
		}
	}
	for want, o := range map[string]options{
		"want all, none, or some of":      {n: 100_000, persons: 20, turns: 1, of: "jobs", on: onFile},
		"search are not on \"redis\"":     {n: 100_000, persons: 20, turns: 1, of: "queue,search", on: "redis"},
		"want sqlite, redis, postgres or": {n: 100_000, persons: 20, turns: 1, of: every, on: "disk"},
		"want at least":                   {n: 10_000, persons: 20, turns: 1, of: every, on: onFile},
	} {
		if _, err := o.kinds(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// rowsOfAPlot are few, and not in order.
func rowsOfAPlot() (rows []*result) {
	for i, size := range []float64{1_000_000, 20_000, 20_000_000} {
		rows = append(rows, &result{Common: rounds.Common{Name: fmt.Sprintf("events at %.0f", size)}, Of: ofEvents, Size: size, CPUOf: 1 + float64(i)/10},
			&result{Common: rounds.Common{Name: fmt.Sprintf("events at %.0f: events by <name>", size)}, Of: ofEvents, Size: size, P50: 2 + float64(i)})
	}
	return append(rows, &result{Common: rounds.Common{Name: "queue at 500"}, Of: "queue", Size: 500, CPUOf: 0.9},
		&result{Common: rounds.Common{Name: "queue at 900", Problem: "it is broken"}, Of: "queue", Size: 900},
		&result{Common: rounds.Common{Name: "events at 20000000: retention"}, Of: ofEvents, Size: 2e7, CPUOf: 7}, &result{Common: rounds.Common{Name: "events at 20000000: start"}, Of: ofEvents, Size: 2e7, P50: 999})
}

func TestAPlotHasEachPoint(t *testing.T) {
	svg := plot(rowsOfAPlot())
	var titles []string
	d := xml.NewDecoder(bytes.NewReader(svg))
	circle := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("it is not well-formed: %v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.StartElement:
			circle = circle && e.Name.Local == "title" || e.Name.Local == "circle"
		case xml.EndElement:
			circle = circle && e.Name.Local != "circle"
		case xml.CharData:
			if circle {
				titles = append(titles, string(e))
			}
		}
	}
	want := []string{"events at 20000: 1.10", "events at 1000000: 1.00", "events at 20000000: 1.20", "queue at 500: 0.90", "events by <name> at 20000: 3.00 ms", "events by <name> at 1000000: 2.00 ms", "events by <name> at 20000000: 4.00 ms"}
	if got := strings.Join(titles, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("its points are\n%s", got)
	}
	for _, text := range []string{"prefers-color-scheme: dark", `role="img"`, ">events, 1.20</text>", ">10 k</text>", ">10 M</text>"} {
		if !strings.Contains(string(svg), text) {
			t.Errorf("it has no %s:\n%s", text, svg)
		}
	}
}

func TestLabelsAreApart(t *testing.T) {
	if got := fmt.Sprint(apart([]float64{100, 10, 99, 98}, 16, 0, 110)); got != "[110 10 94 78]" {
		t.Errorf("they are at %s", got)
	}
}

func TestRowsOfEarlierRunsArePlotted(t *testing.T) {
	folder := t.TempDir()
	one, two := filepath.Join(folder, "one.jsonl"), filepath.Join(folder, "two.jsonl")
	for file, text := range map[string]string{one: `{"bench":"growth","rounds":1,"cores":2}` + "\n" + `{"name":"queue at 500","of":"queue","size":500,"cpu_of_fresh":0.9}` + "\n",
		two: `{"bench":"growth"}` + "\n" + `{"name":"ledger at 70","of":"ledger","size":70,"cpu_of_fresh":1.1}` + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(folder, "growth.svg")
	if err := run(t.Context(), []string{"-of", nothing, "-with", one + "," + two, "-plot", to}); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(to)
	if err != nil || !strings.Contains(string(svg), "queue at 500: 0.90") || !strings.Contains(string(svg), "ledger at 70: 1.10") {
		t.Errorf("%v: %s", err, svg)
	}
	if err := run(t.Context(), []string{"-of", nothing, "-with", filepath.Join(folder, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
