package entry

import (
	"encoding/json"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/window"
)

// Fill writes the message of the newest hand-out.
func (e *Entry) Fill(m *tidemill.Message) error {
	s := window.Summary{Batch: e.Batch, Revision: e.Revision, Records: e.Records, Bytes: e.Bytes, Opened: e.Opened, Closed: e.Closed, Why: e.Why}
	payload, err := json.Marshal(&s)
	if err != nil {
		s.Batch = fmt.Sprintf("%q", e.Batch) // it is not UTF-8: Key has the exact bytes
		if payload, err = json.Marshal(&s); err != nil {
			return fmt.Errorf("describe window %q: %w", e.ID, err)
		}
	}
	*m = tidemill.Message{ID: e.ID, Type: window.Type, Key: append(m.Key[:0], e.Batch...), Payload: append(m.Payload[:0], payload...), Header: m.Header[:0],
		Time: e.Opened, Tries: e.Tries, Handed: e.Handed, Mark: e.Position()}
	return nil
}
