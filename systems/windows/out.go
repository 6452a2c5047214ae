package windows

import (
	"context"
	"errors"
	"time"

	"github.com/tidemill/tidemill"
)

// Out is where the records of windows go: topics of Kafka, or queues of the embedded
// database.
type Out interface {
	// Begin begins the delivery of one window.
	Begin(ctx context.Context) (Delivery, error)
	// Whole says that a delivery appears wholly or not at all. Of one that does not, what
	// was written before an error stays, and is written again with the rest later.
	Whole() bool
}

// Delivery is that of one window, in parts. It is used by one goroutine at a time.
type Delivery interface {
	tidemill.Sink
	// Commit ends it well: nil means that all that was written is durable.
	Commit(ctx context.Context) error
	// Abort ends it otherwise. After Commit it does nothing.
	Abort(ctx context.Context)
}

// Each is a sink in which every record appears by itself.
func Each(sink tidemill.Sink) Out { return each{sink} }

type each struct{ tidemill.Sink }

// Pinger is an Out, or a sink of Each, that can be asked whether anybody is there: where
// nothing of a part could be written, that tells a topic that takes nothing from brokers that
// are away as a whole.
type Pinger interface {
	// Ping returns nil when it is answered.
	Ping(ctx context.Context) error
}

// Ping implements Pinger.
func (e each) Ping(ctx context.Context) error {
	if p, ok := e.Sink.(Pinger); ok {
		return p.Ping(ctx)
	}
	return errors.ErrUnsupported
}

// pingWithin is how long an answer to a Ping may take.
const pingWithin = 5 * time.Second

// answers says whether it is known that records could be written elsewhere.
func (s *System) answers(ctx context.Context) bool {
	p, ok := s.p.Out.(Pinger)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	return p.Ping(ctx) == nil
}

func (e each) Begin(context.Context) (Delivery, error) { return e, nil }
func (e each) Whole() bool                             { return false }
func (e each) Commit(context.Context) error            { return nil }
func (e each) Abort(context.Context)                   {}
