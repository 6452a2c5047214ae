package endpoint

import (
	"net/http/httptest"
	"testing"
	"time"
)

func TestMinutes(t *testing.T) {
	now := time.Date(2026, 11, 21, 19, 0, 20, 0, time.UTC)
	clock := func() time.Time { return now }
	x := &Exchange{R: httptest.NewRequest("POST", "/", nil), core: &core{o: &Options{Now: clock}, minutes: NewMeter(clock)}}
	x.core.LimitTo(10)
	admit := func(name string, n int, want bool) (back func()) {
		t.Helper()
		back, p := x.Admit(name, n, "too many")
		if (p == nil) != want || p != nil && p.After != 41 {
			t.Errorf("%d of %s: %+v", n, name, p)
		}
		return back
	}
	admit("a", 8, true)
	admit("a", 3, false)
	admit("b", 10, true)
	two := admit("a", 2, true)
	admit("a", 1, false)
	two()
	late := admit("a", 2, true)
	admit("a", 1, false)
	now = now.Add(40 * time.Second)
	first := admit("a", 25, true) // more than a minute's, and its first
	now = now.Add(20 * time.Second)
	admit("a", 1, false)
	late() // of another minute
	now = now.Add(-time.Second)
	if _, p := x.Admit("a", 1, "too many"); p == nil {
		t.Error("what came in another minute is taken back in this one")
	}
	first()
	admit("a", 10, true)
	x.core.LimitTo(12) // what was counted stays counted
	if _, p := x.Admit("a", 3, "too many"); p == nil {
		t.Error("what was counted is forgotten with another limit")
	}
	admit("a", 2, true)
	x.core.LimitTo(0)
	admit("a", 100, true)
}

func TestTheMeterIsBounded(t *testing.T) {
	m := &memoryMeter{now: func() time.Time { return time.Date(2026, 11, 21, 19, 0, 0, 123e6, time.UTC) }}
	l := Limit{1, time.Minute}
	for i := range maxMetered + 1000 {
		if s, err := m.Admit(t.Context(), string(rune(i)), 1, l); err != nil || !s.Admitted && i < 0xd800 {
			t.Fatal(s, err)
		}
	}
	if n := m.of[time.Minute].Len(); n > maxMetered {
		t.Errorf("%d names", n)
	}
}
