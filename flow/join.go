package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// crew runs the pipelines and loops of a system, which may come and go.
type crew struct {
	draining, resting context.Context // of pipelines, and of loops
	drain, rest       context.CancelFunc
	pipelines, loops  sync.WaitGroup
	stop              context.CancelFunc // of the whole system

	mu   sync.Mutex // guards errs
	errs []error

	hands map[any]*hand // by engine, or by the stats of a loop; guarded by the system's mu
}

// hand is a pipeline or loop at work.
type hand struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error // set before ended is closed
}

func newCrew(ctx context.Context, stop context.CancelFunc) *crew {
	c := &crew{stop: stop, hands: map[any]*hand{}}
	c.draining, c.drain = context.WithCancel(ctx)
	c.resting, c.rest = context.WithCancel(ctx)
	return c
}

// note notes an error, which ends the system.
func (c *crew) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	c.errs = append(c.errs, err)
	c.mu.Unlock()
	c.stop()
}

// run runs a pipeline that has started.
func (c *crew) run(e *Engine) {
	ctx, stop := context.WithCancel(c.draining)
	h := &hand{stop: stop, ended: make(chan struct{})}
	c.hands[e] = h
	c.pipelines.Go(func() {
		defer close(h.ended)
		if h.err = e.run(ctx); ctx.Err() == nil || c.draining.Err() != nil { // not one that left
			c.note(h.err)
		}
	})
}

// repeat runs a loop.
func (c *crew) repeat(s *System, l Loop, st *LoopStats, n, of int) {
	ctx, stop := context.WithCancel(c.resting)
	h := &hand{stop: stop, ended: make(chan struct{})}
	c.hands[st] = h
	c.loops.Go(func() {
		defer close(h.ended)
		s.loop(ctx, &l, st, n, of)
	})
}

// Join has pipelines and side jobs run with the others of a system: from now on where it runs, paused
// where it is paused, else with it. It refuses names that are there, side jobs that cannot run, and a
// system that stops, and then has changed nothing.
func (s *System) Join(pipelines []*Engine, loops []Loop) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.State()
	if state == Stopping || state == Stopped || state != Idle && s.crew == nil {
		return fmt.Errorf("system %s: it stops", s.p.Name)
	}
	for _, e := range pipelines {
		if slices.ContainsFunc(s.p.Pipelines, func(o *Engine) bool { return o.Name() == e.Name() }) {
			return fmt.Errorf("system %s: a pipeline %s is there", s.p.Name, e.Name())
		}
	}
	for i := range loops {
		if err := loops[i].check(s.p.Name); err != nil {
			return err
		}
	}
	for _, e := range pipelines {
		if s.each != nil {
			s.each(e)
		}
	}
	s.p.Pipelines, s.p.Loops = slices.Concat(s.p.Pipelines, pipelines), slices.Concat(s.p.Loops, loops)
	if s.crew == nil {
		return nil
	}
	for _, e := range pipelines {
		_ = e.life.start() // they are new
		if state == Paused {
			_ = e.life.pause()
		}
		s.crew.run(e)
	}
	for i, l := range loops {
		st := &LoopStats{Name: l.Name}
		s.loops = append(s.loops, st)
		s.crew.repeat(s, l, st, len(s.loops)-len(loops)+i, len(s.loops))
	}
	return nil
}

// Leave stops pipelines, and side jobs by their names, and returns when they have ended: each pipeline
// drained as Engine.Run says. Those that are not there are left out. Its error is of messages whose
// source could not be told how they ended; they come again.
func (s *System) Leave(pipelines []*Engine, loops []string) error {
	s.mu.Lock()
	var hands []*hand
	for i := len(s.loops) - 1; i >= 0 && s.crew != nil; i-- {
		if st := s.loops[i]; slices.Contains(loops, st.Name) {
			hands = append(hands, s.crew.leave(st))
			s.loops = slices.Delete(s.loops, i, i+1)
		}
	}
	if s.crew != nil {
		for _, e := range pipelines {
			hands = append(hands, s.crew.leave(e))
		}
	}
	s.p.Loops = slices.DeleteFunc(slices.Clone(s.p.Loops), func(l Loop) bool { return slices.Contains(loops, l.Name) })
	s.p.Pipelines = slices.DeleteFunc(slices.Clone(s.p.Pipelines), func(e *Engine) bool { return slices.Contains(pipelines, e) })
	s.mu.Unlock()
	var errs []error
	for _, h := range hands {
		if h != nil {
			<-h.ended
			errs = append(errs, h.err)
		}
	}
	return errors.Join(errs...)
}

// leave tells a pipeline or loop to end; nil: it is not there.
func (c *crew) leave(who any) *hand {
	h := c.hands[who]
	if h != nil {
		delete(c.hands, who)
		h.stop()
	}
	return h
}

// check refuses a loop that cannot run.
func (l *Loop) check(system string) error {
	if l.Every <= 0 || l.Do == nil {
		return fmt.Errorf("system %s: loop %s needs Every above zero and Do", system, l.Name)
	}
	return nil
}
