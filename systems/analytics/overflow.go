package analytics

import (
	"context"

	"github.com/tidemill/tidemill"
)

// OverflowName is the pipeline, and the queue it reads, of dominating projects. With a pipeline
// of its own, their flood does not delay the events of others.
const OverflowName = Name + ".overflow"

// sharedLetters puts the dead letters of another pipeline with the system's, so that one replay
// and one set of books serve both. Their positions differ in the shard.
type sharedLetters struct{ tidemill.DeadLetters }

func (s sharedLetters) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	for i := range letters {
		letters[i].Pipeline = Name
	}
	return s.DeadLetters.Put(ctx, letters)
}

func (s sharedLetters) Has(ctx context.Context, _ string, ids []string, marks []tidemill.Mark) ([]bool, error) {
	return s.DeadLetters.Has(ctx, Name, ids, marks)
}

// books adds up the books of all sources.
func (s *System) books(ctx context.Context) (sum tidemill.Books, err error) {
	for _, source := range []tidemill.Source{s.parts.Source, s.parts.Overflow} {
		if source == nil {
			continue
		}
		keeper, ok := source.(tidemill.Bookkeeper)
		if !ok {
			return sum, errNoBooks
		}
		b, err := keeper.Books(ctx)
		if err != nil {
			return sum, err
		}
		sum.Accepted += b.Accepted
		sum.Settled.Add(b.Settled)
		sum.Pending += b.Pending
		sum.Lost += b.Lost
	}
	return sum, nil
}
