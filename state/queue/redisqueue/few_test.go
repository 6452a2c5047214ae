package redisqueue

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// Small bodies are packed only where a queue holds many jobs, whichever way they come in.
func TestPackedWhereManyWait(t *testing.T) {
	b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{plain: 120})
	beside := b.Beside(redisconn.Part{Lua: counting, Keys: []string{b.tags[0] + "counts"}, Args: func() []string { return []string{"no"} }})
	ways := []func(context.Context, *tidemill.Message) error{
		func(ctx context.Context, m *tidemill.Message) error { return b.Add(ctx, []*tidemill.Message{m}, nil) },
		func(ctx context.Context, m *tidemill.Message) error {
			_, err := beside.Add(ctx, []string{m.ID}, []string{"1"}, []*tidemill.Message{m})
			return err
		},
	}
	rng := rand.New(rand.NewPCG(5, 6))
	job := func(to string, times int) *tidemill.Message {
		id, payload := event(rng)
		return &tidemill.Message{ID: id, To: to, Payload: []byte(strings.Repeat(string(payload), times))}
	}
	packed := func(to string) (n int) {
		t.Helper()
		no, err := b.client.Do(t.Context(), b.client.B().Hget().Key(b.tags[0]+"queues").Field(to).Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		recs, err := b.client.Do(t.Context(), b.client.B().Hvals().Key(b.tags[0]+no+":j0").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range recs {
			if rec[addedBytes] == formDict {
				n++
			}
		}
		return n
	}
	for i, add := range ways {
		to := "q" + strconv.Itoa(i)
		put := func(n, times int) {
			t.Helper()
			for range n {
				if err := add(t.Context(), job(to, times)); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(120, 1)
		if n := packed(to); n != 0 {
			t.Errorf("%s: %d jobs are packed while it holds few", to, n)
		}
		put(10, 3)
		if n := packed(to); n != 10 {
			t.Errorf("%s: %d large jobs of 10 are packed", to, n)
		}
		put(10, 1)
		if n := packed(to); n != 20 {
			t.Errorf("%s: %d jobs are packed of 20 that came when it held many, or are large", to, n)
		}
		src := b.Open(to, queue.Options{})
		b.deliver(src, b.take(src, 140)...)
		put(1, 1) // it is known only then that it is empty
		put(10, 1)
		if n := packed(to); n > 1 {
			t.Errorf("%s: %d jobs are packed while it holds few again", to, n)
		}
	}
}
