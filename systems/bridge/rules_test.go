package bridge

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestTopics(t *testing.T) {
	e := entry("device", "d1", "payload", `{"site":"north","n":12345678901234567890,"deep":{"x":1},"a.b":"dotted","empty":"","wild":"a/+"}`)
	for _, c := range []struct{ prefix, template, want string }{
		{"", "syslog", "syslog"},
		{"", "/syslog", "syslog"},
		{"cn-1", "/syslog/x", "cn-1/syslog/x"},
		{"/cn-1/", "syslog", "cn-1/syslog"},
		{"", "devices/{device}", "devices/d1"},
		{"p", "{site}/{device}/up", "p/north/d1/up"},
		{"", "n/{n}", "n/12345678901234567890"},
		{"", "d/{a.b}", "d/dotted"},
		{"", "d/{deep}", ""},
		{"", "d/{missing}", ""},
		{"", "d/{empty}", ""},
		{"", "d/{wild}", ""},
	} {
		tp, err := parseTopic(c.prefix, c.template)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tp.of(e)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%q under %q: %q, %v; want %q", c.template, c.prefix, got, err, c.want)
		}
	}
}

func FuzzAcks(f *testing.F) {
	for _, s := range []string{`{"id":"1-0","ack":true}`, ` { "id" : "1" , "ack" : false } `, `{"id":"a\"b","ack":true}`, `{"id":"","ack":true}`, `{"id":"1","ack":true,"x":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, ack, plain := plainAck(b)
		if !plain {
			return
		}
		var w struct {
			ID  *string `json:"id"`
			Ack *bool   `json:"ack"`
		}
		if err := json.Unmarshal(b, &w); err != nil || w.ID == nil || w.Ack == nil || *w.ID != string(id) || *w.Ack != ack {
			t.Fatalf("%q was read as %q %v, encoding/json says %v %+v", b, id, ack, err, w)
		}
	})
}

func TestScaling(t *testing.T) {
	now := time.Unix(0, 0)
	s := &Scaling{Min: 1, Max: 8, Step: 2, CPUHigh: 80, CPULow: 30, MemHigh: 80, MemLow: 30, Up: 30 * time.Second, Down: 2 * time.Minute, workers: 8,
		Usage: func() (float64, float64, error) { return 0, 0, nil }}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		after    time.Duration
		cpu, mem float64
		waiting  int
		want     int
	}{
		{0, 50, 10, 0, 8},
		{5 * time.Second, 10, 10, 0, 6}, // idle
		{5 * time.Second, 10, 10, 0, 6}, // not so soon again
		{2 * time.Minute, 10, 10, 0, 4},
		{29 * time.Second, 50, 10, 9, 4}, // work, but too soon
		{2 * time.Second, 50, 10, 9, 6},
		{31 * time.Second, 50, 10, 9, 8},
		{31 * time.Second, 50, 10, 9, 8},
		{5 * time.Minute, 85, 10, 9, 6}, // too hot
		{3 * time.Minute, 50, 90, 9, 4}, // too much memory
		{30 * time.Minute, 10, 50, 0, 4},
		{time.Hour, 10, 10, 0, 2}, {time.Hour, 10, 10, 0, 1}, {time.Hour, 10, 10, 0, 1},
	} {
		now = now.Add(step.after)
		if got := s.decide(now, step.cpu, step.mem, step.waiting); got != step.want {
			t.Fatalf("step %d: %d workers, want %d", i, got, step.want)
		}
	}
	for _, change := range []func(*Scaling){
		func(s *Scaling) { s.Min = 0 }, func(s *Scaling) { s.Min = 9 }, func(s *Scaling) { s.Step = 0 },
		func(s *Scaling) { s.CPULow = 80 }, func(s *Scaling) { s.MemHigh = 30 }, func(s *Scaling) { s.Usage = nil },
	} {
		wrong := *s
		if change(&wrong); wrong.Check() == nil {
			t.Errorf("%+v is not refused", wrong)
		}
	}
}

func TestScalingLooksAhead(t *testing.T) {
	now := time.Unix(0, 0)
	s := &Scaling{Min: 1, Max: 8, Step: 2, CPUHigh: 80, CPULow: 30, MemHigh: 80, MemLow: 30, workers: 8, Predict: true, History: 10, Horizon: 30 * time.Second}
	got := 8
	for cpu := 40.; cpu < 60; cpu += 5 { // 1% a second: 85% in half a minute
		got = s.decide(now, cpu, 10, 5)
		now = now.Add(5 * time.Second)
	}
	if got >= 8 {
		t.Errorf("%d workers while the load climbs towards the limit", got)
	}
	for range 1000 { // the history is bounded
		s.decide(now, 50, 10, 0)
		now = now.Add(time.Second)
	}
	if len(s.cpu.x) != 10 {
		t.Errorf("%d measurements are kept, want 10", len(s.cpu.x))
	}
}

func TestTheLoopSetsWorkers(t *testing.T) {
	with(t, func(o *Options, _ *Parts) { o.Workers = 4 }, func(w *world) {
		cpu := 10.
		s := &Scaling{Min: 1, Max: 4, Step: 1, CPUHigh: 80, CPULow: 30, MemHigh: 80, MemLow: 30,
			Usage: func() (float64, float64, error) { return cpu, 5, nil }}
		loop := s.Loop(w.bridge, time.Second)
		if err := loop.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.bridge.Pipeline.Stats().Workers; n != 3 {
			t.Errorf("%d workers, want 3", n)
		}
		s.Usage = func() (float64, float64, error) { return 0, 0, errors.New("not here") }
		if loop.Do(t.Context()) == nil {
			t.Error("an error of measuring is hidden")
		}
	})
}
