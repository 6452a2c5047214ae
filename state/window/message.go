package window

import (
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
)

// Summary is the payload of a window's message.
type Summary struct {
	Batch    string    `json:"batch"`
	Revision uint64    `json:"revision"`
	Records  int64     `json:"records"`
	Bytes    int64     `json:"bytes"`
	Opened   time.Time `json:"opened"`
	Closed   time.Time `json:"closed"`
	Why      Why       `json:"why"`
}

// Type is the type of every message of a window.
const Type = "window"

// Read reads the Summary of a window's message.
func Read(m *tidemill.Message) (Summary, error) {
	var s Summary
	if err := json.Unmarshal(m.Payload, &s); err != nil {
		return s, tidemill.Fail(tidemill.Internal, "read the message of window %q: %w", m.ID, err)
	}
	s.Batch = string(m.Key)
	return s, nil
}
