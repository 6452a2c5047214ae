package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestEventsAreTheSameForAll(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	if err := writeEvents(name, 1000); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, size := bytes.Split(bytes.TrimSpace(b), []byte{'\n'}), 0
	for i, m := range newEvents().take("q", 1000) {
		size += len(m.Payload)
		if n, err := number(m.Payload); n != i || err != nil {
			t.Fatalf("event %d has number %d, %v", i, n, err)
		}
		if !bytes.Equal(m.Payload, lines[i]) || !json.Valid(m.Payload) || m.ID == "" || m.Tenant == "" || m.To != "q" {
			t.Fatalf("event %d is %+v, and %q in the file", i, m, lines[i])
		}
	}
	if mean := size / 1000; mean < 480 || mean > 520 {
		t.Errorf("events have %d bytes; want 500", mean)
	}
	for _, bad := range []string{"", "{}", `{"n":1`, `{"n":x}`} {
		if n, err := number([]byte(bad)); err == nil {
			t.Errorf("%q has number %d", bad, n)
		}
	}
}

func TestJobsThatComeTwiceOrFromNowhereAreNoticed(t *testing.T) {
	s, jobs := newSeen(2), newEvents().take("q", 3)
	for _, m := range jobs[:1] {
		for range 2 {
			if _, err := s.one(m.Payload); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.n.Load() != 1 || s.twice.Load() != 1 {
		t.Errorf("%d jobs were seen, %d again; want 1 and 1", s.n.Load(), s.twice.Load())
	}
	if _, err := s.one(jobs[2].Payload); err == nil {
		t.Error("a job that nobody added is taken")
	}
	if _, err := s.one(jobs[1].Payload); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCallersAddEachJobOnce(t *testing.T) {
	for name, add := range map[string]func([]*tidemill.Message, func([]*tidemill.Message) error) error{"bulks": bulks, "singles": singles} {
		s := newSeen(2500)
		err := add(newEvents().take("q", 2500), func(jobs []*tidemill.Message) error {
			for _, m := range jobs {
				if _, err := s.one(m.Payload); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || s.n.Load() != 2500 || s.twice.Load() != 0 {
			t.Errorf("%s: %d of 2500 were added, %d more than once, %v", name, s.n.Load(), s.twice.Load(), err)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{[]float64{5, 5, 5, 5}, 1}, {[]float64{8, 0, 0, 0}, 0.25}, {[]float64{1, 3}, 0.8}, {nil, 0}} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("index of %v is %v, want %v", c.shares, got, c.want)
		}
	}
}

func TestRatiosAreToWhoDoesTheSameInTheRound(t *testing.T) {
	plain, limits := measurement{name: "tidemill redis: " + by100, same: by100}, measurement{name: "x", same: by100, without: "tidemill redis: " + by100}
	round := []*result{
		{Name: "limit: script a job, " + by100, Rate: 50}, {Name: "bullmq: " + by100, Rate: 20}, {Name: "bullmq: " + by10, Rate: 1},
		{Name: "asynq: " + by100, Rate: 10}, {Name: plain.name, Rate: 100},
	}
	r := round[4]
	if compare(round, plain, r); r.BullMQ != 5 || r.Asynq != 10 || r.Limit != 2 || r.Without != 0 {
		t.Errorf("ratios are %+v", r)
	}
	less := &result{Name: "x", Rate: 80}
	if compare(append(round, less), limits, less); less.Without != 0.8 {
		t.Errorf("with limits it has %v of the rate without, want 0.8", less.Without)
	}
	if compare(round[:1], measurement{name: round[0].Name, same: by100}, round[0]); round[0].Limit != 0 {
		t.Error("a limit is compared with itself")
	}
}

func TestASummaryHasTheLatencyOfAllRounds(t *testing.T) {
	s := summary("x", []*result{{Rate: 1, late: []time.Duration{time.Millisecond}}, {Rate: 3, late: []time.Duration{5 * time.Millisecond, 9 * time.Millisecond}}, {Rate: 2}})
	if s.Rate != 2 || s.Latency.P50 != 5 || s.Latency.Max != 9 {
		t.Errorf("summary is %+v, %+v", s, s.Latency)
	}
}
