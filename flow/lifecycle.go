package flow

import (
	"fmt"
	"slices"
	"sync"
)

// State of an engine, and of a system.
//
//	idle ──▶ running ◀──▶ paused
//	            │            │
//	            ▼            ▼
//	         stopping ──▶ stopped
type State uint8

const (
	Idle State = iota
	Running
	Paused
	Stopping
	Stopped
)

// String returns the state as it is written in metrics and answers.
func (s State) String() string {
	return [...]string{"idle", "running", "paused", "stopping", "stopped"}[min(s, Stopped)]
}

// A lifecycle is one state, and the states that may follow it.
type lifecycle struct {
	mu    sync.Mutex // guards state
	state State
}

// to moves on to next from one of some states, or says why that cannot be.
func (l *lifecycle) to(next State, from ...State) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(from, l.state) {
		return fmt.Errorf("it is %v and cannot become %v", l.state, next)
	}
	l.state = next
	return nil
}

// start is the step from idle: what is paused is resumed, not started.
func (l *lifecycle) start() error {
	if l.to(Running, Idle) != nil {
		return fmt.Errorf("it is %v: Run is called once", l.now())
	}
	return nil
}

func (l *lifecycle) pause() error { return l.to(Paused, Running) }

// resume is the step back from paused.
func (l *lifecycle) resume() error {
	if l.to(Running, Paused) != nil {
		return fmt.Errorf("it is %v, not paused", l.now())
	}
	return nil
}

// stopping and stopped are the end of every run.
func (l *lifecycle) stopping() { _ = l.to(Stopping, Running, Paused) }
func (l *lifecycle) stopped()  { _ = l.to(Stopped, Stopping) }

func (l *lifecycle) now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
