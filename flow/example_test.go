package flow_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
)

// numbers is the smallest possible source: a slice that is handed out once.
type numbers struct {
	texts []string
	next  int
	left  int
	done  func()
}

func (s *numbers) Traits() tidemill.Traits { return tidemill.Traits{} }

func (s *numbers) Receive(ctx context.Context, into []*tidemill.Message) (int, error) {
	n := 0
	for ; n < len(into) && s.next < len(s.texts); n++ {
		into[n].ID = "message " + strconv.Itoa(s.next)
		into[n].Payload = append(into[n].Payload[:0], s.texts[s.next]...)
		s.next++
	}
	if n == 0 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return n, nil
}

func (s *numbers) Settle(_ context.Context, ends []tidemill.Settlement) error {
	for i := range ends {
		ends[i].Outcome = tidemill.Applied
		if s.left--; s.left == 0 {
			s.done()
		}
	}
	return nil
}

// printed is a store of dead letters that prints them.
type printed struct{}

func (printed) Put(_ context.Context, ls []tidemill.DeadLetter) error {
	for _, l := range ls {
		fmt.Printf("dead: %s: %s (%v): %s\n", l.Message.ID, l.Message.Payload, l.Kind, l.Cause)
	}
	return nil
}

func (printed) Has(_ context.Context, _ string, ids []string, _ []tidemill.Mark) ([]bool, error) {
	return make([]bool, len(ids)), nil
}

// Numbers as text are read, the odd ones skipped, the even ones added up.
func Example() {
	sum := 0
	steps := flow.Steps[int]{
		Decode: func(m *tidemill.Message, n *int) (err error) {
			if *n, err = strconv.Atoi(string(m.Payload)); err != nil {
				return tidemill.Fail(tidemill.Validation, "no number")
			}
			return nil
		},
		Stages: []flow.Stage[int]{
			{Name: "even", Do: func(_ context.Context, batch []*flow.Item[int]) error {
				for _, it := range batch {
					if it.Value%2 == 1 {
						it.Skip("odd")
					}
				}
				return nil
			}},
			{Name: "add", Retry: policy.Database, Do: func(_ context.Context, batch []*flow.Item[int]) error {
				for _, it := range batch {
					sum += it.Value
				}
				return nil
			}},
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	source := &numbers{texts: []string{"1", "2", "three", "4", "5"}, left: 5, done: stop}
	engine, err := flow.New(flow.Pipeline{Name: "sum", Source: source, Work: steps.Lane, Dead: printed{}, Batch: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := engine.Run(ctx); err != nil {
		fmt.Println(err)
	}
	s := engine.Stats()
	fmt.Println("sum:", sum)
	fmt.Printf("%d delivered, %d skipped, %d dead\n", s.Settled.Delivered, s.Settled.Skipped, s.Settled.Dead)
	// Output:
	// dead: message 2: three (validation): no number
	// sum: 6
	// 2 delivered, 2 skipped, 1 dead
}
