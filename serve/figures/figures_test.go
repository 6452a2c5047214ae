package figures

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// start is a whole step of both spans.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func one(c Count) map[string]Count { return map[string]Count{"q": c} }

func TestAStepHasWhatWasCountedInIt(t *testing.T) {
	s := New()
	s.Sample(start, one(Count{In: 100, Out: 50, Failed: 7}))
	if points, since, ok := s.History("q", Hour); !ok || len(points) != 0 || !since.Equal(start) {
		t.Fatalf("after one sample: %v since %v, %v; what was counted before nobody saw", points, since, ok)
	}
	if r, ok := s.Rates("q"); ok {
		t.Fatalf("rates of one sample: %v", r)
	}
	s.Sample(start.Add(Step), one(Count{In: 130, Out: 60, Failed: 8, Oldest: 1500 * time.Millisecond}))
	s.Sample(start.Add(2*Step), one(Count{In: 130, Out: 90, Failed: 8, Oldest: time.Second}))
	want := []Point{{start.Add(Step), 30, 10, 1, 1500 * time.Millisecond}, {start.Add(2 * Step), 0, 30, 0, time.Second}}
	if points, _, _ := s.History("q", Hour); fmt.Sprint(points) != fmt.Sprint(want) {
		t.Errorf("steps\n%v\nwant\n%v", points, want)
	}
	if points, _, _ := s.History("q", Day); fmt.Sprint(points) != fmt.Sprint([]Point{{start, 30, 40, 1, 1500 * time.Millisecond}}) {
		t.Errorf("steps of the day: %v", points)
	}
	if r, ok := s.Rates("q"); !ok || r != (Rates{1.5, 2, 0.05}) {
		t.Errorf("rates %v, %v", r, ok)
	}
	if _, _, ok := s.History("other", Hour); ok {
		t.Error("there is a series that nobody sampled")
	}
}

// Samples come a little late each time, so that a step is passed over: no event is lost by that, and
// none is counted twice.
func TestSamplesThatComeLateLoseNothing(t *testing.T) {
	s, at, n := New(), start, uint64(0)
	for range 300 {
		s.Sample(at, one(Count{In: n}))
		at, n = at.Add(Step+137*time.Millisecond), n+1000
	}
	points, _, _ := s.History("q", Hour)
	sum := uint64(0)
	for i, p := range points {
		sum += uint64(p.In)
		if i > 0 && p.At.Sub(points[i-1].At) != Step {
			t.Fatalf("between %v and %v a step is missing", points[i-1].At, p.At)
		}
		if p.In < 499 || p.In > 2000 {
			t.Errorf("%d in the step of %v", p.In, p.At)
		}
	}
	if sum != n-1000 {
		t.Errorf("%d in all steps, %d were counted", sum, n-1000)
	}
}

func TestNothingIsKnownWhileNobodyLooked(t *testing.T) {
	s := New()
	s.Sample(start, one(Count{In: 10}))
	s.Sample(start.Add(Step), one(Count{In: 20}))
	s.Sample(start.Add(5*time.Minute), one(Count{In: 5000})) // a store was away
	s.Sample(start.Add(5*time.Minute+Step), one(Count{In: 5030}))
	points, _, _ := s.History("q", Hour)
	if len(points) != 2 || points[0].In != 10 || points[1].In != 30 {
		t.Errorf("steps %v", points)
	}
	s.Sample(start.Add(5*time.Minute+2*Step), one(Count{In: 3})) // another store, which counts anew
	s.Sample(start.Add(5*time.Minute+3*Step), one(Count{In: 4}))
	if points, _, _ = s.History("q", Hour); len(points) != 3 || points[2].In != 1 {
		t.Errorf("steps %v", points)
	}
	s.Sample(start.Add(3*time.Hour), one(Count{In: 9}))
	if points, _, _ = s.History("q", Hour); len(points) != 0 {
		t.Errorf("steps of hours ago: %v", points)
	}
	if r, ok := s.Rates("q"); ok {
		t.Errorf("rates of hours ago: %v", r)
	}
}

func TestAnHourAndADayAreKept(t *testing.T) {
	s := New()
	for i := range 26 * 360 {
		s.Sample(start.Add(time.Duration(i)*Step), one(Count{In: uint64(i)}))
	}
	hour, _, _ := s.History("q", Hour)
	day, _, _ := s.History("q", Day)
	if len(hour) != 360 || len(day) != 288 {
		t.Fatalf("%d steps of an hour and %d of a day", len(hour), len(day))
	}
	if end := start.Add(26*time.Hour - Step); !hour[359].At.Equal(end) || !hour[0].At.Equal(end.Add(-359*Step)) || day[100].In != 30 {
		t.Errorf("from %v to %v; a step of the day has %d", hour[0].At, hour[359].At, day[100].In)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	s, many := New(), map[string]Count{}
	for i := range Most + 10 {
		many[fmt.Sprint(i)] = Count{}
	}
	s.Sample(start, many)
	if names, left := s.Names(); len(names) != Most || left != 10 {
		t.Errorf("%d series, %d left out", len(names), left)
	}
	s.Sample(start.Add(25*time.Hour), one(Count{}))
	if names, left := s.Names(); fmt.Sprint(names) != "[q]" || left != 0 {
		t.Errorf("a day later: %d series, %d left out", len(names), left)
	}
}

func TestAllSeriesTakeAtMost16MB(t *testing.T) {
	s, many := New(), map[string]Count{}
	for i := range Most {
		many[fmt.Sprint("queue:", i)] = Count{}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s.Sample(start, many)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 16<<20 {
		t.Errorf("%d series take %d bytes", Most, took)
	}
	runtime.KeepAlive(s)
}

// What a sample costs without the reading of counters.
func BenchmarkSampleOf100(b *testing.B) {
	s, many, at := New(), map[string]Count{}, start
	for i := range 100 {
		many[fmt.Sprint("queue:", i)] = Count{}
	}
	for b.Loop() {
		at = at.Add(Step)
		for name, c := range many {
			c.In++
			many[name] = c
		}
		s.Sample(at, many)
	}
}
