package gather_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/gather"
)

// line records calls; each takes as many seconds as its first item says.
type line struct {
	gather.Line[int]

	mu    sync.Mutex
	calls [][]int
}

// of is the calls from the n-th on.
func (l *line) of(n int) [][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls[n:])
}

func newLine(calls int) *line {
	l := &line{}
	l.Calls = calls
	l.Call = func(_ context.Context, all []int) error {
		l.mu.Lock()
		l.calls = append(l.calls, slices.Clone(all))
		l.mu.Unlock()
		time.Sleep(time.Duration(all[0]) * time.Second)
		return nil
	}
	return l
}

// join makes callers come one after the other, none waiting for its answer.
func (l *line) join(ctx context.Context, errs chan<- error, items ...int) {
	for _, item := range items {
		go func() { errs <- l.Join(ctx, item) }()
		synctest.Wait()
	}
}

func want(t *testing.T, got [][]int, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

func TestWhoComesMeanwhileGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(0), make(chan error, 10)
		l.join(t.Context(), errs, 1, 2, 3)
		time.Sleep(10 * time.Second)
		l.join(t.Context(), errs, 4)
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		want(t, l.of(0), []int{1}, []int{2, 3}, []int{4})
		if err := l.Join(t.Context(), 5); err != nil { // all is as it was
			t.Error(err)
		}
		want(t, l.of(3), []int{5})
	})
}

func TestSeveralCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(2), make(chan error, 10)
		l.join(t.Context(), errs, 1, 2, 3, 4)
		want(t, l.of(0), []int{1}, []int{2})
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, l.of(0), []int{1}, []int{2}, []int{3, 4})
		time.Sleep(10 * time.Second)
	})
}

func TestACallHasNoMoreThanFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(1), make(chan error, 10)
		l.Most, l.Size = 10, func(n int) int { return n }
		l.join(t.Context(), errs, 1, 4, 6, 3, 25, 1)
		time.Sleep(time.Minute)
		want(t, l.of(0), []int{1}, []int{4, 6}, []int{3}, []int{25}, []int{1})
	})
}

func TestWhoWaitsMayLeaveAndWhoIsInACallMayNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(1), make(chan error, 10)
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, errs, 1, 2)
		l.join(t.Context(), errs, 3)
		cancel()
		synctest.Wait()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who waited got %v", err)
		}
		if len(errs) > 0 {
			t.Error("who is in a call left it")
		}
		time.Sleep(10 * time.Second)
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		want(t, l.of(0), []int{1}, []int{3})
	})
}

func TestAnErrorIsThatOfAllInTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(1), make(chan error, 10)
		call, down := l.Call, errors.New("down")
		l.Call = func(ctx context.Context, all []int) error {
			_ = call(ctx, all)
			if len(all) > 1 {
				return down
			}
			return nil
		}
		l.join(t.Context(), errs, 1, 2, 3)
		time.Sleep(10 * time.Second)
		var bad int
		for range 3 {
			if errors.Is(<-errs, down) {
				bad++
			}
		}
		if bad != 2 {
			t.Errorf("%d had the error of a call of two", bad)
		}
	})
}

func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, errs := newLine(1), make(chan error, 10)
		call := l.Call
		l.Call = func(ctx context.Context, all []int) error {
			_ = call(ctx, all)
			if len(all) > 1 {
				panic("of a call")
			}
			return nil
		}
		go func() {
			_ = l.Join(t.Context(), 1)
		}()
		synctest.Wait()
		go func() {
			defer func() { recover(); errs <- nil }()
			_ = l.Join(t.Context(), 2)
		}()
		synctest.Wait()
		l.join(t.Context(), errs, 3)
		time.Sleep(10 * time.Second)
		if len(errs) != 2 {
			t.Fatalf("%d of two came back", len(errs))
		}
		if a, b := <-errs, <-errs; !errors.Is(errors.Join(a, b), gather.ErrPanic) {
			t.Errorf("who was in the call got %v and %v", a, b)
		}
		if err := l.Join(t.Context(), 4); err != nil {
			t.Error(err)
		}
	})
}
