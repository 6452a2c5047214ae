package crm

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// Decodes says whether a replay of a pipeline's dead letters could read a message. The error
// says what is wrong with it. A dead event keeps its id and its tenant: its job, its entry in
// the sync log and its dead letter are named by them.
func (s *System) Decodes(pipeline string, m *tidemill.Message) error {
	var e event.Event
	if err := event.Decode(m.Payload, &e); err != nil {
		return err
	}
	if id := EventOf(m); pipeline == Queue && (e.ID != id || e.Tenant != m.Tenant) {
		return tidemill.Fail(tidemill.Validation, "it is event %q of tenant %q; the letter, or the job, is about event %q of tenant %q", e.ID, e.Tenant, id, m.Tenant)
	}
	return nil
}
