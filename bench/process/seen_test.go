package process

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

func event(n int) []byte { return fmt.Appendf(nil, `{"type":"x","n":%d}`, n) }

func TestEventsThatComeTwiceOrFromNowhereAreNoticed(t *testing.T) {
	s := NewSeen(2)
	for _, n := range []int{0, 0, 1} {
		if got, err := s.One(event(n)); got != n || err != nil {
			t.Fatalf("event %d has number %d: %v", n, got, err)
		}
	}
	if s.N() != 2 || s.Twice() != 1 || s.Of() != 2 {
		t.Errorf("%d events of %d were seen, %d again; want 2 of 2, and 1", s.N(), s.Of(), s.Twice())
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"n":2}`, "", "{}", `{"n":1`, `{"n":x}`} {
		if _, err := s.One([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestEachIsDoneOnceAndAnErrorIsTold(t *testing.T) {
	all := make([]int, 2500)
	for i := range all {
		all[i] = i
	}
	s := NewSeen(len(all))
	if err := Each(7, all, func(i int) error { _, err := s.One(event(i)); return err }); err != nil || s.N() != len(all) || s.Twice() != 0 {
		t.Errorf("%d of %d, %d more than once: %v", s.N(), len(all), s.Twice(), err)
	}
	wrong, done := errors.New("wrong"), atomic.Int64{}
	if err := Each(2, all, func(int) error { done.Add(1); return wrong }); !errors.Is(err, wrong) || done.Load() > 2 {
		t.Errorf("%d were done: %v", done.Load(), err)
	}
}
