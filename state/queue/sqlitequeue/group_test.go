package sqlitequeue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

func TestCallersWhoGiveUpDoNotStopOthers(t *testing.T) {
	s := newFile(t, Options{}).open()
	const callers, calls = 24, 100
	var mu sync.Mutex
	added, gaveUp := 0, 0
	var all sync.WaitGroup
	for c := range callers {
		rng := rand.New(rand.NewPCG(1, uint64(c)))
		all.Go(func() {
			for i := range calls {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
				err := s.Add(ctx, []*tidemill.Message{{ID: fmt.Sprint(c, "/", i), To: "q"}}, nil)
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					added++
				case errors.Is(err, context.DeadlineExceeded):
					gaveUp++
				default:
					t.Errorf("add: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.committers[0].mu.Lock()
	leaders, waiting := s.committers[0].leaders, len(s.committers[0].waiting)
	s.committers[0].mu.Unlock()
	if leaders != 0 || waiting != 0 {
		t.Fatalf("nobody adds, but %d lead and %d wait", leaders, waiting)
	}
	if added == 0 || gaveUp == 0 {
		t.Errorf("%d added and %d gave up: that shows nothing", added, gaveUp)
	}
	books, err := s.Open("q", queue.Options{}).(tidemill.Bookkeeper).Books(t.Context())
	if err != nil || books.Accepted != uint64(added) || books.Off() != 0 {
		t.Errorf("books are %+v, %v; want %d accepted", books, err, added)
	}
}

func TestTheLeadNeverGetsLost(t *testing.T) {
	s := newFile(t, Options{}).open()
	for round := range 20 {
		var all sync.WaitGroup
		for c := range 64 {
			all.Go(func() {
				for i := range 10 {
					m := &tidemill.Message{ID: fmt.Sprint(round, "/", c, "/", i), To: "q"}
					if err := s.Add(t.Context(), []*tidemill.Message{m}, nil); err != nil {
						t.Errorf("add: %v", err)
					}
				}
			})
		}
		all.Wait()
		s.committers[0].mu.Lock()
		leaders := s.committers[0].leaders
		s.committers[0].mu.Unlock()
		if leaders != 0 {
			t.Fatalf("after round %d nobody adds, but %d lead", round, leaders)
		}
	}
}

func TestWhoeverWasToldToLeadLeads(t *testing.T) {
	var g committer
	for range 50 { // which of two events a select takes is the runtime's choice
		in := &intake{done: make(chan struct{}), lead: make(chan struct{}, 1)}
		in.lead <- struct{}{}
		close(in.done) // another leader wrote it meanwhile
		if !g.waits(t.Context(), nil, in) {
			t.Fatal("the lead was passed to a caller who was done, and got lost")
		}
	}
}
