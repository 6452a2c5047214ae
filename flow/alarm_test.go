package flow

import (
	"testing"
	"time"
)

// An alarm never goes off early, nor at an instant of another's.
func TestAlarmsGoOffAtInstantsOfTheirOwn(t *testing.T) {
	now := time.Unix(0, 1_700_000_000_000_000_003)
	for _, of := range []int{1, 2, 7} {
		for slot := range of {
			a := alarm{slot: slot, of: of, now: func() time.Time { return now }}
			for _, d := range []time.Duration{-100, -1, 0, 1, 2, 9, time.Second} {
				r := a.round(d)
				if least := max(d, 1); r < least || r >= least+time.Duration(of) || now.Add(r).UnixNano()%int64(of) != int64(slot) {
					t.Errorf("slot %d of %d: %v became %v", slot, of, d, r)
				}
			}
		}
	}
}

// Every timer has a slot of its own.
func TestSlotsDiffer(t *testing.T) {
	e := &Engine{p: Pipeline{Lanes: 3}}
	seen := map[int]bool{}
	for slot := range slots {
		a := e.alarm(slot)
		if seen[a.slot] || a.slot < 3 || a.slot >= a.of {
			t.Errorf("slot %d is %d of %d", slot, a.slot, a.of)
		}
		seen[a.slot] = true
	}
}

func TestTheFirstErrorInARowAndEachTenthIsLoud(t *testing.T) {
	for n := 1; n <= 40; n++ {
		want := n == 1 || n == 10 || n == 20 || n == 30 || n == 40
		if got := loud(n); got != want {
			t.Errorf("error %d in a row: %v, want %v", n, got, want)
		}
	}
}
