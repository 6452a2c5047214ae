package redisqueue

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
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
		if err := c.src.Settle(t.Context(), ends); err != nil || ends[0].Outcome != tidemill.Applied {
			t.Fatal(err, ends[0].Outcome)
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

// One that cannot be read does not hide the others from an operator, who can remove it.
func TestADeskWithAJobThatCannotBeRead(t *testing.T) {
	for name, filter := range map[string]queue.Filter{"all": {Queue: "q"}, "by its name": {Queue: "q", IDs: []string{"job1"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{})
			b.add(numbered(0, 3)...)
			key := b.tags[0] + "1:j0"
			rec, err := b.client.Do(t.Context(), b.client.B().Hget().Key(key).Field("2").Build()).ToString()
			if err != nil {
				t.Fatal(err)
			}
			spoilt := []byte(rec)
			spoilt[addedBytes] = 0xff
			if err := b.client.Do(t.Context(), b.client.B().Hset().Key(key).FieldValue().FieldValue("2", string(spoilt)).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for j, err := range b.List(t.Context(), queue.Filter{Queue: "q"}) {
				if err != nil {
					t.Fatal(err)
				}
				if ids = append(ids, j.ID); j.ID == "" && (j.Cause != errRecord.Error() || j.State != queue.Waiting) {
					t.Errorf("it is %s because of %q; want it waiting, and said what it is", j.State, j.Cause)
				}
			}
			if !slices.Equal(ids, []string{"job0", "", "job2"}) {
				t.Errorf("jobs are %q", ids)
			}
			if _, err := b.Look(t.Context(), queue.Name{Queue: "q", ID: "job1"}); !errors.Is(err, errRecord) {
				t.Errorf("looked at by its name: %v; want %v", err, errRecord)
			}
			want := 3
			if len(filter.IDs) > 0 {
				want = 1
			}
			if n, err := b.Remove(t.Context(), filter); n != want || err != nil {
				t.Errorf("removed %d, %v; want %d", n, err, want)
			}
			if st, err := b.Stats(t.Context(), "q"); err != nil || st.Waiting != int64(3-want) {
				t.Errorf("%+v, %v: want %d left", st, err, 3-want)
			}
		})
	}
}
