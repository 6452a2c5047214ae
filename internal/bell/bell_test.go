package bell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryoneWhoWaitsLooksAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bell
		there := false
		got := make(chan int)
		for range 3 {
			go func() {
				n, err := b.Receive(t.Context(), func() (int, time.Duration, error) {
					if there {
						return 1, 0, nil
					}
					return 0, Idle, nil
				})
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		synctest.Wait()
		began := time.Now()
		b.Ring() // without effect: they wait on
		synctest.Wait()
		there = true
		b.Ring()
		for range 3 {
			if n := <-got; n != 1 || time.Since(began) != 0 {
				t.Errorf("%d after %v", n, time.Since(began))
			}
		}
	})
}

func TestARingWhileSomebodyLooksIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bell
		looks, began := 0, time.Now()
		n, err := b.Receive(t.Context(), func() (int, time.Duration, error) {
			if looks++; looks == 1 {
				b.Ring()
				return 0, Idle, nil
			}
			return 7, 0, nil
		})
		if n != 7 || err != nil || time.Since(began) != 0 {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}

func TestWhatComesDueNeedsNoRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bell
		began := time.Now()
		n, err := b.Receive(t.Context(), func() (int, time.Duration, error) {
			left := time.Minute - time.Since(began)
			if left > 0 {
				return 0, left, nil
			}
			return 1, 0, nil
		})
		if n != 1 || err != nil || time.Since(began) != time.Minute {
			t.Errorf("%d, %v after %v", n, err, time.Since(began))
		}
	})
}

func TestErrorsAndTheEndOfWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bell
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		nothing := func() (int, time.Duration, error) { return 0, Idle, nil }
		if n, err := b.Receive(ctx, nothing); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d, %v; want the end of who waits", n, err)
		}
		bad := errors.New("the disk is full")
		if n, err := b.Receive(t.Context(), func() (int, time.Duration, error) { return 0, 0, bad }); n != 0 || !errors.Is(err, bad) {
			t.Errorf("%d, %v; want the error", n, err)
		}
	})
}
