package sqlitequeue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// endsAfter is a context that ends when it has been asked that many times: so an
// operation fails at each of its steps in turn.
type endsAfter struct {
	context.Context
	left int
}

func (c *endsAfter) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func slots(n int) []*tidemill.Message {
	into := make([]*tidemill.Message, n)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	return into
}

func numbered(n int) []*tidemill.Message {
	ms := make([]*tidemill.Message, n)
	for i := range ms {
		ms[i] = &tidemill.Message{ID: fmt.Sprint(i), To: "q", Payload: fmt.Appendf(nil, "payload %d", i)}
	}
	return ms
}

func delivered(m *tidemill.Message) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
}

func TestAnErrorAtAnyStepLosesNothing(t *testing.T) {
	failedReceives, failedSettles := 0, 0
	for step := range 12 {
		t.Run(fmt.Sprint("step ", step), func(t *testing.T) {
			f := newFile(t, Options{})
			s := f.open()
			if err := s.Add(t.Context(), numbered(100), nil); err != nil {
				t.Fatal(err)
			}
			f.close() // so that jobs are read, and some count as handed out
			s = f.open()
			src := s.Open("q", queue.Options{})
			seen := map[string]bool{}
			for round := 0; len(seen) < 100; round++ {
				into := slots(7)
				n, err := src.Receive(&endsAfter{t.Context(), step}, into)
				if err != nil {
					failedReceives++
					if n, err = src.Receive(t.Context(), into); err != nil {
						t.Fatal(err)
					}
				}
				ends := make([]tidemill.Settlement, n)
				for i, m := range into[:n] {
					ends[i] = delivered(m)
					if m.Handed == 1 && i%2 == 0 {
						ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again}
					}
				}
				if err := src.Settle(&endsAfter{t.Context(), step}, ends); err != nil {
					failedSettles++
					if err := src.Settle(t.Context(), ends); err != nil {
						t.Fatal(err)
					}
				}
				for _, e := range ends {
					if e.Outcome != tidemill.Applied {
						t.Fatalf("settlement of %s was taken as %v, want applied", e.ID, e.Outcome)
					}
					if e.End == tidemill.Done {
						seen[e.ID] = true
					}
				}
			}
			want := tidemill.Books{Accepted: 100, Settled: tidemill.Count{Delivered: 100}}
			if got, err := src.(tidemill.Bookkeeper).Books(t.Context()); err != nil || got != want {
				t.Errorf("books are %+v, %v; want %+v", got, err, want)
			}
		})
	}
	if failedReceives == 0 || failedSettles == 0 {
		t.Errorf("%d hand-outs and %d settlements failed: that shows nothing", failedReceives, failedSettles)
	}
}

func TestAFailedSettlementGivesNoRoomAway(t *testing.T) {
	db, err := sqlitedb.Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), sqlitedb.Options{MaxBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(t.Context(), numbered(5), nil); err != nil {
		t.Fatal(err)
	}
	src := s.Open("q", queue.Options{})
	into := slots(5)
	if n, err := src.Receive(t.Context(), into); n != 5 || err != nil {
		t.Fatalf("received %d, %v", n, err)
	}
	ends := []tidemill.Settlement{delivered(into[0])}
	ends[0].Next = []*tidemill.Message{{ID: "large", To: "q", Payload: make([]byte, 4<<20)}}
	if err := src.Settle(t.Context(), ends); !errors.Is(err, sqlitedb.ErrFull) || ends[0].Outcome != tidemill.Unanswered {
		t.Fatalf("settling into a full file says %v, taken as %v; want %v, unanswered", err, ends[0].Outcome, sqlitedb.ErrFull)
	}
	if held := s.find("q").held.Load(); held != 5 {
		t.Errorf("room is taken for %d jobs, 5 are held", held)
	}
	ends[0].Next = nil
	if err := src.Settle(t.Context(), ends); err != nil || ends[0].Outcome != tidemill.Applied {
		t.Errorf("the settlement, sent again, was taken as %v, %v", ends[0].Outcome, err)
	}
}

