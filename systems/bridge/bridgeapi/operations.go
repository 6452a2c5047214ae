package bridgeapi

import (
	"io"
	"net/http"
	"time"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// GetBridge shows how the bridge stands.
var GetBridge = operation.View[operation.None, Bridge]("getBridge", "bridge",
	"Show how the bridge stands: its stream, who has what of it, and what this instance has published. Where one entry is, explain says.").For(caller.Viewer)

// Bridge is how the bridge stands. Its counters are of this instance, since it started.
type Bridge struct {
	State        string           `json:"state"`
	Stream       string           `json:"stream,omitempty"`           // in Redis; left out: the embedded one
	Topic        string           `json:"publish_topic"`              // where entries are published
	AckTopic     string           `json:"ack_topic,omitempty"`        // where they are acknowledged; left out: the broker's acknowledgement is enough
	DeadTopic    string           `json:"dead_topic,omitempty"`       // where entries are published that are given up
	Length       int64            `json:"length"`                     // entries in the stream
	Pending      int64            `json:"pending"`                    // of these: handed out, and not ended
	Delayed      int64            `json:"delayed"`                    // of these: failed, and published again later
	Oldest       *time.Time       `json:"oldest_at,omitempty"`        // when the oldest entry was added; left out: there is none
	Consumers    []BridgeConsumer `json:"consumers"`                  // of all instances; none of the embedded stream
	Published    uint64           `json:"published"`                  // messages that the broker took, repetitions included
	Acknowledged uint64           `json:"acknowledged"`               // entries that ended so
	Refused      uint64           `json:"refused"`                    // negative acknowledgements
	Dead         uint64           `json:"dead"`                       // entries that were given up
	Unanswered   int              `json:"unanswered"`                 // entries published three times or more without an acknowledgement, at most 10,000
	Example      string           `json:"unanswered_entry,omitempty"` // the id of the one that was published most often
}

// BridgeConsumer is an instance that reads the stream.
type BridgeConsumer struct {
	Name    string  `json:"name"`
	Pending int64   `json:"pending"`      // entries that it has
	Idle    float64 `json:"idle_seconds"` // since it last asked for entries or renewed them
}

// OneConsumer names a consumer of the stream.
type OneConsumer struct {
	Consumer string `path:"consumer"`
}

// GetConsumer shows what a consumer has.
var GetConsumer = operation.View[OneConsumer, Consumer]("getBridgeConsumer", "bridge/consumers/{consumer}",
	"Show what a consumer of the stream in Redis has pending, and whether takeOverConsumer would take it over.").For(caller.Viewer)

// Consumer is what a consumer has, its oldest entries first, at most 20.
type Consumer struct {
	BridgeConsumer
	Held    float64         `json:"held_seconds,omitempty"` // how long its name is still that of a process, which renews it while it runs; left out: nobody goes by it, and its entries can be taken over
	Entries []ConsumerEntry `json:"entries"`
}

// ConsumerEntry is an entry that a consumer has.
type ConsumerEntry struct {
	ID     string  `json:"id"`
	Idle   float64 `json:"idle_seconds"` // since it was handed out, or its lease was renewed
	Handed int     `json:"handed"`       // how often it was handed out
}

// TakeOver takes over what a consumer has.
var TakeOver = operation.Act[OneConsumer, TakenOver]("takeOverConsumer", "bridge/consumers/{consumer}/take-over",
	"Take over all that a consumer of the stream in Redis has pending: this instance publishes it again at once, and does not wait until its lease is over; what is delayed keeps its time. The consumer leaves the group. One whose process runs, or ended less than a lease ago, is refused with 409. A program of others that reads the group and still works goes on with what it has, so that it is published twice.").For(caller.Operator)

// TakenOver is how many entries were taken over.
type TakenOver struct {
	Taken int `json:"taken"`
}

// SendEntries puts entries into the embedded stream.
var SendEntries = operation.Act[SentEntries, Entries]("sendEntries", "bridge/entries",
	"Put entries into the stream of the embedded bridge, a line each: its bytes are the payload. Of another type than application/x-ndjson the body is one entry. With the header Idempotency-Key the ids are made of it, so that sending the same again adds nothing.").AsIngest().WithOwnKey()

// SentEntries are entries that are sent.
type SentEntries struct {
	Body io.Reader `body:"application/x-ndjson" mib:"20"`
}

// Entries are entries that are durable.
type Entries struct {
	IDs []string `json:"ids"`
}

// Status is 202.
func (Entries) Status() int { return http.StatusAccepted }
