package crm

import (
	"testing"
	"time"
)

// An instance holds what its handlers do within 25 ms, or while a batch waits for databases: at
// least the least, and at most 25 times as many.
func TestHowManyEventsAreHeld(t *testing.T) {
	const ms = time.Millisecond
	p := newPace(10, 40)
	want := func(why string, n int) {
		t.Helper()
		if p.hold() != n {
			t.Errorf("%s: it holds %d, want %d", why, p.hold(), n)
		}
	}
	calls := func(n int, each, beside time.Duration) {
		for range n {
			p.call(10*each, 10)
			p.batch(beside)
		}
	}
	want("at first", 40)
	p.call(0, 19)
	want("too early to say", 40)
	p.call(0, 1)
	want("of handlers that take no time", 1000)
	calls(20, time.Second, ms)
	want("of a second each", 40)
	calls(40, ms, ms)
	want("of a millisecond each, with fast databases", 250)
	calls(60, ms, 60*ms)
	want("the same, with databases that take 60 ms", 600)
	calls(60, 10*ms, time.Minute)
	want("of 10 ms, with databases that hang", 250)
	calls(60, 10*ms, 0)
	want("of 10 ms, without", 40)
	p.call(time.Second, 1)
	want("one call is enough to hold less", 40)
	for range 20 {
		p.batch(ms)
	}
	want("events that need no handler say nothing of the others", 40)
}