// TestAcksByIDWhileJobsComeAndGo settles by ID what another is putting back and taking.
func TestAcksByIDWhileJobsComeAndGo(t *testing.T) {
	const n = 600
	s := newFile(t, Options{}).open()
	if err := s.Add(t.Context(), numbered(n), nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		src := s.Open("q", queue.Options{})
		all.Go(func() {
			for {
				into := slots(20)
				k, err := src.Receive(ctx, into)
				if err != nil {
					return
				}
				ends := make([]tidemill.Settlement, k)
				for i, m := range into[:k] {
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again}
				}
				if err := src.Settle(t.Context(), ends); err != nil {
					t.Errorf("settle: %v", err)
				}
			}
		})
	}
	acks := s.Open("q", queue.Options{})
	applied := 0
	for i := 0; i < n; i += 3 {
		var ends []tidemill.Settlement
		for k := range 3 {
			ends = append(ends, tidemill.Settlement{ID: fmt.Sprint(i + k), End: tidemill.Done, Fate: tidemill.Delivered})
		}
		if err := acks.Settle(t.Context(), ends); err != nil {
			t.Fatalf("settle by ID: %v", err)
		}
		for _, e := range ends {
			if e.Outcome == tidemill.Applied {
				applied++
			}
		}
	}
	stop()
	all.Wait()
	want := tidemill.Books{Accepted: n, Settled: tidemill.Count{Delivered: n}}
	if got, err := acks.(tidemill.Bookkeeper).Books(t.Context()); err != nil || got != want || applied != n {
		t.Errorf("%d of %d acks were applied, books are %+v, %v", applied, n, got, err)
	}
}

func TestAClockThatGoesBackLosesNoDelayedJob(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s := newFile(t, Options{Now: func() time.Time { return now }}).open()
	src := s.Open("q", queue.Options{Lease: 24 * time.Hour})
	if err := s.Add(t.Context(), numbered(1500), nil); err != nil {
		t.Fatal(err)
	}
	late := &tidemill.Message{ID: "late", To: "q", At: now.Add(time.Second)}
	if err := s.Add(t.Context(), []*tidemill.Message{late}, nil); err != nil {
		t.Fatal(err)
	}
	got := 0
	take := func(n int) {
		t.Helper()
		k, err := src.Receive(t.Context(), slots(n))
		if err != nil {
			t.Fatal(err)
		}
		got += k
	}
	now = now.Add(2 * time.Second) // the late job is due, and behind the others
	take(10)
	now = now.Add(-time.Hour)
	for got < 1500 {
		take(1500 - got)
	}
	into := slots(1)
	look := func(d time.Duration) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return src.Receive(ctx, into)
	}
	n, err := look(50 * time.Millisecond) // it was due once: now, or when the clock says so again
	if n == 0 {
		now = now.Add(2 * time.Hour)
		n, err = look(10 * time.Second)
	}
	if n != 1 || into[0].ID != "late" {
		t.Fatalf("received %q, %v; want the late job", into[0].ID, err)
	}
}

// TestAClockThatStepsBackKeepsOrder: the younger job of a key was added at an earlier time.
func TestAClockThatStepsBackKeepsOrder(t *testing.T) {
	for name, back := range map[string]func(*testing.T, tidemill.Source, *tidemill.Message, *time.Time){
		"after a retry": func(t *testing.T, src tidemill.Source, m *tidemill.Message, _ *time.Time) {
			if err := src.Settle(t.Context(), []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, End: tidemill.Again, CountTry: true}}); err != nil {
				t.Fatal(err)
			}
		},
		"after a lease that ended": func(_ *testing.T, _ tidemill.Source, _ *tidemill.Message, now *time.Time) {
			*now = now.Add(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMilli(1_800_000_000_000)
			s := newFile(t, Options{Now: func() time.Time { return now }}).open()
			src := s.Open("q", queue.Options{Ordered: true, Lease: time.Second})
			if _, err := s.Set(t.Context(), "q", func(q *queue.Settings) { q.Ordered = true }); err != nil {
				t.Fatal(err)
			}
			first := func() *tidemill.Message {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				into := []*tidemill.Message{new(tidemill.Message), new(tidemill.Message)}
				if n, err := src.Receive(ctx, into); n == 0 {
					t.Logf("nothing: %v", err)
					return new(tidemill.Message)
				}
				return into[0]
			}
			for _, id := range []string{"older", "younger"} {
				if err := s.Add(t.Context(), []*tidemill.Message{{ID: id, To: "q", Key: []byte("k")}}, nil); err != nil {
					t.Fatal(err)
				}
				now = now.Add(-5 * time.Millisecond)
			}
			m := first()
			back(t, src, m, &now)
			if again := first(); m.ID != "older" || again.ID != "older" {
				t.Errorf("first %q, then %q, want the older one both times", m.ID, again.ID)
			}
		})
	}
}
