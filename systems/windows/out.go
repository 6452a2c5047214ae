package windows

import (
	"context"

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

func (e each) Begin(context.Context) (Delivery, error) { return e, nil }
func (e each) Whole() bool                             { return false }
func (e each) Commit(context.Context) error            { return nil }
func (e each) Abort(context.Context)                   {}
