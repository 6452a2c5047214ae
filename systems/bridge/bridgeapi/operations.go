package bridgeapi

import (
	"io"
	"net/http"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// Of the bridge.
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
