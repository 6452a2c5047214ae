//go:build !embedded

package system

import (
	"log/slog"

	"github.com/tidemill/tidemill/source/bullmqsource"
	"github.com/tidemill/tidemill/source/redissource"
)

// OfStream counts and logs what happened to a stream that its pipeline did not cause.
func (h *Host) OfStream(log *slog.Logger, pipeline string, r redissource.Report) {
	h.Report(pipeline, string(r.What), r.Count)
	switch r.What {
	case redissource.Claimed, redissource.Drained, redissource.Removed:
		// Logged when entries of a consumer that is gone were taken over (`claimed`), entries that nobody
		// would have got were found (`drained`), or idle consumers were removed (`removed`).
		log.Info("the stream was tidied up", "pipeline", pipeline, "what", string(r.What), "count", r.Count, "ids", r.IDs, "text", r.Text)
	default:
		// Logged when a stream is not as the pipeline left it: entries were deleted before they were settled
		// (`lost`), it knows less than it did (`went_back`), its group was gone (`new_group`), the consumer's
		// name is another's (`renamed`), or several groups forbid to drain it (`no_drain`).
		// To do: do what `text` says. After `lost` and `went_back` let senders send that time again, and
		// make the stream keep what is not read: no MAXLEN below the backlog, AOF, noeviction.
		log.Warn("the stream was changed by others", "pipeline", pipeline, "what", string(r.What), "count", r.Count, "ids", r.IDs, "text", r.Text)
	}
}

// OfJobs counts and logs what happened to jobs of BullMQ that their pipeline did not cause.
func (h *Host) OfJobs(log *slog.Logger, pipeline string, r bullmqsource.Report) {
	h.Report(pipeline, string(r.What), uint64(r.Count))
	// Logged when jobs of a queue of BullMQ are not as the pipeline left them, as after a crash of their
	// worker, or when they were removed by hand; `what` and `text` say which.
	// To do: do what `text` says.
	log.Warn("something happened to jobs of BullMQ", "pipeline", pipeline, "what", string(r.What), "count", r.Count, "ids", r.IDs, "text", r.Text)
}
