package kafkasource_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/source/kafkasource"
)

// A tally counts what became of each message, over all members.
type tally struct {
	mu      sync.Mutex // guards all below
	applied map[string]int
	stale   map[string]bool // told so, and not applied since
	handed  int
	all     chan struct{} // closed when so many were applied
	want    int
}

func newTally(want int) *tally {
	return &tally{applied: map[string]int{}, stale: map[string]bool{}, want: want, all: make(chan struct{})}
}

func (y *tally) note(ends []tidemill.Settlement) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range ends {
		y.handed++
		y.stale[ends[i].ID] = ends[i].Outcome == tidemill.Stale
		if ends[i].Outcome == tidemill.Applied {
			y.applied[ends[i].ID]++
			if len(y.applied) == y.want && y.applied[ends[i].ID] == 1 {
				close(y.all)
			}
		}
	}
}

// work receives and settles, some of it late and out of order, until ctx ends. What it has
// begun to settle it settles, so that the tally knows what became of it.
func (y *tally) work(ctx context.Context, s *kafkasource.Source) {
	var late []tidemill.Settlement
	finish := func(ends []tidemill.Settlement) {
		for {
			if err := s.Settle(context.Background(), ends); err == nil {
				y.note(ends)
				return
			}
			var rest []tidemill.Settlement
			var told []tidemill.Settlement
			for _, e := range ends {
				if e.Outcome == tidemill.Unanswered {
					rest = append(rest, e)
				} else {
					told = append(told, e)
				}
			}
			y.note(told)
			ends = rest
		}
	}
	into := make([]*tidemill.Message, 100)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	for ctx.Err() == nil {
		brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		n, err := s.Receive(brief, into)
		cancel()
		if errors.Is(err, tidemill.ErrFlush) || n == 0 {
			finish(late)
			late = late[:0:0]
			continue
		}
		ends := delivered(into[:n]...)
		finish(ends[n/2:])
		late = append(late, ends[:n/2]...)
		if len(late) > 300 {
			finish(late)
			late = nil
		}
	}
}

// start lets a source work until the returned function is called.
func (y *tally) start(t *testing.T, s *kafkasource.Source) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { y.work(ctx, s) })
	return func() { cancel(); done.Wait() }
}

func (y *tally) check(t *testing.T) {
	t.Helper()
	select {
	case <-y.all:
	case <-time.After(40 * time.Second):
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	for id, n := range y.applied {
		if n != 1 {
			t.Errorf("%s was applied %d times", id, n)
		}
	}
	if len(y.applied) != y.want {
		t.Fatalf("%d of %d messages were applied", len(y.applied), y.want)
	}
	t.Logf("%d messages, %d settlements", y.want, y.handed)
}

// await waits until so many were applied.
func (y *tally) await(t *testing.T, n int) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(time.Millisecond) {
		y.mu.Lock()
		have := len(y.applied)
		y.mu.Unlock()
		if have >= n {
			return
		}
	}
	t.Fatalf("not %d messages were applied within half a minute", n)
}

// accounted is check for where a commit may have arrived whose partition was lost for longer than
// Settle waits: then its ends are in the books and were told to be stale.
func (y *tally) accounted(t *testing.T) {
	t.Helper()
	y.mu.Lock()
	defer y.mu.Unlock()
	stale := 0
	for id, is := range y.stale {
		switch n := y.applied[id]; {
		case n > 1:
			t.Errorf("%s was applied %d times", id, n)
		case n == 0 && is:
			stale++
		}
	}
	if len(y.applied)+stale != y.want {
		t.Errorf("%d of %d messages were applied, %d are stale", len(y.applied), y.want, stale)
	}
	t.Logf("%d messages, %d settlements, %d stale", y.want, y.handed, stale)
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 6)
	const many = 12_000
	y := newTally(many)
	var adding sync.WaitGroup
	adding.Go(func() {
		for i := 0; i < many; i += 200 {
			w.number(i, i+200)
		}
	})
	one, two, three := w.source(kafkasource.Options{}), w.source(kafkasource.Options{}), w.source(kafkasource.Options{})
	stopOne := y.start(t, one)
	stopTwo := y.start(t, two)
	time.Sleep(500 * time.Millisecond) // under load: members come and go at any moment
	stopThree := y.start(t, three)
	time.Sleep(500 * time.Millisecond)
	stopOne()
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	four := w.source(kafkasource.Options{})
	stopFour := y.start(t, four)
	stopTwo()
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	adding.Wait()
	y.check(t)
	stopThree()
	stopFour()
	w.books(three, tidemill.Books{Accepted: many, Settled: tidemill.Count{Delivered: many}})
}

func TestAMemberThatDiesLeavesItsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 2)
	dying, heir := w.source(kafkasource.Options{}), w.source(kafkasource.Options{})
	w.number(0, 100)
	got := receive(t, dying, 100, 10*time.Second)
	settle(t, dying, tidemill.Applied, delivered(got[10:60]...)...)
	dying.Kill()
	left := receive(t, heir, 50, 30*time.Second) // its session has to end first
	gone := map[string]bool{}
	for _, m := range got[10:60] {
		gone[m.ID] = true
	}
	for _, m := range left {
		if gone[m.ID] || m.Handed < 2 {
			t.Errorf("%s came after the death, settled before: %v, handed out %d times", m.ID, gone[m.ID], m.Handed)
		}
	}
	settle(t, heir, tidemill.Applied, delivered(left...)...)
	w.books(heir, tidemill.Books{Accepted: 100, Settled: tidemill.Count{Delivered: 100}})
}

func TestWhatIsOutIsAwaitedWhereAPartitionMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 2)
	w.number(0, 40)
	one, two := w.source(kafkasource.Options{}), w.source(kafkasource.Options{})
	got := receive(t, one, 40, 10*time.Second)
	second := make(chan []*tidemill.Message, 1)
	go func() { second <- try(t, two, 40, 4*time.Second) }()
	awaitFlush(t, one)
	settle(t, one, tidemill.Applied, delivered(got...)...)
	if again := <-second; len(again) != 0 {
		t.Fatalf("%d messages were handed out to both", len(again))
	}
	w.books(two, tidemill.Books{Accepted: 40, Settled: tidemill.Count{Delivered: 40}})
}

func TestWhatIsSettledTooLateIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 2)
	w.number(0, 40)
	one, two := w.source(kafkasource.Options{Drain: 200 * time.Millisecond}), w.source(kafkasource.Options{})
	got := receive(t, one, 40, 10*time.Second)
	second := make(chan []*tidemill.Message, 1)
	go func() { second <- receive(t, two, 1, 10*time.Second) }()
	awaitFlush(t, one)
	moved := <-second
	moved = append(moved, try(t, two, 40, time.Second)...)
	theirs := map[string]bool{}
	for _, m := range moved {
		theirs[m.ID] = true
		if m.Handed < 2 {
			t.Errorf("%s was out before, and says it is handed out the first time", m.ID)
		}
	}
	for _, m := range got {
		want := tidemill.Applied
		if theirs[m.ID] {
			want = tidemill.Stale
		}
		settle(t, one, want, delivered(m)...)
	}
	settle(t, two, tidemill.Applied, delivered(moved...)...)
	w.books(two, tidemill.Books{Accepted: 40, Settled: tidemill.Count{Delivered: 40}})
}

// A message that kills its workers is recognised by its hand-outs.
func TestTheOldestKnowsHowOftenItWasOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	w.number(0, 3)
	for n := 1; n <= 4; n++ {
		s := w.source(kafkasource.Options{Instance: "one"})
		got := receive(t, s, 3, 10*time.Second)
		if got[0].Handed != n || got[1].Handed != min(n, 2) {
			t.Fatalf("at start %d the first was handed out %d times, the second %d", n, got[0].Handed, got[1].Handed)
		}
		s.Kill()
	}
	s := w.source(kafkasource.Options{Instance: "one"})
	got := receive(t, s, 3, 10*time.Second)
	settle(t, s, tidemill.Applied, delivered(got[0])...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = w.source(kafkasource.Options{Instance: "one"})
	if got := receive(t, s, 2, 10*time.Second); got[0].Handed != 2 {
		t.Fatalf("the next one was handed out %d times, want 2", got[0].Handed)
	}
}

func TestBooksGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 3)
	s := w.source(kafkasource.Options{})
	w.number(0, 300)
	got := receive(t, s, 300, 10*time.Second)
	want := tidemill.Books{Accepted: 300, Pending: 300}
	fates := []tidemill.Fate{tidemill.Delivered, tidemill.Skipped, tidemill.Dead}
	for round, n := range []int{100, 50, 150} {
		ends := delivered(got[len(got)-n:]...) // the youngest first
		got = got[:len(got)-n]
		for i := range ends {
			ends[i].Fate = fates[round]
		}
		settle(t, s, tidemill.Applied, ends...)
		for i := range ends {
			want.Settled.Add(ends[i].Row())
		}
		want.Pending -= uint64(n)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = w.source(kafkasource.Options{})
		w.books(s, want)
		if len(got) > 0 {
			if got = receive(t, s, len(got), 10*time.Second); got[0].Handed != 2 {
				t.Fatalf("%s was handed out %d times", got[0].ID, got[0].Handed)
			}
		}
	}
	if more := try(t, s, 1, 500*time.Millisecond); len(more) > 0 {
		t.Fatalf("%s came again", more[0].ID)
	}
}

// One partition that is held up by its oldest record must not hold up the others.
func TestOneThatIsHeldUpDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 2)
	s := w.source(kafkasource.Options{MaxAhead: 50, Buffer: 100})
	w.number(0, 2000)
	stuck := receive(t, s, 1, 10*time.Second)[0]
	for done := 0; done < 800; done += 20 {
		settle(t, s, tidemill.Applied, delivered(receive(t, s, 20, 10*time.Second)...)...)
	}
	for { // what the partition that is held up must not hand out beyond its bound
		got := try(t, s, 20, 2*time.Second)
		if len(got) == 0 {
			break
		}
		settle(t, s, tidemill.Applied, delivered(got...)...)
	}
	b, err := s.Books(t.Context())
	if err != nil || b.Settled.Delivered < 800 || b.Pending < 800 || b.Off() != 0 {
		t.Fatalf("books are %+v, %v; want one partition done and the other held up", b, err)
	}
	settle(t, s, tidemill.Applied, delivered(stuck)...)
	for b.Pending--; b.Pending > 0; {
		got := receive(t, s, int(min(b.Pending, 20)), 10*time.Second)
		settle(t, s, tidemill.Applied, delivered(got...)...)
		b.Pending -= uint64(len(got))
	}
	w.books(s, tidemill.Books{Accepted: 2000, Settled: tidemill.Count{Delivered: 2000}})
}

func TestAnAckFromOutsideEndsWhatWasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, brokers(t), 1)
	s := w.source(kafkasource.Options{Left: 300 * time.Millisecond})
	w.number(0, 2)
	got := receive(t, s, 2, 10*time.Second)
	for _, m := range got {
		settle(t, s, tidemill.Applied, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left})
	}
	ack := tidemill.Settlement{ID: got[0].ID, End: tidemill.Done, Fate: tidemill.Delivered}
	settle(t, s, tidemill.Applied, ack)
	settle(t, s, tidemill.Stale, ack)
	back := receive(t, s, 1, 5*time.Second)
	if back[0].ID != got[1].ID || back[0].Handed != 2 {
		t.Fatalf("%s came back, handed out %d times; want %s, twice", back[0].ID, back[0].Handed, got[1].ID)
	}
	settle(t, s, tidemill.Stale, delivered(got[1])...)
	settle(t, s, tidemill.Applied, tidemill.Settlement{ID: back[0].ID, Mark: back[0].Mark, End: tidemill.Left})
	settle(t, s, tidemill.Stale, delivered(got[1])...) // the mark of an older hand-out
	settle(t, s, tidemill.Applied, delivered(back...)...)
	w.books(s, tidemill.Books{Accepted: 2, Settled: tidemill.Count{Delivered: 2}})
}

// try receives up to n messages until d is over.
func try(t testing.TB, s tidemill.Source, n int, d time.Duration) (all []*tidemill.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for len(all) < n && ctx.Err() == nil {
		into := make([]*tidemill.Message, n-len(all))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		got, _ := s.Receive(ctx, into)
		all = append(all, into[:got]...)
	}
	return all
}

// awaitFlush receives until the source asks for what is held.
func awaitFlush(t *testing.T, s tidemill.Source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		n, err := s.Receive(ctx, []*tidemill.Message{new(tidemill.Message)})
		if errors.Is(err, tidemill.ErrFlush) {
			return
		}
		if n > 0 || ctx.Err() != nil {
			t.Fatal(fmt.Errorf("received %d, %w; want to be asked for what is held", n, err))
		}
	}
}
