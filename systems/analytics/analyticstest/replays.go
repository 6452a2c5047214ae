package analyticstest

import (
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics"
)

var replays = []promise{
	{name: "A15 failed batches are replayed by themselves, 100 every 5 minutes, the oldest first", reason: "an outage at night needs nobody", holds: byItself},
	{name: "A15 refusals and what nobody could read are not replayed by themselves", reason: "they would fail again for ever", holds: notByItself},
	{name: "A15 one instance replays at a time", reason: "two would send the destination what it could not take from one", holds: oneInstanceReplays},
	{name: "A15 five failed replays pause them for 5 minutes, on every instance", reason: "a broken destination is left alone", holds: replayCircuit},
	{name: "A15 a letter that dies again is held again and tried again", reason: "a replay in the middle of an outage must not be the last", holds: diesAgain},
}

// regular are options of a system that replays automatically.
func (b *bench) regular() analytics.Options {
	o := options()
	o.Replay = b.of(5 * time.Minute) // the default
	return o
}

func byItself(b *bench) {
	for n := range 5 {
		var ms []*tidemill.Message
		for i := range 50 {
			ms = append(ms, entry(fmt.Sprintf("e%03d", 50*n+i), "u"))
		}
		b.dieAtTheWarehouse(nil, ms...)
	}
	s := b.start(b.regular(), nil)
	if b.fake { // in real time a round ends before it is checked
		b.pass(4*time.Minute + 50*time.Second)
		if n := len(b.events()); n != 0 {
			b.Errorf("%d replayed before their time", n)
		}
		for round := 1; round <= 3; round++ {
			b.pass(5 * time.Minute)
			if n, want := len(b.events()), min(100*round, 250); n != want {
				b.Errorf("after %d rounds %d are replayed, want %d", round, n, want)
			}
		}
	}
	b.until("all are replayed", func() bool { return len(b.events()) == 250 && len(b.letters()) == 0 })
	s.stop()
	for i, e := range b.events() {
		if want := fmt.Sprintf("e%03d", i); e.Name[:2] != want[:2] {
			b.Fatalf("the %d-th replayed is %s, want the oldest first", i, e.Name)
		}
	}
	if a := b.balanced(); a.Letters.Replayed != 250 || a.Letters.Held != 0 {
		b.Errorf("the books say %+v", a)
	}
}

func notByItself(b *bench) {
	b.put(entry("refused", "guest"), object("junk"))
	b.process()
	b.dieAtTheWarehouse(nil, entry("e", "u"))
	s := b.start(b.regular(), nil)
	b.until("the failed one is replayed", func() bool { return len(b.letters()) == 2 })
	b.pass(time.Hour)
	s.stop()
	for _, l := range b.letters() {
		if l.Replays != 0 || l.Kind != tidemill.Validation {
			b.Errorf("letter %s of kind %v was replayed %d times", l.ID, l.Kind, l.Replays)
		}
	}
}

func oneInstanceReplays(b *bench) {
	b.dieAtTheWarehouse(nil, entry("e", "u"))
	held, ok, err := b.Locks.Acquire(b.Context(), "dlq:replay:lock", time.Hour)
	b.must(err)
	if !ok {
		b.Fatal("the lock is not free")
	}
	s := b.start(b.regular(), nil)
	b.pass(20 * time.Minute)
	if n := len(b.events()); n != 0 {
		b.Errorf("%d replayed while another instance replays", n)
	}
	b.must(b.Locks.Release(b.Context(), held))
	b.until("it is replayed", func() bool { return len(b.events()) == 1 })
	s.stop()
}

func replayCircuit(b *bench) {
	pause := 5 * time.Minute // the default
	if !b.fake {
		pause = time.Minute
	}
	for i := range 12 {
		b.dieAtTheWarehouse(nil, entry(fmt.Sprint("e", i), "u"))
	}
	w := &events{}
	w.insert.fail(-1, errOutage)
	o := options()
	o.ReplayBatch, o.ReplayPause = 1, pause
	broken := b.startWith(o, w)
	for i := range 5 { // five replays, started by hand
		n, err := b.Letters.Replay(b.Context(), deadletter.Filter{Pipeline: analytics.Name, Max: 1, Replays: 1})
		b.must(err)
		if n != 1 {
			b.Fatalf("replay %d: %d letters", i, n)
		}
		b.replayed()
	}
	b.pass(2 * time.Second)
	if st := broken.Replayer.Stats(); st.Breaker != policy.Open || time.Until(st.Until) < pause/2 {
		b.Errorf("after five failed replays the breaker is %v until %v, want open for %v", st.Breaker, st.Until, pause)
	}
	r := b.regular()
	r.Replay = b.of(time.Minute)
	s := b.start(r, nil) // another instance, without outages
	b.pass(4 * time.Minute)
	if n := len(b.events()); n != 0 {
		b.Errorf("another instance replayed %d while the circuit is open", n)
	}
	broken.stop()
	b.until("the pause is over", func() bool { return len(b.events()) == 12 })
	s.stop()
	b.balanced()
}

func diesAgain(b *bench) {
	b.dieAtTheWarehouse(nil, entry("e", "u"))
	w := &events{}
	w.insert.fail(6, errOutage) // two replays
	s := b.startWith(b.regular(), w)
	b.until("the third replay succeeds", func() bool { return len(b.letters()) == 0 })
	s.stop()
	b.one("e")
	if a := b.balanced(); a.Letters.Put != 1 || a.Letters.Replayed != 1 {
		b.Errorf("the books say %+v", a.Letters)
	}
}
