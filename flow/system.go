package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// A Loop runs a side job at intervals: sweep, claim, relay, clean up.
type Loop struct {
	Name    string
	Every   time.Duration // from the end of one run to the start of the next
	AtStart bool          // the first run is at once, not after Every
	Do      func(context.Context) error
}

// LoopStats is the state of one loop.
type LoopStats struct {
	Name   string
	Runs   uint64 // also the failed ones
	Failed uint64
	Last   error // of the last run; nil: it succeeded
	LastAt time.Time
}

// A Listener lets something in from outside. It returns when ctx ends and what it has begun
// is done.
type Listener = func(context.Context) error

// SystemParts are what a System runs. All but Name may be missing.
type SystemParts struct {
	Name      string
	Begin     []func(context.Context) error // done before everything else, in order; each may last until ctx ends
	Listeners []Listener
	Pipelines []*Engine
	Loops     []Loop
	Close     []func() error // done after everything else, in order

	Log *slog.Logger     // nil: discarded
	Now func() time.Time // nil: time.Now
}

// A System runs the listeners, pipelines and side jobs that belong together, and stops them
// in order. Make it with NewSystem.
type System struct {
	p     SystemParts // its pipelines and loops are guarded by mu
	life  lifecycle
	mu    sync.Mutex // guards what follows
	loops []*LoopStats
	wake  chan struct{} // closed when loops are to check the state again
	crew  *crew         // nil: it does not run
	each  func(*Engine) // is shown each pipeline that joins; nil: nobody
}

// NewSystem makes a system. Run says what is wrong with its parts.
func NewSystem(p SystemParts) *System {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	return &System{p: p}
}

// Name of the system.
func (s *System) Name() string { return s.p.Name }

// Pipelines are all of them, in the order in which they were given.
func (s *System) Pipelines() []*Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.p.Pipelines)
}

// Each calls do with every pipeline: with those that are there now, and with those that join before
// they run. Only the last do is called.
func (s *System) Each(do func(*Engine)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.p.Pipelines {
		do(e)
	}
	s.each = do
}

// Begins says whether something has to be done before the pipelines run, which may take long.
func (s *System) Begins() bool { return len(s.p.Begin) > 0 }

// Listen adds a listener before Run.
func (s *System) Listen(l Listener) { s.p.Listeners = append(s.p.Listeners, l) }

// Repeat adds side jobs before Run; see Join.
func (s *System) Repeat(l ...Loop) { s.p.Loops = append(s.p.Loops, l...) }

// Run runs Begin, then everything until ctx ends, or until a listener or a pipeline fails. Then it
// stops in this order: listeners; pipelines, each drained as Engine.Run says; loops; then Close,
// in order. It takes each step whatever the result of the one before, and joins their errors. A
// pipeline that ends with an error ends the system.
func (s *System) Run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	if begun, err := s.begin(ctx); !begun {
		return errors.Join(err, s.closeAll())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := newCrew(context.WithoutCancel(ctx), stop)
	defer c.drain()
	defer c.rest()
	if err := s.start(c); err != nil {
		return err
	}
	var listeners sync.WaitGroup
	for _, listen := range s.p.Listeners {
		listeners.Go(func() { c.note(s.open(ctx, listen)) })
	}
	<-ctx.Done()
	s.life.stopping()
	listeners.Wait()
	s.mu.Lock()
	s.crew = nil // nothing joins any more
	s.mu.Unlock()
	c.drain()
	c.pipelines.Wait()
	c.rest()
	c.loops.Wait()
	c.note(s.closeAll())
	s.life.stopped()
	if err := errors.Join(c.errs...); err != nil {
		return fmt.Errorf("system %s: %w", s.p.Name, err)
	}
	return nil
}

// start starts pipelines and loops.
func (s *System) start(c *crew) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.p.Pipelines { // here, so that Pause finds them running
		if err := e.life.start(); err != nil {
			return fmt.Errorf("system %s: pipeline %s: %w", s.p.Name, e.Name(), err)
		}
	}
	if err := s.life.start(); err != nil {
		return fmt.Errorf("system %s: %w", s.p.Name, err)
	}
	for _, e := range s.p.Pipelines {
		c.run(e)
	}
	for i, l := range s.p.Loops {
		c.repeat(s, l, s.loops[i], i, len(s.p.Loops))
	}
	s.crew = c
	return nil
}

