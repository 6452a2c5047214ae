package flow

import (
	"fmt"
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

// A lifecycle is one state, and which may follow it.
type lifecycle struct {
	mu    sync.Mutex // guards state
	state State
}

// to moves on to next, or says why that cannot be.
func (l *lifecycle) to(next State) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	legal := false
	switch next {
	case Running:
		legal = l.state == Idle || l.state == Paused
	case Paused:
		legal = l.state == Running
	case Stopping:
		legal = l.state == Running || l.state == Paused
	case Stopped:
		legal = l.state == Stopping
	}
	if !legal {
		return fmt.Errorf("it is %v and cannot become %v", l.state, next)
	}
	l.state = next
	return nil
}

// start is the step from idle: what is paused is resumed, not started.
func (l *lifecycle) start() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != Idle {
		return fmt.Errorf("it is %v: Run is called once", l.state)
	}
	l.state = Running
	return nil
}

// resume is the step back from paused.
func (l *lifecycle) resume() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != Paused {
		return fmt.Errorf("it is %v, not paused", l.state)
	}
	l.state = Running
	return nil
}

func (l *lifecycle) now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}
