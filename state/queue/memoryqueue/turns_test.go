package memoryqueue

import (
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// Of a tenant and a key whose last job is gone nothing is kept.
func TestNothingIsKeptOfWhoHasNoJobs(t *testing.T) {
	q := newQueueState("q", 1)
	q.settings.Fair = queue.ByKey
	now := time.Unix(1_700_000_000, 0)
	for _, m := range []tidemill.Message{{ID: "1", Tenant: "a", Key: []byte("x")}, {ID: "2", Tenant: "a", Key: []byte("y")}, {ID: "3", Tenant: "b"}} {
		if got := q.add(&m, now, 10); got != queue.New {
			t.Fatalf("job %s became %v", m.ID, got)
		}
	}
	for _, j := range q.jobs {
		q.pull(j)
	}
	for _, lv := range q.levels {
		if len(lv.kids) != 0 || len(lv.ring) != 0 || lv.waiting != 0 {
			t.Errorf("kept: %+v", lv.node)
		}
	}
}