// begin runs Begin. It returns false where a step failed or the system was told to stop.
func (s *System) begin(ctx context.Context) (begun bool, err error) {
	for _, b := range s.p.Begin {
		if err := s.open(ctx, b); err != nil {
			return false, fmt.Errorf("system %s: %w", s.p.Name, err)
		}
		if ctx.Err() != nil {
			return false, nil
		}
	}
	return true, nil
}

func (s *System) closeAll() error {
	var errs []error
	for _, c := range s.p.Close {
		errs = append(errs, s.closed(c))
	}
	return errors.Join(errs...)
}

// check refuses parts that cannot run.
func (s *System) check() error {
	names := make(map[string]bool)
	for _, e := range s.p.Pipelines {
		if e == nil {
			return fmt.Errorf("system %s: a pipeline is nil", s.p.Name)
		}
		if names[e.Name()] {
			return fmt.Errorf("system %s: two pipelines are named %s; dead letters and metrics would mix", s.p.Name, e.Name())
		}
		names[e.Name()] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = make(chan struct{})
	s.loops = s.loops[:0]
	for _, l := range s.p.Loops {
		if err := l.check(s.p.Name); err != nil {
			return err
		}
		s.loops = append(s.loops, &LoopStats{Name: l.Name})
	}
	return nil
}

func (s *System) open(ctx context.Context, do func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(s.p.Log, "listener", p)
		}
	}()
	err = do(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // it was told to
	}
	return err
}

func (s *System) closed(c func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(s.p.Log, "close", p)
		}
	}()
	return c()
}

// loop runs one loop, the nth of so many, until ctx ends. While the system is paused it does nothing.
func (s *System) loop(ctx context.Context, l *Loop, st *LoopStats, n, of int) {
	clock := alarm{slot: n, of: of, now: s.p.Now}
	defer clock.stop()
	for first := true; ; first = false {
		if !first || !l.AtStart {
			clock.wait(ctx, l.Every)
		}
		s.untilResumed(ctx)
		if ctx.Err() != nil {
			return
		}
		err := s.turn(ctx, l)
		if err != nil && ctx.Err() != nil {
			err = nil // time was up
		}
		s.mu.Lock()
		st.Runs++
		st.Last, st.LastAt = err, s.p.Now()
		if err != nil {
			st.Failed++
		}
		s.mu.Unlock()
		if err != nil {
			// Logged each time a side job of a system fails, as expiring, auditing or closing windows;
			// it runs again at its next turn.
			// To do: see whether what the error names is well, if it goes on.
			s.p.Log.Warn("a loop failed", "system", s.p.Name, "loop", l.Name, "error", err)
		}
	}
}

// untilResumed returns when the system is not paused, or when ctx has ended because the
// system stops.
func (s *System) untilResumed(ctx context.Context) {
	for {
		s.mu.Lock()
		wake := s.wake
		s.mu.Unlock()
		if s.State() != Paused {
			return
		}
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
}

func (s *System) turn(ctx context.Context, l *Loop) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(s.p.Log, l.Name, p)
		}
	}()
	return l.Do(ctx)
}

// State is where the system is in its life.
func (s *System) State() State { return s.life.now() }

// Pause pauses every pipeline and lets loops idle. Listeners stay open.
func (s *System) Pause() error {
	if err := s.life.pause(); err != nil {
		return fmt.Errorf("pause system %s: %w", s.p.Name, err)
	}
	var errs []error
	for _, e := range s.Pipelines() {
		if e.State() == Running { // not those paused one by one
			errs = append(errs, e.Pause())
		}
	}
	return errors.Join(errs...)
}

// Resume goes on after Pause, with every pipeline that is paused.
func (s *System) Resume() error {
	if err := s.life.resume(); err != nil {
		return fmt.Errorf("resume system %s: %w", s.p.Name, err)
	}
	s.mu.Lock()
	close(s.wake)
	s.wake = make(chan struct{})
	s.mu.Unlock()
	var errs []error
	for _, e := range s.Pipelines() {
		if e.State() == Paused {
			errs = append(errs, e.Resume())
		}
	}
	return errors.Join(errs...)
}

// Pipeline finds a pipeline by its name, or returns nil.
func (s *System) Pipeline(name string) *Engine {
	for _, e := range s.Pipelines() {
		if e.Name() == name {
			return e
		}
	}
	return nil
}

// LoopStats returns the state of each loop, in their order.
func (s *System) LoopStats() []LoopStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []LoopStats
	for _, l := range s.loops {
		all = append(all, *l)
	}
	return all
}
