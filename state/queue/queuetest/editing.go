package queuetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func edits(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 5})
	later := job("later")
	later.At = b.now().Add(time.Hour)
	b.add(queue.New, job("bad"))
	b.end(src, 1)
	b.add(queue.New, job("waits"), later)
	for _, id := range []string{"bad", "waits", "later"} {
		if err := b.whole().Edit(b.Context(), queue.Name{Queue: "q", ID: id}, []byte("edited \x00"+id), ""); err != nil {
			b.Fatalf("edit %s: %v", id, err)
		}
	}
	b.kill()
	src = b.open("q")
	b.did(1)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q"}))
	b.sleep(time.Hour + b.tick())
	got := b.take(src, 10)
	b.want(got, "waits", "later", "bad")
	for _, m := range got {
		if string(m.Payload) != "edited \x00"+m.ID {
			b.Fatalf("job %s has payload %q", m.ID, m.Payload)
		}
	}
}

func editsToNothing(b *bench) {
	b.add(queue.New, job("a"), job("b"))
	for _, to := range []string{"", "full again", ""} {
		if err := b.whole().Edit(b.Context(), queue.Name{Queue: "q", ID: "a"}, []byte(to), ""); err != nil {
			b.Fatalf("edit to %q: %v", to, err)
		}
		b.kill()
		if j, err := b.whole().Look(b.Context(), queue.Name{Queue: "q", ID: "a"}); err != nil || string(j.Payload) != to {
			b.Fatalf("the job has the payload %q, %v; want %q", j.Payload, err, to)
		}
	}
	got := b.take(b.open("q"), 2)
	if b.want(got, "a", "b"); len(got[0].Payload) != 0 || len(got[1].Payload) == 0 {
		b.Fatalf("the payloads are %q and %q", got[0].Payload, got[1].Payload)
	}
}

func editsWhatWasSeen(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 5})
	b.add(queue.New, job("bad"), job("good"))
	got := b.take(src, 2)
	b.settle(src, tidemill.Settlement{Fate: tidemill.Dead, ID: got[0].ID, Mark: got[0].Mark})
	later := job("later")
	later.At = b.now().Add(time.Hour)
	b.add(queue.New, later, job("waits"))
	for _, id := range []string{got[0].ID, "later", "waits"} {
		n := queue.Name{Queue: "q", ID: id}
		seen := b.version(n)
		change := func(to, seen string, want error) {
			b.Helper()
			if err := b.whole().Edit(b.Context(), n, []byte(to), seen); !errors.Is(err, want) || want != nil && tidemill.KindOf(err) != tidemill.Transient {
				b.Fatalf("editing %s to %q says %v, want %v", id, to, err, want)
			}
			b.kill()
		}
		change("of the first", seen, nil)
		change("of the second", seen, queue.ErrChanged)
		change("of the first", seen, nil) // again: its answer was lost
		if j, err := b.whole().Look(b.Context(), n); err != nil || string(j.Payload) != "of the first" {
			b.Fatalf("job %s has the payload %q, %v", id, j.Payload, err)
		}
		change("of the second", b.version(n), nil)
		change("of the third", "nonsense", queue.ErrChanged)
		change("payload of "+id, "", nil) // whatever it is
		change("of the fourth", seen, nil)
	}
	out := queue.Name{Queue: "q", ID: b.take(b.open("q"), 1)[0].ID}
	if err := b.whole().Edit(b.Context(), out, []byte("x"), "nonsense"); !errors.Is(err, queue.ErrOut) {
		b.Fatalf("editing a job that is out says %v, want %v", err, queue.ErrOut)
	}
}

// version of a job.
func (b *bench) version(n queue.Name) string {
	b.Helper()
	j, err := b.whole().Look(b.Context(), n)
	if err != nil {
		b.Fatal(err)
	}
	return queue.Version(&j.Message)
}

func editsOnce(b *bench) {
	const rounds, people = 10, 4
	n := queue.Name{Queue: "q", ID: "a"}
	b.add(queue.New, job("a"))
	for round := range rounds {
		seen, made := b.version(n), make([]error, people)
		var all sync.WaitGroup
		for i := range people {
			all.Go(func() { made[i] = b.whole().Edit(b.Context(), n, fmt.Append(nil, round, " by ", i), seen) })
		}
		all.Wait()
		j, err := b.whole().Look(b.Context(), n)
		if err != nil {
			b.Fatal(err)
		}
		winners := 0
		for i, err := range made {
			switch {
			case err == nil:
				if winners++; string(j.Payload) != fmt.Sprint(round, " by ", i) {
					b.Errorf("round %d: the edit of %d is made, and the payload is %q", round, i, j.Payload)
				}
			case !errors.Is(err, queue.ErrChanged):
				b.Errorf("round %d: %v, want %v", round, err, queue.ErrChanged)
			}
		}
		if winners != 1 {
			b.Fatalf("round %d: %d edits were made, want one", round, winners)
		}
	}
}
