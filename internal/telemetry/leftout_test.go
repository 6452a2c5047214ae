//go:build embedded

package telemetry_test

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/telemetry"
)

func TestTheSmallBinarySaysThatItSendsNothing(t *testing.T) {
	if _, err := telemetry.Open(t.Context(), telemetry.Options{Endpoint: "http://127.0.0.1:4318"}); err == nil || !strings.Contains(err.Error(), "telemetry.endpoint") {
		t.Errorf("a collector is taken: %v", err)
	}
}
