package serverclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/serverclock"
)

// server is a clock that is ahead of this machine's, behind a network.
type server struct {
	ahead time.Duration
	trip  time.Duration // there and back
	fails error
	asked int
}

func (s *server) ask(ctx context.Context) (time.Time, error) {
	s.asked++
	time.Sleep(s.trip / 2)
	now := time.Now().Add(s.ahead)
	time.Sleep(s.trip - s.trip/2)
	return now, s.fails
}

func TestTheServersClockGoesOnHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{ahead: 3 * time.Hour, trip: 40 * time.Millisecond}
		c, err := serverclock.New(t.Context(), s.ask)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if got, want := c.Now(), time.Now().Add(s.ahead); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("Now = %v, want %v", got, want.UTC())
			}
			time.Sleep(5 * time.Second)
		}
		if s.asked != 1 {
			t.Errorf("asked %d times in 50 s, want once", s.asked)
		}
	})
}

func TestTheServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{ahead: time.Hour, trip: 2 * time.Second}
		c, err := serverclock.New(t.Context(), s.ask)
		if err != nil {
			t.Fatal(err)
		}
		s.ahead = time.Hour + 7*time.Second // it drifted
		time.Sleep(time.Minute)
		if got, want := c.Now(), time.Now().Add(time.Hour); !got.Equal(want) {
			t.Errorf("while the server is asked: %v, want %v by the last answer", got, want)
		}
		for range 5 {
			c.Now()
		}
		time.Sleep(3 * time.Second)
		if got, want := c.Now(), time.Now().Add(s.ahead); !got.Equal(want) || s.asked != 2 {
			t.Errorf("Now = %v, want %v; asked %d times, want 2", got, want, s.asked)
		}
	})
}

func TestAServerThatIsAwayChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{ahead: time.Hour}
		ctx, end := context.WithCancel(t.Context())
		c, err := serverclock.New(ctx, s.ask)
		if err != nil {
			t.Fatal(err)
		}
		s.fails = errors.New("away")
		for range 10 * 60 {
			time.Sleep(time.Second)
			if got, want := c.Now(), time.Now().Add(s.ahead); !got.Equal(want) {
				t.Fatalf("Now = %v, want %v", got, want)
			}
			synctest.Wait()
		}
		if s.asked != 11 {
			t.Errorf("asked %d times in ten minutes, want once and then once a minute", s.asked)
		}
		end()
		time.Sleep(time.Hour)
		c.Now()
		synctest.Wait()
		if s.asked != 11 {
			t.Error("the server was asked after the owner's end")
		}
		if _, err := serverclock.New(t.Context(), s.ask); !errors.Is(err, s.fails) {
			t.Errorf("a clock of a server that is away: %v, want its error", err)
		}
	})
}
