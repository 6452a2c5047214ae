package crm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
)

// A replay of the queue's dead letters can read only the event that died: its job, the sync log
// and the dead letter are named by its id and its tenant.
func TestWhatAReplayCouldRead(t *testing.T) {
	event := func(id, tenant string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"type":"member.created","tenantId":%q,"identity":{"externalId":"m-1"},"occurredAt":"1999-12-31T10:00:00.000Z","payload":{}}`, id, tenant)
	}
	for _, c := range []struct {
		pipeline string
		payload  []byte
		ok       bool
	}{
		{Queue, event("e", "club"), true},
		{Queue, event("f", "club"), false},
		{Queue, event("e", "other"), false},
		{Queue + " by a later job", event("e", "club"), true},
		{Queue + " by a later job", event("replay-e~r", "club"), false},
		{Queue, []byte(`{"id":"e"}`), false},
		{Queue, []byte("e"), false},
		{"crm-bullmq", event("f", "other"), true}, // died before it was decoded
		{"crm-bullmq", []byte("e"), false},
	} {
		m := &tidemill.Message{ID: "e", Tenant: "club", Payload: c.payload}
		pipeline, later := strings.CutSuffix(c.pipeline, " by a later job")
		if later {
			m.ID, m.Header = replayName("e", "r"), []tidemill.Field{{Name: []byte(EventHeader), Value: []byte("e")}}
		}
		err := new(System).Decodes(pipeline, m)
		if (err == nil) != c.ok || err != nil && tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s, %s: %v", c.pipeline, c.payload, err)
		}
	}
}
