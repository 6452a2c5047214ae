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
	s.group.mu.Lock()
	leaders, waiting := s.group.leaders, len(s.group.waiting)
	s.group.mu.Unlock()
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
