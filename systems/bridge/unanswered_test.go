package bridge

import (
	"fmt"
	"testing"
	"time"
)

func (w *world) unanswered(want Unanswered) {
	w.Helper()
	if got := w.bridge.Stats().Unanswered; got != want {
		w.Errorf("unanswered are %+v, want %+v", got, want)
	}
}

func TestEntriesWithoutAnAckAreShown(t *testing.T) {
	with(t, nil, func(w *world) {
		w.add("1", "2", "3")
		w.rest(time.Second)
		w.broker.ack("3")
		w.rest(lease + time.Second) // twice: it may be a slow receiver
		w.published("1", "2", "3", "1", "2")
		w.unanswered(Unanswered{})
		w.rest(lease)
		w.unanswered(Unanswered{Entries: 2, Times: 3, ID: "1"})
		w.broker.ack("1")
		w.rest(3 * lease)
		w.unanswered(Unanswered{Entries: 1, Times: 6, ID: "2"})
		w.broker.refuse("2") // that is an answer
		w.rest(time.Second / 2)
		w.unanswered(Unanswered{})
		w.rest(10 * time.Second)
		w.unanswered(Unanswered{Entries: 1, Times: 6, ID: "2"}) // and the next message has none
		w.broker.ack("2")
		w.rest(time.Second)
		w.unanswered(Unanswered{})
	})
}

func TestWhatAnotherInstanceHasIsForgotten(t *testing.T) {
	u := unanswered{keep: time.Minute}
	now := time.Unix(0, 0)
	u.published("a", 2, 0, now) // not often enough
	u.published("b", 9, 7, now) // of which seven were refused
	u.published("c", 5, 1, now)
	u.published("d", 3, 0, now.Add(time.Second))
	if got := u.look(now.Add(time.Minute)); got != (Unanswered{Entries: 2, Times: 4, ID: "c"}) {
		t.Errorf("%+v, want c of two", got)
	}
	if got := u.look(now.Add(time.Minute + time.Millisecond)); got != (Unanswered{Entries: 1, Times: 3, ID: "d"}) {
		t.Errorf("%+v, want d alone", got)
	}
	for n := range 2 * maxUnanswered { // it is bounded
		u.published(fmt.Sprint(n), 3, 0, now.Add(time.Minute))
	}
	if got := u.look(now.Add(time.Minute)).Entries; got != maxUnanswered {
		t.Errorf("%d are remembered, want %d", got, maxUnanswered)
	}
	for n := range 2 * maxUnanswered {
		u.answered(fmt.Sprint(n))
	}
	u.answered("d")
	if got := u.look(now.Add(time.Minute)); got != (Unanswered{}) {
		t.Errorf("%+v, want nothing", got)
	}
}
