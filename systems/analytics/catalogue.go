package analytics

import (
	"context"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// see catalogues the names of a stored event. If more of them are new than may wait and they
// cannot be written, the batch waits: no name is dropped. The rows are stored by then, and
// inserting them again changes nothing.
func (s *System) see(ctx context.Context, e *event.Event) error {
	for !s.catalog.See(e) {
		err := retry(ctx, policy.Definitions, func() error { return s.catalog.Flush(ctx) })
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		default:
			// Logged when the database of names does not answer for so long that no more names fit
			// into memory; events wait at the source.
			// To do: make that database answer; then it goes on by itself, and nothing is lost.
			s.options.Log.ErrorContext(ctx, "new names of events and properties can neither be written nor wait, flushing waits", "error", err)
			return &tidemill.Error{Kind: tidemill.RateLimit, After: 5 * time.Second, Err: err}
		}
	}
	return nil
}

// retry calls do until it succeeds, with the number of tries and the pauses of r, and returns
// its last error. It stops when ctx ends.
func retry(ctx context.Context, r policy.Retry, do func() error) error {
	for try := 0; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait, more := r.Next(try, 0.5)
		if !more || sleep.For(ctx, wait) != nil {
			return err
		}
	}
}
