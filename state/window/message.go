package window

import (
	"fmt"
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

// Fill writes the message of the newest hand-out.
func (e *Entry) Fill(m *tidemill.Message) error {
	s := Summary{Batch: e.Batch, Revision: e.Revision, Records: e.Records, Bytes: e.Bytes, Opened: e.Opened, Closed: e.Closed, Why: e.Why}
	payload, err := json.Marshal(&s)
	if err != nil {
		s.Batch = fmt.Sprintf("%q", e.Batch) // it is not UTF-8: Key has the exact bytes
		if payload, err = json.Marshal(&s); err != nil {
			return fmt.Errorf("describe window %q: %w", e.ID, err)
		}
	}
	*m = tidemill.Message{ID: e.ID, Type: Type, Key: append(m.Key[:0], e.Batch...), Payload: append(m.Payload[:0], payload...), Header: m.Header[:0],
		Time: e.Opened, Tries: e.Tries, Handed: e.Handed, Mark: e.Position()}
	return nil
}

// Read reads the Summary of a window's message.
func Read(m *tidemill.Message) (Summary, error) {
	var s Summary
	if err := json.Unmarshal(m.Payload, &s); err != nil {
		return s, tidemill.Fail(tidemill.Internal, "read the message of window %q: %w", m.ID, err)
	}
	s.Batch = string(m.Key)
	return s, nil
}
