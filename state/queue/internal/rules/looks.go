package rules

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Looks counts the jobs that a listing looked at and its filter does not choose.
type Looks struct {
	Most int // queue.Filter.Look
	n    int
}

// Pass counts one, and is a *queue.Rest where it was the last that may be looked at.
func (l *Looks) Pass(at tidemill.Mark) error {
	return l.Add(1, at)
}

// Add counts n, the last of them there.
func (l *Looks) Add(n int, at tidemill.Mark) error {
	if l.n += n; n > 0 && l.Most > 0 && l.n >= l.Most {
		at.Epoch = 0
		return &queue.Rest{After: at, Looked: l.n}
	}
	return nil
}

// Left is how many others may be looked at; 0: any number.
func (l *Looks) Left() int {
	if l.Most == 0 {
		return 0
	}
	return max(1, l.Most-l.n)
}
