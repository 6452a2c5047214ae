package windowssystem

import (
	"context"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/windows"
)

// Names of the pipelines at the topics, and what the index's consumer group is called after
// the service.
const (
	eventsIntake   = "windows-events"
	mentionsIntake = "windows-mentions"
	eventsIndex    = "windows-index-events"
	mentionsIndex  = "windows-index-mentions"

	groupSuffix = "-group"
	indexSuffix = "-index"
)

// topics are where records come from and go to.
type topics struct {
	intakes []windows.Intake
	out     windows.Out
	readers []windows.Reader
}

// readers are those of the index, without what they read from; none: nothing is indexed
// here.
func (h *wiring) readers(s *stores) []windows.Reader {
	if s.index == nil {
		return nil
	}
	return []windows.Reader{{Name: eventsIndex, Schema: s.events}, {Name: mentionsIndex, Schema: s.mentions}}
}

// onQueues makes queues, in Redis or the embedded database, what records go to on their
// way to the index. Records come by HTTP and from files.
func (h *wiring) onQueues(ctx context.Context, s *stores) error {
	w := h.own
	queues := s.queues
	if queues == nil {
		queues = h.Opened().Queues
	}
	s.topics.out = windows.Each(queue.Sink(queues))
	s.topics.readers = h.readers(s)
	for n := range s.topics.readers {
		r := &s.topics.readers[n]
		topic := w.Topics.ProcessorEvent
		if r.Name == mentionsIndex {
			topic = w.Topics.ProcessorMention
		}
		o := queue.Options{Lease: w.Lease, Ordered: true} // of one key the newest comes last
		// Now, while nothing is in it: a queue that holds records keeps the order it has.
		if _, err := queues.Set(ctx, topic, func(s *queue.Settings) { s.Ordered = true }); err != nil {
			if tidemill.KindOf(err) != tidemill.Validation {
				return err
			}
			// Logged at the start after an upgrade, when the topic of indexing has records of the
			// older program: an older version of one may be indexed after a newer one.
			// To do: restart when it is empty; nothing if records are sent once.
			h.Log.WarnContext(ctx, "the topic holds records that were put without order", "topic", topic, "error", err)
			o.Ordered = false
		}
		r.Source = queues.Open(topic, o)
	}
	return nil
}
