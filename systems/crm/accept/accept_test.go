package accept_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/priority"
)

func raw(tenant, id, typ string) []byte {
	return fmt.Appendf(nil, ` {"id":%q,"type":%q,"tenantId":%q,"identity":{"email":"a@b"},"occurredAt":"2026-01-15T10:00:00Z", "payload":{"n":1.50}}`, id, typ, tenant)
}

func TestAccept(t *testing.T) {
	q := memoryqueue.New(memoryqueue.Options{})
	a, err := accept.New(q, accept.Options{})
	if err != nil {
		t.Fatal(err)
	}
	may := func(tenant string) bool { return tenant != "foreign" }
	first := raw("club", "1", "payment.failed")
	results, err := a.Accept(t.Context(), [][]byte{first, raw("club", "1", "x"), []byte(`{"id":"2","tenantId":"club"}`), raw("foreign", "3", "x"), raw("other", "1", "email.opened"), []byte("{"),
		[]byte(`{"tenantId":"foreign"}`)}, may)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range results {
		why := ""
		if _, ok := errors.AsType[*event.Invalid](r.Err); ok {
			why = " invalid"
		} else if errors.Is(r.Err, accept.ErrTenant) {
			why = " tenant"
		}
		got = append(got, fmt.Sprintf("%s/%s %s%s", r.Tenant, r.ID, r.Status, why))
	}
	want := "[club/1 accepted club/1 duplicate club/2 rejected invalid foreign/3 rejected tenant other/1 accepted / rejected invalid foreign/ rejected tenant]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	job, err := q.Look(t.Context(), queue.Name{Queue: accept.Queue, Tenant: "club", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if job.Type != "payment.failed" || job.Priority != priority.High || string(job.Payload) != string(first) || job.Time.Year() != 2026 || len(job.Header) != 0 {
		t.Errorf("job %+v", job)
	}
}

func TestAQueueThatTakesNothing(t *testing.T) {
	q := memoryqueue.New(memoryqueue.Options{Capacity: 2})
	a, err := accept.New(q, accept.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := [][]byte{raw("club", "1", "x"), raw("club", "2", "x"), raw("club", "3", "x")}
	if _, err := a.Accept(t.Context(), all, nil); !errors.Is(err, accept.ErrFull) || tidemill.KindOf(err) != tidemill.RateLimit {
		t.Errorf("full: %v", err)
	}
	if _, err := q.Set(t.Context(), accept.Queue, func(s *queue.Settings) { s.Closed = true }); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(t.Context(), all, nil); !errors.Is(err, accept.ErrClosed) || tidemill.KindOf(err) != tidemill.RateLimit {
		t.Errorf("closed: %v", err)
	}
	if results, err := a.Accept(t.Context(), all[:2], nil); err != nil || results[0].Status != accept.Duplicate {
		t.Errorf("what is there: %v, %v", results, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Accept(gone, all[:1], nil); err != nil {
		t.Errorf("whoever sent it is gone: %v", err)
	}
}
