package delivery

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Decodes says whether a replay of a pipeline's dead letters could read a message. The error says
// what is wrong with it.
func (s *System) Decodes(_ string, m *tidemill.Message) error {
	_, err := partner.ReadEvent(m, EventOf(m))
	return err
}
