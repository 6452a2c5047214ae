package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill/flow"
)

// Scaling sets the number of publishing workers by the load of the process: fewer while it is
// high, more while it is not and entries wait, fewer again while it is low and none do. A
// bridge begins with the most: idle workers cost nothing.
type Scaling struct {
	Min, Max, Step  int
	CPUHigh, CPULow float64       // percent of the cores
	MemHigh, MemLow float64       // percent of the memory
	Up, Down        time.Duration // least time between two changes in that direction
	Predict         bool          // by the load that the trend of the last History measurements predicts at Horizon
	History         int
	Horizon         time.Duration
	Usage           func() (cpu, mem float64, err error) // percent; an error says what cannot be measured here
	changed         time.Time
	workers         int
	cpu, mem        trend
}

// Check refuses nonsense.
func (s *Scaling) Check() error {
	switch {
	case s.Min < 1 || s.Max < s.Min || s.Step < 1:
		return errors.New("scaling: want 1 or more workers at least, no more than at most, and a step of 1 or more")
	case s.CPUHigh <= s.CPULow || s.MemHigh <= s.MemLow:
		return errors.New("scaling: a high load has to be above a low one")
	case s.Usage == nil:
		return errors.New("scaling: it needs Usage")
	}
	return nil
}

// Loop makes the side job that measures and decides, every so often.
func (s *Scaling) Loop(b *Bridge, every time.Duration) flow.Loop {
	s.workers = min(s.Max, b.o.Workers)
	return flow.Loop{Name: "workers", Every: every, Do: func(context.Context) error {
		cpu, mem, err := s.Usage()
		if err != nil {
			return err
		}
		st := b.Pipeline.Stats()
		was := s.workers
		if s.decide(b.o.Now(), cpu, mem, st.Buffered) == was {
			return nil
		}
		// Logged when the bridge took more or fewer workers for the load of the process.
		b.o.Log.Info("the number of workers follows the load", "from", was, "to", s.workers, "cpu", cpu, "memory", mem, "waiting", st.Buffered)
		return b.Pipeline.Workers(s.workers)
	}}
}

// decide adds one measurement and returns the number of workers.
func (s *Scaling) decide(now time.Time, cpu, mem float64, waiting int) int {
	if s.Predict {
		cpu = max(cpu, s.cpu.at(now, cpu, s.History, s.Horizon))
		mem = max(mem, s.mem.at(now, mem, s.History, s.Horizon))
	}
	since := now.Sub(s.changed)
	first := s.changed.IsZero()
	to := s.workers
	switch {
	case cpu >= s.CPUHigh || mem >= s.MemHigh:
		if first || since >= s.Down {
			to = max(s.workers-s.Step, s.Min)
		}
	case waiting > 0:
		if first || since >= s.Up {
			to = min(s.workers+s.Step, s.Max)
		}
	case cpu <= s.CPULow && mem <= s.MemLow:
		if first || since >= s.Down {
			to = max(s.workers-s.Step, s.Min)
		}
	}
	if to != s.workers {
		s.workers, s.changed = to, now
	}
	return to
}

// trend is a line through the last measurements.
type trend struct {
	at0    time.Time
	x, y   []float64 // seconds since at0, value
	oldest int
}

// at adds a value and returns the line's prediction: least squares.
func (t *trend) at(now time.Time, value float64, most int, horizon time.Duration) float64 {
	if t.at0.IsZero() {
		t.at0 = now
	}
	x := now.Sub(t.at0).Seconds()
	if len(t.x) < most {
		t.x, t.y = append(t.x, x), append(t.y, value)
	} else {
		t.x[t.oldest], t.y[t.oldest] = x, value
		t.oldest = (t.oldest + 1) % most
	}
	n := float64(len(t.x))
	if n < 3 {
		return value
	}
	var sx, sy, sxx, sxy float64
	for i := range t.x {
		sx, sy, sxx, sxy = sx+t.x[i], sy+t.y[i], sxx+t.x[i]*t.x[i], sxy+t.x[i]*t.y[i]
	}
	d := n*sxx - sx*sx
	if d == 0 {
		return value
	}
	slope := (n*sxy - sx*sy) / d
	return (sy-slope*sx)/n + slope*(x+horizon.Seconds())
}
