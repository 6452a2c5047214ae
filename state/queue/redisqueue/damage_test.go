package redisqueue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/state/queue"
)

// A job that cannot be read comes back when its lease ends, whatever became of those that
// were handed out with it; mended it is a job like all others.
func TestAJobThatCannotBeReadComesBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ahead := new(atomic.Int64)
		b := newTable(t, client, Options{ahead: func() time.Duration { return time.Duration(ahead.Load()) }})
		c := &bounds{b, b.Open("q", queue.Options{Lease: time.Minute}), ahead}
		for _, id := range []string{"good", "bad"} {
			c.add(&tidemill.Message{ID: id, To: "q", Payload: []byte("p")})
		}
		records := c.hash("j0")
		sound := records["2"]
		spoilt := []byte(sound)
		spoilt[6] = 0xff // its form, behind the time that it was added
		c.do("HSET", c.key("j0"), "2", string(spoilt))

		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		into := []*tidemill.Message{{}, {}}
		n, err := c.src.Receive(ctx, into)
		if n != 1 || err != nil || into[0].ID != "good" {
			t.Fatalf("received %d, %v, %+v; want the good one", n, err, into[0])
		}
		ends := []tidemill.Settlement{{ID: "good", Mark: into[0].Mark, Fate: tidemill.Delivered}}
		if err := c.src.Settle(t.Context(), ends); err != nil || ends[0].Took != tidemill.Applied {
			t.Fatal(err, ends[0].Took)
		}
		if err := c.src.(tidemill.Keeper).Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
		ahead.Add(int64(2 * time.Minute))
		if n, err = c.src.Receive(ctx, into); n != 0 || !errors.Is(err, errRecord) {
			t.Fatalf("received %d, %v; want that the other cannot be read", n, err)
		}
		c.do("HSET", c.key("j0"), "2", sound)
		ahead.Add(int64(2 * time.Minute))
		if n, err = c.src.Receive(ctx, into); n != 1 || err != nil || into[0].ID != "bad" {
			t.Fatalf("received %d, %v, %+v; want the one that was mended", n, err, into[0])
		}
	})
}
