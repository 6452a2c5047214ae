package analytics

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

// Decodes says whether a replay could read a message. The error says what is wrong with it.
func (s *System) Decodes(_ string, m *tidemill.Message) error {
	var e event.Event
	e.Reset()
	if err := event.DecodeMessage(m, s.options.Clock, &e); err != nil {
		return err
	}
	return event.Validate(&e)
}
