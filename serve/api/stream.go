package api

import (
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// GetStream shows figures live.
var GetStream = operation.Events[StreamOf, StreamEvent]("getStream", "stream",
	"Show figures live, as server-sent events: each has the whole newest state of a topic, under the event's id, and Last-Event-ID leaves out what was seen. A topic is read once a second for all who listen; a client that is slow misses the states between, and one that takes nothing for 30 seconds is cut off. At most 200 listen to an instance; the next one is answered 503, and asks for what it wants every 10 seconds.").For(caller.Viewer).OfEach()

// StreamOf names topics.
type StreamOf struct {
	Topic []string `query:"topic" help:"What to show, up to 20 of them: overview, dead, live or live:FILTER (as live:system=delivery&owner=shop), queue:NAME, partner:NAME or pipeline:NAME." placeholder:"TOPIC"`
}

// StreamEvent is the newest state of a topic: one of the others is there beside it.
type StreamEvent struct {
	Topic    string          `json:"topic"`
	Overview *Overview       `json:"overview,omitempty"`
	Dead     *DeadGroups     `json:"dead,omitempty"`
	Queue    *Queue          `json:"queue,omitempty"` // of a queue, or a partner's
	Rates    *Rates          `json:"rates,omitempty"` // beside a queue
	Pipeline *PipelineStatus `json:"pipeline,omitempty"`
	Live     *Live           `json:"live,omitempty"`
	Problem  string          `json:"problem,omitempty"` // why it cannot be read now
}
