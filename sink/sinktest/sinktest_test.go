package sinktest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
)

// memory is a sink that keeps payloads.
type memory struct {
	mu    sync.Mutex
	kept  [][]byte
	away  bool
	stuck bool
}

func (s *memory) Write(ctx context.Context, batch []*tidemill.Message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return tidemill.Fail(tidemill.Transient, "away")
	}
	var failed []tidemill.Failed
	for i, m := range batch {
		if m.To == "" {
			failed = append(failed, tidemill.Failed{Index: i, Err: tidemill.Fail(tidemill.Validation, "no topic")})
			continue
		}
		s.kept = append(s.kept, bytes.Clone(m.Payload))
	}
	if failed != nil {
		return &tidemill.Partial{Failed: failed}
	}
	return nil
}

func (s *memory) set(away, stuck bool) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.away, s.stuck = away, stuck
	}
}

func TestSink(t *testing.T) {
	Run(t, func(*testing.T) Harness {
		s := new(memory)
		return Harness{
			Sink:    s,
			Message: func(p []byte) *tidemill.Message { return &tidemill.Message{To: "somewhere", Payload: p} },
			Invalid: func() *tidemill.Message { return &tidemill.Message{} },
			Delivered: func(int) [][]byte {
				s.mu.Lock()
				defer s.mu.Unlock()
				return slices.Clone(s.kept)
			},
			Cut: s.set(true, false), Heal: s.set(false, false), Stick: s.set(false, true),
		}
	})
}
