package analyticstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
	"github.com/tidemill/tidemill/systems/analytics/analyticstest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// open gives a harness its ingest API.
func open(t *testing.T, h analyticstest.Harness) analyticstest.Harness {
	t.Helper()
	handler, err := analyticsingest.New(analyticsingest.Options{Options: endpoint.Options{Projects: h.Projects}, Intake: h.Intake,
		Warn: func(ctx context.Context, p uuid.UUID, typ, event, distinct, reason string) {
			if err := h.Warehouse.Warn(ctx, []warehouse.Warning{{Project: p, Type: typ, Event: event, Distinct: distinct, Reason: reason, At: time.Now()}}); err != nil {
				t.Errorf("warn: %v", err)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	h.Door = handler
	return h
}
