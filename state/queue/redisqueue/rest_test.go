package redisqueue

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// A source that has handed out all there was does not ask again before something comes, or
// time has passed: whatever brings a job about has to wake it.
func TestARestingSourceIsWoken(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		for name, bring := range map[string]func(*resting){
			"by a job that is added":    func(r *resting) { r.add("new") },
			"by a job that comes due":   func(r *resting) { r.addAt("new", time.Now().Add(300*time.Millisecond)) },
			"by a job that is put back": func(r *resting) { r.settle(tidemill.Settlement{End: tidemill.Again}) },
			"by a job that is put off":  func(r *resting) { r.settle(tidemill.Settlement{End: tidemill.Again, After: 300 * time.Millisecond}) },
			"by a job that another forwards": func(r *resting) {
				r.settle(tidemill.Settlement{Fate: tidemill.Delivered, Next: []*tidemill.Message{r.job("child")}})
			},
			"by a lease that ends": func(*resting) {},
			"by room that somebody makes under a limit": func(r *resting) {
				r.set(queue.Limit{AtOnce: 1})
				r.add("new")
				r.settle(tidemill.Settlement{Fate: tidemill.Delivered})
			},
			"by a limit that is taken away":             func(r *resting) { r.set(queue.Limit{AtOnce: 1}); r.add("new"); r.set(queue.Limit{}) },
			"by a gate that opens, once its time is up": func(r *resting) { r.gate(time.Now().Add(300 * time.Millisecond)); r.add("new") },
			"by a gate that is opened":                  func(r *resting) { r.gate(time.Now().Add(time.Hour)); r.add("new"); r.gate(time.Time{}) },
			"by a job that is made due":                 func(r *resting) { r.addAt("new", time.Now().Add(time.Hour)); r.promote() },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s, err := New(client, Options{Prefix: testenv.Name("rest:"), Shards: 1})
				if err != nil {
					t.Fatal(err)
				}
				r := &resting{T: t, Store: s, src: s.Open("q", queue.Options{Lease: time.Minute}), got: make(chan int, 1)}
				r.other = s.Open("q", queue.Options{Lease: 2 * time.Second})
				r.add("first")
				r.first = r.take(r.other)
				r.add("second")
				r.take(r.src) // from here on it rests
				go func() {
					n, _ := r.src.Receive(t.Context(), []*tidemill.Message{new(tidemill.Message)})
					r.got <- n
				}()
				bring(r)
				select {
				case n := <-r.got:
					if n != 1 {
						t.Errorf("%d jobs were handed out, want one", n)
					}
				case <-time.After(redisconn.Longest - 500*time.Millisecond):
					t.Error("it was not woken")
				}
			})
		}
	})
}

// resting is a source that rests, while another holds a job.
type resting struct {
	*testing.T
	*Store
	src, other tidemill.Source
	first      *tidemill.Message
	got        chan int
}

func (r *resting) fail(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *resting) take(src tidemill.Source) *tidemill.Message {
	r.Helper()
	m := new(tidemill.Message)
	n, err := src.Receive(r.Context(), []*tidemill.Message{m})
	if n != 1 || err != nil {
		r.Fatalf("%d jobs were handed out, %v; want one", n, err)
	}
	return m
}

func (r *resting) job(id string) *tidemill.Message {
	return &tidemill.Message{ID: id, To: "q", Payload: []byte(id)}
}

func (r *resting) add(id string) { r.addAt(id, time.Time{}) }

func (r *resting) addAt(id string, at time.Time) {
	m := r.job(id)
	m.At = at
	r.fail(r.Add(r.Context(), []*tidemill.Message{m}, nil))
}

func (r *resting) settle(e tidemill.Settlement) {
	e.ID, e.Mark = r.first.ID, r.first.Mark
	r.fail(r.other.Settle(r.Context(), []tidemill.Settlement{e}))
}

func (r *resting) set(l queue.Limit) {
	_, err := r.Set(r.Context(), "q", func(s *queue.Settings) { s.Tenant = l })
	r.fail(err)
}

func (r *resting) gate(until time.Time) {
	r.fail(r.other.(tidemill.Gater).Gate(context.WithoutCancel(r.Context()), until, 1))
}

func (r *resting) promote() {
	n, err := r.Promote(r.Context(), queue.Filter{Queue: "q"})
	if r.fail(err); n != 1 {
		r.Fatalf("%d jobs were made due, want one", n)
	}
}
