// Package tracetest has a tracer for tests.
package tracetest

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/tidemill/tidemill"
)

// Spans is a tracer that keeps what it is given. Ids are counted, and a trace that begins here is not
// sampled. The zero value is ready to use, by several goroutines.
type Spans struct {
	mu   sync.Mutex // guards the rest
	next uint64
	all  []tidemill.Span
}

var _ tidemill.Tracer = (*Spans)(nil)

// Under implements tidemill.Tracer.
func (s *Spans) Under(parent *tidemill.Trace) (t tidemill.Trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	if parent != nil {
		t = *parent
	} else {
		t.ID = [16]byte{0xff, byte(s.next)}
	}
	binary.BigEndian.PutUint64(t.Span[:], s.next)
	return t
}

// Ended implements tidemill.Tracer.
func (s *Spans) Ended(span *tidemill.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, *span)
}

// All are the spans that have ended, in that order.
func (s *Spans) All() []tidemill.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}
