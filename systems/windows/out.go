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
	// Whole reports whether a delivery is atomic. If not, what was written before an error
	// stays, and is written again later with the rest.
	Whole() bool
}

// Delivery is the delivery of one window, in parts. It is not safe for concurrent use.
type Delivery interface {
	tidemill.Sink
	// Commit ends it: nil means that everything written is durable.
	Commit(ctx context.Context) error
	// Abort gives it up. After Commit it does nothing.
	Abort(ctx context.Context)
}

// Each is an Out whose records each become visible on their own.
func Each(sink tidemill.Sink) Out { return each{sink} }

type each struct{ tidemill.Sink }

// Pinger is an Out, or a sink of Each, that can be asked whether it answers. If nothing of a
// part could be written, the answer tells one topic that takes nothing from brokers that are
// all down.
type Pinger interface {
	// Ping returns nil if it is answered.
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

// answers reports whether records are known to be writable elsewhere.
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
