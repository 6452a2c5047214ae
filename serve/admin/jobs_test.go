package admin_test

import (
	"net/http"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// TestAJobThatNoWorkerCouldReadIsNotEdited holds that a slip of an edit does not end an event: a system may
// skip what it cannot read, and what was received is gone then.
func TestAJobThatNoWorkerCouldReadIsNotEdited(t *testing.T) {
	s := memoryqueue.New(memoryqueue.Options{})
	if err := s.Add(t.Context(), []*tidemill.Message{{To: "crm", ID: "e", Payload: []byte("good")}, {To: "other", ID: "e", Payload: []byte("good")}}, nil); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Owners: []admin.Owner{{System: "crm", Owns: func(pipeline string) bool { return pipeline == "crm" }}},
		Systems: []admin.System{{Name: "crm", Decodes: func(_ string, m *tidemill.Message) error {
			if m.ID != "e" || string(m.Payload) != "better" {
				return tidemill.Fail(tidemill.Validation, "it has no type")
			}
			return nil
		}}}})
	refused(t, d.ask("PUT", "queues/crm/job/payload?id=e", "bad"), http.StatusUnprocessableEntity, "a worker could not read the new payload, nothing is changed: it has no type")
	if j, err := s.Look(t.Context(), queue.Name{Queue: "crm", ID: "e"}); err != nil || string(j.Payload) != "good" {
		t.Errorf("the job is %+v, %v", j, err)
	}
	d.put("queues/crm/job/payload?id=e", "better")
	d.put("queues/other/job/payload?id=e", "bad")
}
