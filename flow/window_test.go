package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestTimesOfTheWindow(t *testing.T) {
	for keep, want := range map[time.Duration][2]time.Duration{0: {lately, lately}, 8 * time.Second: {4 * time.Second, 4 * time.Second},
		time.Minute: {30 * time.Second, lately}} {
		var w window
		if w.init(tidemill.Traits{Keep: keep}); w.lately != want[0] || w.patience != want[1] {
			t.Errorf("kept each %v: lately is %v, patience %v; want %v", keep, w.lately, w.patience, want)
		}
	}
}

// What may be out, while messages go out, are acked, come to other ends, or nothing is heard.
func TestRoomOfTheWindow(t *testing.T) {
	var w window
	w.init(tidemill.Traits{})
	now, seq := time.Unix(1_700_000_000, 0), uint64(0)
	out := func(n int) (l []*Task) {
		for range n {
			seq++
			l = append(l, &Task{Message: tidemill.Message{ID: fmt.Sprint("m", seq)}, seq: seq, deferred: true})
		}
		w.out(l)
		return l
	}
	heard := func(want bool, ids ...int) {
		t.Helper()
		var acks []tidemill.Settlement
		for _, id := range ids {
			acks = append(acks, tidemill.Settlement{ID: fmt.Sprint("m", id)})
		}
		if got := w.heard(now, acks); got != want {
			t.Errorf("heard of %v: may be room %v, want %v", ids, got, want)
		}
	}
	room := func(n int, wait time.Duration) {
		t.Helper()
		if gotN, got := w.room(now); gotN != n || got != wait {
			t.Errorf("room for %d in %v, want %d in %v", gotN, got, n, wait)
		}
	}
	room(64, 0)
	out(63)
	room(1, 0)
	out(1)
	room(0, lately)
	now = now.Add(4 * time.Second)
	room(0, 6*time.Second)
	heard(true, 999) // another's: no news
	room(0, 6*time.Second)
	heard(true, 10) // those before it are for a receiver that is away
	room(64+1-54, 0)
	heard(false, 10, 5) // once more, and an older one: it counts, and opens nothing before the latest
	room(64+2-54, 0)
	left := out(12)
	room(0, lately)
	left[0].deferred = false // came to another end
	w.ended(left)
	room(1, 0)
	out(1)
	room(0, lately)
	now = now.Add(lately - 1)
	room(0, 1)
	now = now.Add(1)
	room(mostOut, 0) // all are away
	heard(true, int(seq))
	room(64+3, 0) // acks of this period and of the one before
	now = now.Add(lately)
	room(64+1, 0)
	now = now.Add(lately) // to the instant
	room(64, 0)
	out(1)
	heard(false, int(seq)) // there was room
	room(64+1, 0)
	now = now.Add(2 * lately)
	room(64, 0)
	out(64)
	if w.waits(now) {
		t.Error("acks are waited for before anybody found no room")
	}
	room(0, lately)
	if !w.waits(now) || !w.waits(now.Add(lately-1)) || w.waits(now.Add(lately)) {
		t.Error("acks are not waited for as long as patience lasts")
	}
}
